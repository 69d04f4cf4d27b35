package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/effectonce/effectonce/model"
)

var (
	_ model.ResultKeeper = (*Store)(nil)
	_ model.Releaser     = (*Store)(nil)
	_ model.Extender     = (*Store)(nil)
	_ model.DeadLetterer = (*Store)(nil)
)

// CompleteResult is CompleteClaim that keeps result beside DONE, byte for byte and nil apart from empty: see
// [model.ResultKeeper]. A claim that is DONE already keeps what it has, also if that is no result.
func (s *Store) CompleteResult(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, result []byte) error {
	const op = "complete result"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	args := []string{at, claim.Token, ""}
	if result != nil {
		args = append(args, string(result))
	}
	p, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.finish, []string{key, p.done, p.ledger}, args...)
	return verdict(op, reply, err)
}

// Release gives the claim back, also past its lease as long as nobody took over: the message is claimable from
// visibleAt on, and until then a refused Begin is told visibleAt as LeaseUntil, and the reason. A visibleAt that is
// zero, or before what a record can hold, counts as now. The same claim may release again, and the last call counts;
// whatever else it does is [model.ErrFenced], so that a heartbeat still on its way cannot take the claim back.
func (s *Store) Release(ctx context.Context, consumer, messageID string, claim model.Record, now, visibleAt time.Time, reason string) error {
	const op = "release"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	visible, err := admitVisible(op, at, visibleAt)
	if err != nil {
		return err
	}
	_, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.release, []string{key}, at, claim.Token, visible, reason)
	return verdict(op, reply, err)
}

// Extend prolongs the claim to now+lease, also past its lease as long as nobody took over, and answers the record. A
// lease that ends later stays as it is: a heartbeat that was slow on its way shortens nothing. UpdatedAt stays the
// claim's.
func (s *Store) Extend(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, lease time.Duration) (model.Record, error) {
	const op = "extend"
	if _, err := admit(ctx, op, consumer, messageID, now); err != nil {
		return model.Record{}, err
	}
	until, err := admitLease(op, now, lease)
	if err != nil {
		return model.Record{}, err
	}
	_, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.extend, []string{key}, claim.Token, until)
	fields, told := reply.([]any)
	if err != nil || !told {
		return model.Record{}, verdict(op, reply, err)
	}
	record, err := parseRecord(fields[1:])
	return record, named(op, err)
}

// Bury gives the message up, also past the claim's lease as long as nobody took over: DEAD, with the reason, which a
// refused Begin is told. Prune never removes it, and Complete does not finish it. Burying again by the same claim is
// ok, and the first reason stays.
func (s *Store) Bury(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, reason string) error {
	const op = "bury"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	_, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.bury, []string{key}, at, claim.Token, reason)
	return verdict(op, reply, err)
}

// Replay opens a dead letter again: claimable from now on, its attempts kept, its reason gone, every earlier claim
// stale. Without a record the error is [model.ErrNotFound], and for a record that is no dead letter
// [model.ErrRefused], so also where a Replay before this one has opened it.
func (s *Store) Replay(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "replay"
	at, err := admit(ctx, op, consumer, messageID, now)
	if err != nil {
		return err
	}
	p, key := s.recordKey(consumer, messageID)
	reply, err := s.run(ctx, s.scripts.replay, []string{key, p.counter}, at, s.partitions, p.number)
	if state := fmt.Sprint(reply); err == nil && (state == string(model.Processing) || state == string(model.Done)) {
		return refused(op, "the record is "+state+", not DEAD")
	}
	return verdict(op, reply, err)
}

// admitVisible answers from when on a released claim may be taken over.
func admitVisible(op, now string, visibleAt time.Time) (string, error) {
	micro, ok := microseconds(visibleAt)
	switch {
	case ok:
		return strconv.FormatInt(micro, 10), nil
	case visibleAt.Before(time.Unix(0, 0)):
		return now, nil
	}
	return admitInstant(op, "visibleAt", visibleAt)
}
