package redisttl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/model"
)

var (
	_ model.Store    = (*Store)(nil)
	_ model.Fencer   = (*Store)(nil)
	_ model.Extender = (*Store)(nil)
	_ model.Releaser = (*Store)(nil)
	_ model.Reader   = (*Store)(nil)
)

// Begin claims a message for a lease of at least 1ms of the server's time: see [model.Store]. A message whose lease is
// over is absent. After an error that proves nothing the claim may have been made, and only its lease ends it.
func (s *Store) Begin(ctx context.Context, consumer, messageID string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	const op = "begin"
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return model.Record{}, false, err
	}
	if err := admitLease(op, lease); err != nil {
		return model.Record{}, false, err
	}
	key, token, began := s.key(consumer, messageID), rand.Text(), time.Now()
	met, err := redis.Send(ctx, s.client, 1, "set", key, "p:"+token, "nx", "get", "px", milliseconds(lease))
	if errors.Is(err, goredis.Nil) {
		s.claims.remember(key, token, began, lease)
		return model.Record{State: model.Processing, Attempts: 1, Token: token}, true, nil
	}
	if err != nil {
		return model.Record{}, false, failed(op, err)
	}
	record, err := parse(fmt.Sprint(met))
	return record, false, named(op, err)
}

// Complete makes the claim that was made through this Store DONE; through another one nothing is known of it, so a live
// claim of others, or one that was released, is [model.ErrFenced]. DONE already is ok, whoever did it. Without a record,
// so also once the lease is over, the error is [model.ErrNotFound].
func (s *Store) Complete(ctx context.Context, consumer, messageID string, now time.Time) error {
	const op = "complete"
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	key := s.key(consumer, messageID)
	token := s.claims.token(key)
	reply, err := s.scripts.complete.Run(ctx, s.client, []string{key}, token, s.window)
	if err == nil {
		s.claims.forget(key, token)
	}
	if reply == "done" {
		reply = "ok"
	}
	return verdict(op, reply, err)
}

// CompleteClaim makes a message DONE if claim is current, and keeps it so for the window: see [model.Fencer]. Without a
// record, so also once the lease is over, the error is [model.ErrNotFound].
func (s *Store) CompleteClaim(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time) error {
	const op = "complete claim"
	if err := admitClaim(ctx, op, consumer, messageID, claim, now); err != nil {
		return err
	}
	key := s.key(consumer, messageID)
	reply, err := s.scripts.complete.Run(ctx, s.client, []string{key}, claim.Token, s.window)
	if err == nil {
		s.claims.forget(key, claim.Token)
	}
	return verdict(op, reply, err)
}

// Extend sets the claim's end to a lease from now on, in the server's time, unless it ends later anyway, and answers
// the record. A lease that is over cannot be prolonged: nothing is left of it.
func (s *Store) Extend(ctx context.Context, consumer, messageID string, claim model.Record, now time.Time, lease time.Duration) (model.Record, error) {
	const op = "extend"
	if err := admitClaim(ctx, op, consumer, messageID, claim, now); err != nil {
		return model.Record{}, err
	}
	if err := admitLease(op, lease); err != nil {
		return model.Record{}, err
	}
	key, began := s.key(consumer, messageID), time.Now()
	reply, err := s.scripts.extend.Run(ctx, s.client, []string{key}, claim.Token, milliseconds(lease))
	if err := verdict(op, reply, err); err != nil {
		return model.Record{}, err
	}
	s.claims.prolong(key, claim.Token, began, lease)
	return model.Record{State: model.Processing, Attempts: 1, Token: claim.Token}, nil
}

// Release gives the claim back: the message is claimable once visibleAt−now has passed on the server, and until then a
// refused Begin is told the reason. With a visibleAt that is zero or not after now it is claimable at once, nothing is
// left, and the reason with it. The same claim may release again while it is remembered; whatever else it does is
// [model.ErrFenced].
func (s *Store) Release(ctx context.Context, consumer, messageID string, claim model.Record, now, visibleAt time.Time, reason string) error {
	const op = "release"
	if err := admitClaim(ctx, op, consumer, messageID, claim, now); err != nil {
		return err
	}
	wait := max(0, visibleAt.Sub(now.Round(0)))
	key := s.key(consumer, messageID)
	reply, err := s.scripts.release.Run(ctx, s.client, []string{key}, claim.Token, milliseconds(wait), reason)
	if err == nil {
		s.claims.forget(key, claim.Token)
	}
	return verdict(op, reply, err)
}

// Lookup answers the record as it stands; false where there is none, also because its time is over.
func (s *Store) Lookup(ctx context.Context, consumer, messageID string) (model.Record, bool, error) {
	const op = "lookup"
	if err := admitKey(ctx, op, consumer, messageID); err != nil {
		return model.Record{}, false, err
	}
	kept, err := redis.Send(ctx, s.client, 1, "get", s.key(consumer, messageID))
	if errors.Is(err, goredis.Nil) {
		return model.Record{}, false, nil
	}
	if err != nil {
		return model.Record{}, false, failed(op, err)
	}
	record, err := parse(fmt.Sprint(kept))
	return record, err == nil, named(op, err)
}

// Prune has nothing to do, since the server forgets by itself: 0 and no error, unless ctx is over.
func (s *Store) Prune(ctx context.Context, _ time.Time) (int, error) {
	return 0, alive(ctx, "prune")
}

// admitClaim is admit for a call that presents a claim. No token of ours has a colon, and one that has could pass for
// the head of another in what a release writes.
func admitClaim(ctx context.Context, op, consumer, messageID string, claim model.Record, now time.Time) error {
	if err := admit(ctx, op, consumer, messageID, now); err != nil {
		return err
	}
	if claim.Token == "" || strings.Contains(claim.Token, ":") {
		return named(op, fmt.Errorf("no claim has the token %q: %w", claim.Token, model.ErrFenced))
	}
	return nil
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
	case "fenced", "done":
		return named(op, model.ErrFenced)
	}
	return fmt.Errorf("redisttl: %s: unexpected reply %v", op, reply)
}
