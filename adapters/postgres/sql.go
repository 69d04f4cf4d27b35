package postgres

// statements are the texts of one store, names filled in. The text is also the key under which a connection keeps
// the prepared statement.
type statements struct {
	claim, reread, lookup   string
	complete, completeClaim string
	begin, fence, fenced    string
	release, extend         string
	bury, replay            string
	ledger, prune           string
}

func newStatements(o Options) statements {
	names := o.names()
	return statements{
		claim:         names.Replace(claimSQL),
		reread:        names.Replace(rereadSQL),
		lookup:        names.Replace(lookupSQL),
		complete:      names.Replace(completeSQL),
		completeClaim: names.Replace(completeClaimSQL),
		begin:         beginSQL,
		fence:         names.Replace(fenceSQL),
		fenced:        names.Replace(fencedSQL),
		release:       names.Replace(releaseSQL),
		extend:        names.Replace(extendSQL),
		bury:          names.Replace(burySQL),
		replay:        names.Replace(replaySQL),
		ledger:        names.Replace(ledgerSQL),
		prune:         names.Replace(pruneSQL),
	}
}

// all lists what a warm connection has prepared.
func (s statements) all() []string {
	return []string{isolationSQL, s.claim, s.reread, s.lookup, s.complete, s.completeClaim, s.begin, s.fence, s.fenced,
		s.release, s.extend, s.bury, s.replay, s.ledger, s.prune}
}

// isolationSQL opens every pipeline. It has to be SET of the variable: SET TRANSACTION and SET LOCAL mean the same
// but warn outside a BEGIN block, once per call. The variable falls back to the session's default with the
// transaction's end, so that the next user of the connection finds it as it was.
const isolationSQL = `set transaction_isolation = 'read committed'`

// beginSQL opens the block of CommitTx and ApplyTx.
const beginSQL = `begin isolation level read committed read write`

// claimSQL answers one row (mine, record), or none if somebody was faster: see rereadSQL.
//
// "turn" comes between the look and the draw of the token: the insert's source is "turn", and the identity default
// is evaluated over a row of it. On conflict the token is drawn anew under the row's lock.
const claimSQL = `with seen as materialized (
	select coalesce(r.state = 'PROCESSING' and r.nonce = $5::text, false) as mine,
		r.state, r.attempts, r.lease_until, r.updated_at, r.token, r.reason, r.result
	from {table} r
	where r.consumer = $1::text and r.message_id = $2::text
		and (r.state <> 'PROCESSING' or r.lease_until > $3::timestamptz)
), turn as materialized (
	select pg_advisory_xact_lock(hashtextextended($1::text, hashtextextended($2::text, {seed})))
	where not exists (select from seen)
), claimed as (
	insert into {table} as r (consumer, message_id, state, attempts, lease_until, updated_at, nonce)
	select $1::text, $2::text, 'PROCESSING', 1, $4::timestamptz, $3::timestamptz, $5::text from turn
	on conflict (consumer, message_id) do update
	set attempts = r.attempts + 1, lease_until = excluded.lease_until, updated_at = excluded.updated_at,
		token = default, nonce = excluded.nonce, released = false
	where r.state = 'PROCESSING' and r.lease_until <= $3::timestamptz
	returning r.state, r.attempts, r.lease_until, r.updated_at, r.token, r.reason
)
select true, c.state, c.attempts, c.lease_until, c.updated_at, c.token, coalesce(c.reason, ''), null::bytea from claimed c
union all
select s.mine, s.state, s.attempts, s.lease_until, s.updated_at, s.token, coalesce(s.reason, ''), s.result from seen s`

// rereadSQL reads what refused the claim. The conflicting row is locked by claimSQL even where its WHERE was false,
// and stays so until the pipeline's end.
const rereadSQL = `select coalesce(r.state = 'PROCESSING' and r.nonce = $4::text, false),
	r.state, r.attempts, r.lease_until, r.updated_at, r.token, coalesce(r.reason, ''), r.result
from {table} r
where r.consumer = $1::text and r.message_id = $2::text
	and (r.state <> 'PROCESSING' or r.lease_until > $3::timestamptz)`

const lookupSQL = `select false, r.state, r.attempts, r.lease_until, r.updated_at, r.token, coalesce(r.reason, ''), r.result
from {table} r
where r.consumer = $1::text and r.message_id = $2::text`

