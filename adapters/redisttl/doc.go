// Package redisttl is the message-dedup store that most teams have on Redis, done right: one string a message, a claim
// by SET NX PX, and a server that forgets by itself. It is for those who take its limits for its simplicity; the
// package redis beside it has none of them, at the price of a hash, an index and a Prune. It runs on Redis 7 and
// later, alone or as a cluster, and on miniredis in process.
//
// # What is kept
//
//	effectonce:{<len>:<namespace>:t:<len>:<consumer><id>
//
//	p:<token>            PROCESSING, expires with the lease
//	d:<token>            DONE, expires a window after its completion
//	r:<token>:<reason>   released, expires when the message is to be claimable
//
// Parts are preceded by their length in bytes, so that no two pairs of consumer and id meet in one key. Every call is
// one command or one script on one key, so any cluster node can serve it.
//
// # Done right
//
// What goes wrong in stores of this style, and what is done here about it:
//
//   - SETNX and EXPIRE apart leave a claim without an end if the caller dies between them: one SET does both.
//   - A constant as the value, or a DEL, lets a late owner complete or free what somebody else holds by now: the value
//     is a random token, and every later call compares it within a script.
//   - A GET after a refused SET may find the key expired: SET NX GET answers what it met, in the same step.
//   - One TTL for the claim and for DONE makes either crashes block for days or duplicates pass after seconds: there is
//     a lease, and there is a window, which begins at the completion.
//   - A driver that repeats a claim whose reply was lost meets its own claim and answers "not claimed": retries are off.
//
// # Time
//
// The server's clock decides, in milliseconds: a lease and a window are countdowns, rounded up. The now of a call is
// ignored, and so is the skew of the callers' clocks. Release alone reads it, for visibleAt minus now is how long the
// message stays out of reach; both come from the caller's clock, so that its skew cancels out.
//
// # What it cannot do
//
// Attempts are always 1: an expired claim leaves no record behind. For the same reason a poison message is never told
// from a fresh one, and MaxAttempts has nothing to count. Instants are not told, since the server keeps countdowns.
// Tokens are in no order, so they cannot fence elsewhere by comparison. Of the optional interfaces it leaves out
//
//   - Rebeginner: a caller that lost the reply to its claim waits until the lease is over;
//   - EffectCommitter: it keeps no effects. Write yours where it is protected by a unique key;
//   - ResultKeeper: a result would be forgotten with the window, and until then cost its memory in every duplicate;
//   - DeadLetterer: a dead letter must be kept until somebody looks, and this server forgets by itself.
//
// # What a deployment decides
//
// As with the package redis: durability is the server's (state [model.Contract].LosesOnCrash where it is less than
// appendfsync always), a failover loses what had not reached the replica, and maxmemory-policy must be noeviction:
// with every key about to expire anyway, the volatile policies would evict DONE first.
package redisttl
