package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/effectonce/effectonce/model"
)

var (
	_ model.Store           = (*Store)(nil)
	_ model.Rebeginner      = (*Store)(nil)
	_ model.Fencer          = (*Store)(nil)
	_ model.EffectCommitter = (*Store)(nil)
	_ model.Reader          = (*Store)(nil)
)

// pruneBatch bounds how many records one script removes, and so how long other callers wait behind it.
const pruneBatch = 500

// Begin claims a message: see [model.Store]. An error that proves that nothing changed says so ([model.NoEffect],
// [model.ErrRefused]); after any other the claim may have been made, and only its lease or a nonce brings it back.
func (s *Store) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	return s.begin(ctx, "begin", consumer, messageID, "", now, lease)
}

// BeginAs is Begin under a nonce that names one delivery: see [model.Rebeginner].
func (s *Store) BeginAs(ctx context.Context, consumer, messageID, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	if nonce == "" {
		return model.Record{}, false, refused("begin as", "the nonce is empty")
	}
	return s.begin(ctx, "begin as", consumer, messageID, nonce, now, lease)
}

func (s *Store) begin(ctx context.Context, op, consumer, messageID, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return model.Record{}, false, err
	}
	until, err := admitLease(op, now, lease)
	if err != nil {
		return model.Record{}, false, err
	}
	p, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.begin, []string{key, p.counter}, at, until, nonce, s.partitions, p.number)
	if err != nil {
		return model.Record{}, false, failed(op, err)
	}
	fields, ok := reply.([]any)
	if !ok || len(fields) != 1+recordFields {
		return model.Record{}, false, fmt.Errorf("redis: %s: unexpected reply %T", op, reply)
	}
	record, err := parseRecord(fields[1:])
	if err != nil {
		return model.Record{}, false, named(op, err)
	}
	return record, fields[0] == int64(1), nil
}

// Complete makes a message DONE, whoever holds it, and whether or not it was released. DONE already is ok and keeps
// UpdatedAt; without a record the error is [model.ErrNotFound], and for a dead letter [model.ErrFenced].
func (s *Store) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "complete"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	p, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.complete, []string{key, p.done}, at)
	return verdict(op, reply, err)
}

// CompleteClaim makes a message DONE if claim is current, also past its lease as long as nobody took over: see
// [model.Fencer]. Without a record the error is [model.ErrNotFound].
func (s *Store) CompleteClaim(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time) error {
	const op = "complete claim"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	p, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.finish, []string{key, p.done, p.ledger}, at, claim.Token, "")
	return verdict(op, reply, err)
}

// CommitEffect is CompleteClaim that appends the effect to the partition's ledger in the same script: see
// [model.EffectCommitter]. A claim that is DONE already writes no second effect, also where Complete made it so.
func (s *Store) CommitEffect(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, effect model.Effect) error {
	const op = "commit effect"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	p, key := s.recordKey(consumer, messageID)
	row := effectRow(consumer, messageID, effect)
	reply, err := s.run(ctx, s.scripts.finish, []string{key, p.done, p.ledger}, at, claim.Token, row)
	return verdict(op, reply, err)
}

// Lookup answers the record as it stands; false where there is none.
func (s *Store) Lookup(ctx context.Context, consumer, messageID string) (model.Record, bool, error) {
	const op = "lookup"
	if err := alive(ctx, op); err != nil {
		return model.Record{}, false, err
	}
	if err := admitKey(op, consumer, messageID); err != nil {
		return model.Record{}, false, err
	}
	_, key := s.recordKey(consumer, messageID)
	reply, err := s.send(ctx, 1, "hmget", key, "state", "attempts", "lease", "updated", "token", "reason", "result")
	if err != nil {
		return model.Record{}, false, failed(op, err)
	}
	fields, ok := reply.([]any)
	if !ok || len(fields) != recordFields {
		return model.Record{}, false, fmt.Errorf("redis: %s: unexpected reply %T", op, reply)
	}
	if fields[0] == nil {
		return model.Record{}, false, nil
	}
	record, err := parseRecord(fields)
	if err != nil {
		return model.Record{}, false, named(op, err)
	}
	return record, true, nil
}

