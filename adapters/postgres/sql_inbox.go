package postgres

// inboxStatements are the texts of one inbox; see [statements].
type inboxStatements struct{ begin, mark, ledger, lookup, prune string }

func newInboxStatements(o Options) inboxStatements {
	names := o.names()
	return inboxStatements{
		begin:  beginSQL,
		mark:   names.Replace(markSQL),
		ledger: names.Replace(ledgerSQL),
		lookup: names.Replace(markedSQL),
		prune:  names.Replace(pruneInboxSQL),
	}
}

func (s inboxStatements) all() []string {
	return []string{isolationSQL, s.begin, s.mark, s.ledger, s.lookup, s.prune}
}

// markSQL bounds how long the block may idle, and answers whether the mark is new. A mark that is not committed yet is
// waited for. "do nothing" it is, and not an insert that fails: an error would abort the block.
const markSQL = `with fresh as (
	insert into {inbox} (consumer, message_id, applied_at)
	values ($1::text, $2::text, $3::timestamptz)
	on conflict (consumer, message_id) do nothing
	returning 1
)
select set_config('idle_in_transaction_session_timeout', $4::text, true), exists (select from fresh)`

const markedSQL = `select r.applied_at from {inbox} r where r.consumer = $1::text and r.message_id = $2::text`

// pruneInboxSQL is pruneSQL for marks, which never change once they are made.
const pruneInboxSQL = `with horizon as materialized (
	select coalesce($2::bigint, pg_sequence_last_value(pg_get_serial_sequence($3::text, 'seq')::regclass),
		9223372036854775807) as seq
), old as materialized (
	select r.consumer, r.message_id, r.seq
	from {inbox} r
	where r.applied_at < $1::timestamptz and r.seq <= (select h.seq from horizon h)
	order by r.applied_at, r.seq
	limit {batch}
	for update
), gone as (
	delete from {inbox} r using old
	where r.consumer = old.consumer and r.message_id = old.message_id and r.seq = old.seq
	returning 1
)
select (select count(*) from old), (select count(*) from gone), (select h.seq from horizon h)`