// completeSQL and completeClaimSQL also match what is DONE already, rewriting it as it is: so that one statement
// tells "done before" from "no such claim", also for a row that changed while the statement waited for it. No row
// means that there was a moment within the call at which the record was absent (or, by claim, another's). completeSQL
// rewrites DEAD likewise, and its answer tells.
const completeSQL = `update {table} r
set updated_at = case r.state when 'PROCESSING' then $3::timestamptz else r.updated_at end,
	state = case r.state when 'DEAD' then 'DEAD' else 'DONE' end,
	lease_until = null, nonce = null, released = false, reason = case r.state when 'DEAD' then r.reason end
where r.consumer = $1::text and r.message_id = $2::text
returning r.state`

const completeClaimSQL = `update {table} r
set updated_at = case r.state when 'DONE' then r.updated_at else $4::timestamptz end,
	result = case r.state when 'DONE' then r.result else $5::bytea end,
	state = 'DONE', lease_until = null, nonce = null, reason = null
where r.consumer = $1::text and r.message_id = $2::text and r.token = $3::bigint
	and (r.state = 'DONE' or r.state = 'PROCESSING' and not r.released)
returning r.state`

// fenceSQL makes DONE in CommitTx's block; no row if the claim is not the current one.
const fenceSQL = `update {table} r
set state = 'DONE', lease_until = null, nonce = null, reason = null, updated_at = $3::timestamptz
where r.consumer = $1::text and r.message_id = $2::text and r.token = $4::bigint
	and r.state = 'PROCESSING' and not r.released`

// fencedSQL says why there was none, with a snapshot of its own, and bounds how long the block may idle.
const fencedSQL = `select set_config('idle_in_transaction_session_timeout', $4::text, true),
	coalesce(r.state = 'DONE' and r.token = $3::bigint, false), r.state is not null
from (values (1)) one left join {table} r on r.consumer = $1::text and r.message_id = $2::text`

// releaseSQL matches what was released already, so that the owner may say it again. The nonce goes: the delivery that
// gave its claim back is answered like any other.
const releaseSQL = `update {table} r
set released = true, lease_until = $5::timestamptz, updated_at = $4::timestamptz, reason = $6::text, nonce = null
where r.consumer = $1::text and r.message_id = $2::text and r.token = $3::bigint and r.state = 'PROCESSING'
returning r.state`

// extendSQL never shortens: a heartbeat that was overtaken by a later one changes nothing.
const extendSQL = `update {table} r
set lease_until = greatest(r.lease_until, $4::timestamptz)
where r.consumer = $1::text and r.message_id = $2::text and r.token = $3::bigint
	and r.state = 'PROCESSING' and not r.released
returning true, r.state, r.attempts, r.lease_until, r.updated_at, r.token, coalesce(r.reason, ''), null::bytea`

// burySQL rewrites as it is what its own claim buried before.
const burySQL = `update {table} r
set updated_at = case r.state when 'DEAD' then r.updated_at else $4::timestamptz end,
	reason = case r.state when 'DEAD' then r.reason else $5::text end,
	state = 'DEAD', lease_until = null, nonce = null
where r.consumer = $1::text and r.message_id = $2::text and r.token = $3::bigint
	and (r.state = 'DEAD' or r.state = 'PROCESSING' and not r.released)
returning r.state`

// replaySQL draws a token that nobody is told at once, which makes every earlier claim stale. DEAD is never removed, so
// the row that it draws for cannot be one that was forgotten meanwhile.
const replaySQL = `update {table} r
set state = 'PROCESSING', released = true, lease_until = $3::timestamptz, updated_at = $3::timestamptz, token = default
where r.consumer = $1::text and r.message_id = $2::text and r.state = 'DEAD'
returning r.state`

const ledgerSQL = `insert into {ledger} (effect_id, account, amount, consumer, message_id)
values ($1::text, $2::text, $3::bigint, $4::text, $5::text)`

// pruneSQL removes one batch and answers how many rows it found, how many it removed, and the horizon: the newest
// token at the first batch. Later claims are beyond the horizon, so the work is finite however fast others complete.
//
// The rows are locked in one total order before they are removed, so that two prunes cannot deadlock, and each is
// judged anew once its lock is had. It waits for locks: a row that somebody merely locks is old all the same.
const pruneSQL = `with horizon as materialized (
	select coalesce($2::bigint, pg_sequence_last_value(pg_get_serial_sequence($3::text, 'token')::regclass),
		9223372036854775807) as token
), old as materialized (
	select r.consumer, r.message_id, r.token
	from {table} r
	where r.state = 'DONE' and r.updated_at < $1::timestamptz and r.token <= (select h.token from horizon h)
	order by r.updated_at, r.token
	limit {batch}
	for update
), gone as (
	delete from {table} r using old
	where r.consumer = old.consumer and r.message_id = old.message_id and r.token = old.token
		and r.state = 'DONE' and r.updated_at < $1::timestamptz
	returning 1
)
select (select count(*) from old), (select count(*) from gone), (select h.token from horizon h)`