// Prune forgets the DONE records updated before the given instant and answers how many this call removed, also beside
// an error. It goes partition by partition in batches of at most 500, between which other callers are served and ctx
// is asked: one round trip a partition, and two a batch. What was old and DONE during the whole call is gone when it
// returns without an error.
func (s *Store) Prune(ctx context.Context, before time.Time) (int, error) {
	const op = "prune"
	if err := alive(ctx, op); err != nil {
		return 0, err
	}
	removed := 0
	for i := range s.slots {
		n, err := s.prunePartition(ctx, &s.slots[i], cutOff(before))
		removed += n
		if err != nil && removed > 0 {
			return removed, named(op, err)
		}
		if err != nil {
			return 0, failed(op, err)
		}
	}
	return removed, nil
}

// prunePartition reads the index and removes what it read, so that every key a script touches is declared to it.
func (s *Store) prunePartition(ctx context.Context, p *slot, before string) (int, error) {
	for removed := 0; ; {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		reply, err := s.send(ctx, 1, "zrange", p.done, "-inf", "("+before, "byscore", "limit", 0, pruneBatch)
		if err != nil {
			return removed, err
		}
		old, ok := reply.([]any)
		if !ok {
			return removed, fmt.Errorf("unexpected reply %T", reply)
		}
		if len(old) == 0 {
			return removed, nil
		}
		keys := make([]string, 1, 1+len(old))
		keys[0] = p.done
		for _, member := range old {
			key, err := textOf(member)
			if err != nil {
				return removed, err
			}
			keys = append(keys, key)
		}
		reply, err = s.run(ctx, s.scripts.prune, keys, before)
		if err != nil {
			return removed, err
		}
		n, ok := reply.(int64)
		if !ok {
			return removed, fmt.Errorf("unexpected reply %T", reply)
		}
		removed += int(n)
		if len(old) < pruneBatch {
			return removed, nil
		}
	}
}

// admit checks what every call on one message is given, before any I/O, and answers now as the scripts take it.
func admit(ctx context.Context, op, consumer, messageID string, now time.Time) (string, error) {
	if err := alive(ctx, op); err != nil {
		return "", err
	}
	if err := admitKey(op, consumer, messageID); err != nil {
		return "", err
	}
	return admitInstant(op, "now", now)
}

// verdict turns the word that a script answers into an error.
func verdict(op string, reply any, err error) error {
	if err != nil {
		return failed(op, err)
	}
	switch reply {
	case "ok":
		return nil
	case "absent":
		return named(op, model.ErrNotFound)
	case "fenced":
		return named(op, model.ErrFenced)
	}
	return fmt.Errorf("redis: %s: unexpected reply %v", op, reply)
}

const recordFields = 7

// parseRecord reads state, attempts, lease, updated and token, and after them reason and result, each of which may be
// missing.
func parseRecord(fields []any) (model.Record, error) {
	var text [5]string
	for i := range text {
		var err error
		if text[i], err = textOf(fields[i]); err != nil {
			return model.Record{}, err
		}
	}
	attempts, err := strconv.Atoi(text[1])
	if err != nil {
		return model.Record{}, fmt.Errorf("attempts: %w", err)
	}
	r := model.Record{State: model.State(text[0]), Attempts: attempts, Token: text[4]}
	if r.LeaseUntil, err = parseInstant(text[2]); err != nil {
		return model.Record{}, fmt.Errorf("lease: %w", err)
	}
	if r.UpdatedAt, err = parseInstant(text[3]); err != nil {
		return model.Record{}, fmt.Errorf("updated: %w", err)
	}
	if reason, ok := fields[5].(string); ok {
		r.Reason = reason
	}
	if result, ok := fields[6].(string); ok {
		r.Result = []byte(result)
	}
	return r, nil
}

func parseInstant(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	micro, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(micro).UTC(), nil
}
