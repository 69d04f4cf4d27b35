package broken

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Extend prolongs a claim. The flaw ExtendsByKey names the message and not the claim.
func (p *Postgres) Extend(ctx context.Context, consumer, id string, claim model.Record, now time.Time, lease time.Duration) (model.Record, error) {
	token, err := strconv.ParseInt(claim.Token, 10, 64)
	if err != nil {
		return model.Record{}, model.ErrFenced
	}
	which := "token = $3"
	if p.flaw == ExtendsByKey {
		which = "$3::bigint is not null"
	}
	r, err := scan(p.pool.QueryRow(ctx, p.sql(`update %s.dedup set until = greatest(until, $4)
		where consumer = $1 and id = $2 and state = 'PROCESSING' and `+which+` returning `+columns), consumer, id, token, now.Add(lease)))
	if errors.Is(err, pgx.ErrNoRows) {
		return model.Record{}, model.ErrFenced
	}
	return r, err
}
