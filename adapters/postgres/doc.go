// Package postgres is a message-dedup store on PostgreSQL 15 or later, over pgx.
//
// [New] makes a handle over a pool that the caller owns, [Open] one with a small pool of its own. [Store.Migrate]
// makes the tables. A consumer calls [Store.Begin] (or [Store.BeginAs], which survives a lost reply), works, and
// finishes with [Store.CommitTx], which puts the business write and DONE into one transaction: the only way to one
// effect exactly.
//
// # Time
//
// The caller's clock alone decides; the server's is never asked. Postgres keeps microseconds: the now of a call is
// cut down to one and the end of a lease is rounded up to one, so nothing can be taken over early, not even by a
// nanosecond, and no lease is empty. Locations, the session's TimeZone and the server's never matter.
//
// # Round trips
//
// Every call but CommitTx and a Prune of several batches is one pipeline: its statements travel together, end in one
// Sync, and are one implicit transaction. Statements are prepared, so a connection's first use of one costs a
// parse-only round trip before it, on which nothing is executed. Handles made by [Open] prepare when they connect,
// and look for a dead connection by peeking at its socket instead of pinging, so that each of their calls is exactly
// one round trip. Over a caller's pool, [Store.Warm] prepares on the connections that are idle; pgx's own statement
// cache (QueryExecModeCacheStatement, its default mode) does so for the others at their first call, and the pool
// pings a connection that has been idle for a second. All other exec modes work, the simple protocol too.
//
// CommitTx takes one round trip for its begin and fence, those of the caller's function, and one for the commit.
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
// CommitTx holds the row's lock while the caller's function runs, and a takeover of that key waits for it.
// Options.CommitIdle bounds how long a worker that stalled or vanished in there can keep it.
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
// tool. At run time a role needs USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the table, INSERT on the
// ledger if CommitEffect is used, and SELECT on the table's sequence if Prune is. The database's encoding must be UTF8.
package postgres
