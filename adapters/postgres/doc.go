// Package postgres is a message-dedup store on PostgreSQL 15 or later, over pgx.
//
// [New] makes a handle over a pool that the caller owns, [Open] one with a small pool of its own. [Store.Migrate]
// makes the tables. A consumer calls [Store.Begin] (or [Store.BeginAs], which survives a lost reply), works, and
// finishes with [Store.CommitTx], which puts the business write and DONE into one transaction. Where nothing but this
// database is written to, an [Inbox] does without a claim: [Inbox.ApplyTx] is mark and business write in one. These two
// are the only ways to one effect exactly.
//
// # What an owner does with its claim
//
// [Store.Extend] prolongs it (a heartbeat), [Store.Release] gives it back for a fast retry, [Store.Bury] makes a poison
// message a dead letter, which [Store.Replay] opens again after the fix, and [Store.CompleteResult] keeps a result for
// duplicates. All present the record that Begin answered, and all go by its token, judged under the record's lock:
//
//	record                      CompleteClaim, CommitTx,  Release       Extend        Bury
//	                            CommitEffect, -Result
//	claim current, lease over   ok                        ok            ok            ok
//	   or not, nobody took over
//	claim released by its owner ErrFenced                 ok, the last  ErrFenced     ErrFenced
//	                                                      word counts
//	DONE by this claim          ok, nothing changes       ErrFenced     ErrFenced     ErrFenced
//	DEAD by this claim          ErrFenced                 ErrFenced     ErrFenced     ok, nothing changes
//	anything else               ErrFenced                 ErrFenced     ErrFenced     ErrFenced
//
// (CommitTx and CommitEffect say ErrNotFound where no record is left.) So a heartbeat that comes late, after the
// completion, the release or a takeover, changes nothing and says that its worker should stop. [Store.Complete]
// carries no claim: it makes whatever is PROCESSING DONE, a released message too, and is refused for a dead letter.
//
// Extend leaves UpdatedAt alone; Release, Bury and Replay set it to their now. A record tells the last reason until it
// is DONE, and then its result.
//
// # Time
//
// The caller's clock alone decides; the server's is never asked. Postgres keeps microseconds: the now of a call is
// cut down to one and the end of a lease is rounded up to one, so nothing can be taken over early, not even by a
// nanosecond, and no lease is empty. Locations, the session's TimeZone and the server's never matter.
//
// # Round trips
//
// Every call but CommitTx, ApplyTx and a Prune of several batches is one pipeline: its statements travel together, end in one
// Sync, and are one implicit transaction. Statements are prepared, so a connection's first use of one costs a
// parse-only round trip before it, on which nothing is executed. Handles made by [Open] prepare when they connect,
// and look for a dead connection by peeking at its socket instead of pinging, so that each of their calls is exactly
// one round trip. Over a caller's pool, [Store.Warm] prepares on the connections that are idle; pgx's own statement
// cache (QueryExecModeCacheStatement, its default mode) does so for the others at their first call, and the pool
// pings a connection that has been idle for a second. All other exec modes work, the simple protocol too.
//
// CommitTx takes one round trip for its begin and fence, those of the caller's function, and one for the commit;
// ApplyTx likewise, with the mark for the fence.
//
// A call is one attempt: nothing here repeats a call or a statement.
//
// # Concurrency
//
// Each call sets READ COMMITTED for its own transaction, whatever the session's default is: under a stricter level
// contention would be answered with serialization failures instead of "not claimed".
//
// Begin first looks: a record that is DONE or under a live lease refuses the claim from the statement's snapshot,
// without a lock or a write. Otherwise it inserts, or updates on conflict only what may be taken over. Where that
// finds that somebody was faster it keeps the row's lock, and the pipeline's next statement reads the row: with a
// snapshot taken after the lock was had, so it sees what refused the claim.
//
// A token is a number of the table's identity sequence. A takeover draws it under the row's lock. A first claim has
// no row to lock, and two that overlap could insert in another order than they drew if the faster record were
// completed and pruned meanwhile; so claims of one key take turns, by an advisory lock on a 64-bit hash of schema,
// table and key, held for that one transaction. Thus tokens increase per key, over takeovers, Prune and restarts,
// and a token is fit for fencing elsewhere. The sequence must keep CACHE 1.
//
// CommitTx holds the row's lock while the caller's function runs, and a takeover of that key waits for it; ApplyTx
// holds its mark, and whoever applies the same message waits. Options.CommitIdle bounds how long a worker that stalled
// or vanished in there can keep it.
//
// # Errors
//
// Errors Is-match the sentinels of package model. An error that proves that nothing changed (refused input, no
// connection, an ERROR of the server, which rolls back) is NotApplied for model.OutcomeOf; a lost connection or a
// deadline in mid-call stays Unknown, since the server may have done its work. No error carries a password.
//
// # Schema and privileges
//
// The files under migrations/ are the schema, with its reasons; [MigrationSQL] renders them for one's own migration
// tool. A version that comes to a table in use adds to it without reading its rows, and leaves the statements of the
// version before working, so that workers can be replaced one by one after the migration. Until the last old one
// is gone, its completions do not respect a dead letter.
//
// At run time a role needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the table (for an inbox SELECT,
// INSERT, DELETE and, for Prune's row locks, UPDATE on its own), INSERT on the ledger if CommitEffect or ApplyOnce is
// used, and SELECT on the table's sequence if Prune is. The database's encoding must be UTF8.
package postgres
