// Package redis is a message-dedup store on Redis: one script per call, no retries, the callers' clock. It runs on
// Redis 7 and later, alone or as a cluster, and on miniredis in process.
//
// # Layout
//
// A namespace is split into partitions, 16 by default. The keys of one partition share a hash tag, so that a cluster
// keeps them on one node and a script finds all it needs there:
//
//	effectonce:{<len>:<namespace>:<p>}:r:<len>:<consumer><id>   hash    one record
//	effectonce:{<len>:<namespace>:<p>}:d                        zset    DONE records by time of completion
//	effectonce:{<len>:<namespace>:<p>}:c                        string  claims counted since the namespace was made
//	effectonce:{<len>:<namespace>:<p>}:l                        list    the ledger of committed effects
//	effectonce:{<len>:<namespace>:layout}                       string  the number of partitions
//
// A part is preceded by its length in bytes, so that no two pairs of consumer and id meet in one key, whatever bytes
// they are made of. The partition is CRC-32 (IEEE) of what follows "r:", modulo their number. That number is fixed
// when the namespace is made: [Store.Warm] refuses another one, since two workers that disagree would not see each
// other's claims.
//
// A record has the fields state, attempts, lease, updated, token and nonce; released and reason from a release or a
// burial on, until the next claim; result from [Store.CompleteResult] on, for as long as DONE is remembered. DEAD
// records are in no index: they stay until Replay.
//
// # What becomes of a claim
//
// A claim is current until somebody takes over, its lease notwithstanding: its owner may complete, extend, release or
// bury as long as nobody did. Completion and burial end it, and repeating them is ok. A release gives it up before
// somebody else has it, so that all its owner can still do is to release again. Replay makes it stale by drawing a
// token that nobody is told. Whatever it is refused for, the error is [model.ErrFenced], or [model.ErrNotFound] where
// no record is left.
//
// # Tokens
//
// A claim's token is counter × partitions + partition: a base-10 uint64 that increases per key, also over Prune and
// over a restart that keeps the data, and that no other claim of the namespace ever bears. It can fence elsewhere.
//
// # Time
//
// Instants are the callers' and are kept in whole microseconds since 1970, since Redis compares numbers as doubles:
// microseconds fit below 2^53 (until the year 2255), nanoseconds do not. Every instant is truncated towards the past
// on its way in. So a lease of at least 1µs never becomes none, and a claim is taken over less than 1µs early at
// most. No server clock takes part, neither TIME nor an expiry of keys.
//
// # What a deployment decides
//
// Durability is the server's: with appendonly and appendfsync always nothing that was answered is lost; with less,
// state [model.Contract].LosesOnCrash. A failover to a replica loses what had not reached it. maxmemory-policy must be
// noeviction, since an evicted DONE record is a message that is handled again.
//
// # A store of your own
//
// [NewClient], [Opened], [Script], [Send] and [Outcome] are what this store stands on, and [Drop], [Settled] and
// [Control] are what the kit needs beside it; they serve another store on Redis as well. The package redisttl is one.
package redis
