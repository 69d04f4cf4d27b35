package broken

import (
	"context"
	"errors"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

// GetThenSet is a claim in two steps, a GET and what follows from it: others come in between. TwoSteps watches the key
// meanwhile, and looks again if somebody did.
const GetThenSet Flaw = "get-then-set"

func (r *Redis) beginInSteps(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (told model.Record, claimed bool, err error) {
	var watched []string
	if r.flaw == TwoSteps {
		watched = append(watched, r.row(consumer, id))
	}
	for {
		err = r.client.Watch(ctx, func(tx *goredis.Tx) (err error) {
			told, claimed, err = r.getThenSet(ctx, tx, r.row(consumer, id), now, lease)
			return err
		}, watched...)
		if !errors.Is(err, goredis.TxFailedErr) {
			return told, claimed && err == nil, err
		}
		// Somebody else was there meanwhile, and nothing was set.
	}
}

func (r *Redis) getThenSet(ctx context.Context, tx *goredis.Tx, row string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	seen, err := tx.HMGet(ctx, row, "state", "attempts", "token", "until", "updated").Result()
	if err != nil {
		return model.Record{}, false, err
	}
	told := model.Record{}
	if seen[0] != nil {
		told, _ = record(append([]any{"0"}, seen...))
	}
	if told.State == model.Done || told.State == model.Processing && now.Before(told.LeaseUntil) {
		return told, false, nil
	}
	token, err := tx.Incr(ctx, r.index()+":token").Result()
	if err != nil {
		return model.Record{}, false, err
	}
	told = model.Record{
		State: model.Processing, Attempts: told.Attempts + 1, Token: strconv.FormatInt(token, 10),
		LeaseUntil: now.Add(lease), UpdatedAt: now,
	}
	_, err = tx.TxPipelined(ctx, func(set goredis.Pipeliner) error {
		return set.HSet(ctx, row, "state", string(told.State), "attempts", told.Attempts, "token", told.Token,
			"claimed", now.UnixMicro(), "until", told.LeaseUntil.UnixMicro(), "updated", now.UnixMicro()).Err()
	})
	return told, err == nil, err
}
