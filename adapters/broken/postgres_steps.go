package broken

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// A claim in two statements, a SELECT and what follows from it. Others come in between, and what the SELECT saw may be
// no more: TwoSteps asks again whether it is, the flaws do not. Only calls that are open at once show the difference.
const (
	TwoSteps       Flaw = "two-steps"        // right: the second statement repeats what the first one saw
	InsertsBlindly Flaw = "inserts-blindly"  // absent, as it was seen: an upsert writes over whoever was faster
	InsertsOrFails Flaw = "inserts-or-fails" // absent, as it was seen: the loser gets a unique violation
	UpdatesBlindly Flaw = "updates-blindly"  // expired, as it was seen: the update names the message alone
)

func (p *Postgres) inSteps() bool {
	switch p.flaw {
	case TwoSteps, InsertsBlindly, InsertsOrFails, UpdatesBlindly:
		return true
	}
	return false
}

func (p *Postgres) claimInSteps(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	seen, found, err := p.Lookup(ctx, consumer, id)
	switch {
	case err != nil:
		return model.Record{}, false, err
	case !found:
		return p.insert(ctx, consumer, id, now, lease)
	case seen.State != model.Processing || now.Before(seen.LeaseUntil):
		return seen, false, nil
	}
	token, err := strconv.ParseInt(seen.Token, 10, 64)
	if err != nil {
		return model.Record{}, false, err
	}
	same := "token = $5 and state = 'PROCESSING'"
	if p.flaw == UpdatesBlindly {
		same = "$5::bigint is not null"
	}
	return claimed(p.pool.QueryRow(ctx, p.sql(`
		update %[1]s.dedup set state = 'PROCESSING', attempts = attempts + 1, token = nextval('%[1]s.token'), claimed = $3, until = $4, updated = $3
			where consumer = $1 and id = $2 and `+same+` returning `+columns), consumer, id, now, now.Add(lease), token))
}

func (p *Postgres) insert(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	conflict := "on conflict do nothing"
	switch p.flaw {
	case InsertsBlindly:
		conflict = `on conflict (consumer, id) do update set state = 'PROCESSING', attempts = 1, token = excluded.token,
			claimed = excluded.claimed, until = excluded.until, updated = excluded.updated`
	case InsertsOrFails:
		conflict = ""
	}
	return claimed(p.pool.QueryRow(ctx, p.sql(`
		insert into %[1]s.dedup values ($1, $2, 'PROCESSING', 1, nextval('%[1]s.token'), $3, $4, $3) `+conflict+` returning `+columns),
		consumer, id, now, now.Add(lease)))
}

// claimed reads the row that a statement claimed. None: what the SELECT saw is no more, and has to be looked at again.
func claimed(row pgx.Row) (model.Record, bool, error) {
	r, err := scan(row)
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Record{}, false, errVanished
	}
	return r, err == nil, err
}
