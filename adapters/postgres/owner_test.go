package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

func released(claim model.Record, at, visibleAt time.Time, reason string) model.Record {
	claim.UpdatedAt, claim.LeaseUntil, claim.Reason = at, visibleAt, reason
	return claim
}

func dead(claim model.Record, at time.Time, reason string) model.Record {
	claim.State, claim.LeaseUntil, claim.UpdatedAt, claim.Reason = model.Dead, time.Time{}, at, reason
	return claim
}

// byClaim is every call that takes a claim, each with arguments that would show.
func (f *fixture) byClaim(s *postgres.Store, id string, claim model.Record, now time.Time) map[string]func() error {
	return map[string]func() error{
		"complete claim":  func() error { return s.CompleteClaim(f.ctx, "c", id, claim, now) },
		"complete result": func() error { return s.CompleteResult(f.ctx, "c", id, claim, now, []byte("other")) },
		"commit effect":   func() error { return s.CommitEffect(f.ctx, "c", id, claim, now, model.Effect{ID: "never"}) },
		"commit tx": func() error {
			return s.CommitTx(f.ctx, f.claimOf(id, claim, now), func(tx pgx.Tx) error { return f.effect(tx, "never") })
		},
		"release": func() error { return s.Release(f.ctx, "c", id, claim, now, now.Add(time.Hour), "other") },
		"extend":  func() error { _, err := s.Extend(f.ctx, "c", id, claim, now, time.Hour); return err },
		"bury":    func() error { return s.Bury(f.ctx, "c", id, claim, now, "other") },
	}
}

// fencedOff presents a claim that is not current by every call, and finds that nothing changed.
func (f *fixture) fencedOff(t *testing.T, id string, claim model.Record, except ...string) {
	t.Helper()
	before, _, err := f.Lookup(f.ctx, "c", id)
	must(t, err)
	for name, call := range f.byClaim(f.Store, id, claim, at(time.Minute)) {
		if strings.Contains(strings.Join(except, ", "), name) {
			continue
		}
		err := call()
		if !errors.Is(err, model.ErrFenced) && !(before.State == model.Absent && errors.Is(err, model.ErrNotFound)) {
			t.Errorf("%s: %v", name, err)
		}
		if model.OutcomeOf(err) != model.NotApplied {
			t.Errorf("%s: the outcome of %v is %v", name, err, model.OutcomeOf(err))
		}
		f.stands(t, id, before)
	}
	f.effects(t, 0)
}

func TestEveryCallByAStaleClaimIsFencedInEveryState(t *testing.T) {
	f := newFixture(t)
	for name, next := range map[string]func(id string, stale model.Record){
		"taken over":           func(id string, _ model.Record) { f.begin(t, id, at(lease), lease) },
		"taken over, expired":  func(id string, _ model.Record) { f.begin(t, id, at(lease), time.Second) },
		"another's, released":  func(id string, _ model.Record) { f.releaseNext(t, id) },
		"done by another":      func(id string, _ model.Record) { f.doneNext(t, id) },
		"buried by another":    func(id string, _ model.Record) { f.buryNext(t, id) },
		"buried and replayed":  func(id string, stale model.Record) { f.buried(t, id, stale); must(t, f.Replay(f.ctx, "c", id, at(0))) },
		"replayed and claimed": func(id string, stale model.Record) { f.replayed(t, id, stale); f.begin(t, id, at(0), lease) },
		"forgotten":            func(id string, stale model.Record) { f.forgotten(t, id, stale) },
		"forgotten, born again": func(id string, stale model.Record) {
			f.forgotten(t, id, stale)
			f.begin(t, id, at(0), lease)
		},
		"forgotten, born again, done": func(id string, stale model.Record) {
			f.forgotten(t, id, stale)
			must(t, f.CompleteClaim(f.ctx, "c", id, f.begin(t, id, at(0), lease), at(0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			stale := f.begin(t, name, at(0), lease)
			next(name, stale)
			f.fencedOff(t, name, stale)
		})
	}
	r := f.begin(t, "no token", at(0), lease)
	for _, token := range []string{"", "0", "x", "0" + r.Token} {
		f.fencedOff(t, "no token", model.Record{Token: token})
	}
	f.fencedOff(t, "never seen", r)
}

func (f *fixture) releaseNext(t *testing.T, id string) {
	must(t, f.Release(f.ctx, "c", id, f.begin(t, id, at(lease), lease), at(lease), at(time.Hour), "r"))
}

func (f *fixture) doneNext(t *testing.T, id string) {
	must(t, f.CompleteResult(f.ctx, "c", id, f.begin(t, id, at(lease), lease), at(lease), []byte("r")))
}

func (f *fixture) buryNext(t *testing.T, id string) {
	f.buried(t, id, f.begin(t, id, at(lease), lease))
}

func (f *fixture) buried(t *testing.T, id string, claim model.Record) {
	must(t, f.Bury(f.ctx, "c", id, claim, at(0), "poison"))
}

func (f *fixture) replayed(t *testing.T, id string, claim model.Record) {
	f.buried(t, id, claim)
	must(t, f.Replay(f.ctx, "c", id, at(0)))
}

func (f *fixture) forgotten(t *testing.T, id string, claim model.Record) {
	must(t, f.CompleteClaim(f.ctx, "c", id, claim, at(-time.Hour)))
	f.prune(t, at(-time.Minute), 1)
}

func TestReleaseMakesTheMessageVisibleAtItsInstant(t *testing.T) {
	f := newFixture(t)
	now := at(time.Second)
	for name, c := range map[string]struct{ visibleAt, stored time.Time }{
		"within the lease":        {at(2 * time.Second), at(2 * time.Second)},
		"later than the lease":    {at(time.Hour), at(time.Hour)},
		"now":                     {now, now},
		"past":                    {at(-time.Hour), at(-time.Hour)},
		"zero":                    {time.Time{}, now},
		"between two microsecond": {at(2*time.Second + 1), at(2*time.Second + time.Microsecond)},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.begin(t, name, at(0), lease)
			must(t, f.Release(f.ctx, "c", name, r, now, c.visibleAt, "no stock"))
			want := released(r, now, c.stored, "no stock")
			f.stands(t, name, want)
			f.refused(t, name, c.stored.Add(-time.Nanosecond), want)
			next := f.begin(t, name, c.stored, lease)
			same(t, next, model.Record{State: model.Processing, Attempts: 2, LeaseUntil: c.stored.Add(lease), UpdatedAt: c.stored, Token: next.Token, Reason: "no stock"})
			increases(t, r, next)
			must(t, f.CompleteClaim(f.ctx, "c", name, next, at(time.Hour)))
			f.stands(t, name, done(next, at(time.Hour)))
		})
	}
}

func TestAReleasedClaimIsOver(t *testing.T) {
	f := newFixture(t)
	r, claimed, err := f.BeginAs(f.ctx, "c", "m", "n", at(0), lease)
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	must(t, f.Release(f.ctx, "c", "m", r, at(1*time.Second), at(time.Hour), "first"))
	f.fencedOff(t, "m", r, "release")
	again, claimed, err := f.BeginAs(f.ctx, "c", "m", "n", at(2*time.Second), lease)
	if err != nil || claimed {
		t.Fatalf("the delivery that gave the claim back was answered as its owner: %v", err)
	}
	same(t, again, released(r, at(1*time.Second), at(time.Hour), "first"))

	must(t, f.Release(f.ctx, "c", "m", r, at(2*time.Second), at(3*time.Second), ""))
	f.stands(t, "m", released(r, at(2*time.Second), at(3*time.Second), ""))
	f.fencedOff(t, "m", r, "release")
	f.begin(t, "m", at(3*time.Second), lease)
	f.fencedOff(t, "m", r)

	// Complete knows no claim: it completes what is there.
	r = f.begin(t, "by key", at(0), lease)
	must(t, f.Release(f.ctx, "c", "by key", r, at(0), at(time.Hour), "r"))
	must(t, f.Complete(f.ctx, "c", "by key", at(1*time.Second)))
	f.stands(t, "by key", done(r, at(1*time.Second)))
	must(t, f.CompleteClaim(f.ctx, "c", "by key", r, at(2*time.Second)))
	f.stands(t, "by key", done(r, at(1*time.Second)))

	late := f.begin(t, "late", at(0), lease)
	must(t, f.Release(f.ctx, "c", "late", late, at(2*lease), at(3*lease), "late"))
	f.refused(t, "late", at(2*lease), released(late, at(2*lease), at(3*lease), "late"))
}

func TestExtendKeepsTheLaterEnd(t *testing.T) {
	f := newFixture(t)
	r, _, err := f.BeginAs(f.ctx, "c", "m", "n", at(0), lease)
	must(t, err)
	extend := func(now time.Time, by time.Duration, until time.Time) {
		t.Helper()
		got, err := f.Extend(f.ctx, "c", "m", r, now, by)
		must(t, err)
		r.LeaseUntil = until
		same(t, got, r)
		f.stands(t, "m", r)
	}
	extend(at(5*time.Second), lease, at(15*time.Second))
	extend(at(4*time.Second), lease, at(15*time.Second))
	extend(at(6*time.Second), time.Microsecond, at(15*time.Second))
	extend(at(5*time.Second+1), lease, at(15*time.Second+time.Microsecond))
	f.refused(t, "m", at(15*time.Second), r)
	again, claimed, err := f.BeginAs(f.ctx, "c", "m", "n", at(15*time.Second), lease)
	if err != nil || !claimed {
		t.Fatalf("the nonce of an extended claim: %v, %v", claimed, err)
	}
	same(t, again, r)

	extend(at(time.Hour), lease, at(time.Hour+lease)) // late, and nobody took over
	next := f.begin(t, "m", at(time.Hour+lease), lease)
	_, err = f.Extend(f.ctx, "c", "m", r, at(time.Hour), 24*time.Hour)
	wantIs(t, err, model.ErrFenced)
	f.stands(t, "m", next)
}

func TestAHeartbeatThatComesAfterTheEndDoesNotResurrect(t *testing.T) {
	f := newFixture(t)
	for name, end := range map[string]func(id string, r model.Record) error{
		"complete":        func(id string, _ model.Record) error { return f.Complete(f.ctx, "c", id, at(1)) },
		"complete claim":  func(id string, r model.Record) error { return f.CompleteClaim(f.ctx, "c", id, r, at(1)) },
		"complete result": func(id string, r model.Record) error { return f.CompleteResult(f.ctx, "c", id, r, at(1), []byte{}) },
		"commit effect": func(id string, r model.Record) error {
			return f.CommitEffect(f.ctx, "c", id, r, at(1), model.Effect{ID: "e"})
		},
		"bury":    func(id string, r model.Record) error { return f.Bury(f.ctx, "c", id, r, at(1), "poison") },
		"release": func(id string, r model.Record) error { return f.Release(f.ctx, "c", id, r, at(1), at(2), "r") },
	} {
		r := f.begin(t, name, at(0), lease)
		must(t, end(name, r))
		ended, _, err := f.Lookup(f.ctx, "c", name)
		must(t, err)
		record, err := f.Extend(f.ctx, "c", name, r, at(time.Second), time.Hour)
		wantIs(t, err, model.ErrFenced)
		same(t, record, model.Record{})
		f.stands(t, name, ended)
		if name == "release" || name == "bury" {
			continue
		}
		wantIs(t, f.Release(f.ctx, "c", name, r, at(1), at(2), "r"), model.ErrFenced)
		wantIs(t, f.Bury(f.ctx, "c", name, r, at(1), "r"), model.ErrFenced)
		f.stands(t, name, ended)
	}
}

func TestBuryAndReplay(t *testing.T) {
	f := newFixture(t)
	wantIs(t, f.Replay(f.ctx, "c", "m", at(0)), model.ErrNotFound)
	notDead := func() {
		t.Helper()
		before, _, err := f.Lookup(f.ctx, "c", "m")
		must(t, err)
		wantIs(t, f.Replay(f.ctx, "c", "m", at(time.Hour)), postgres.ErrNotDead)
		f.stands(t, "m", before)
	}
	f.begin(t, "m", at(0), lease)
	second := f.begin(t, "m", at(lease), lease)
	notDead()
	must(t, f.Bury(f.ctx, "c", "m", second, at(9*lease), "poison")) // late, and nobody took over
	want := dead(second, at(9*lease), "poison")
	f.refused(t, "m", at(1000*time.Hour), want)
	must(t, f.Bury(f.ctx, "c", "m", second, at(10*lease), "again"))
	f.stands(t, "m", want)
	f.fencedOff(t, "m", second, "bury")
	wantIs(t, f.Complete(f.ctx, "c", "m", at(0)), model.ErrFenced)
	f.prune(t, at(1000*time.Hour), 0)
	f.stands(t, "m", want)
	_, claimed, err := f.BeginAs(f.ctx, "c", "m", "n", at(1000*time.Hour), lease)
	if err != nil || claimed {
		t.Fatal(claimed, err)
	}

	replayedAt := at(8 * lease)
	must(t, f.Replay(f.ctx, "c", "m", replayedAt))
	opened, _, err := f.Lookup(f.ctx, "c", "m")
	must(t, err)
	increases(t, second, opened)
	same(t, opened, model.Record{State: model.Processing, Attempts: 2, LeaseUntil: replayedAt, UpdatedAt: replayedAt, Token: opened.Token, Reason: "poison"})
	f.fencedOff(t, "m", second)
	notDead()
	third := f.begin(t, "m", replayedAt, lease)
	increases(t, opened, third)
	if third.Attempts != 3 || third.Reason != "poison" {
		t.Fatalf("%+v", third)
	}
	f.fencedOff(t, "m", opened)
	must(t, f.CompleteClaim(f.ctx, "c", "m", third, at(9*lease)))
	notDead()
	f.prune(t, at(1000*time.Hour), 1)
}

func TestCompleteResultKeepsTheBytes(t *testing.T) {
	f := newFixture(t)
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = byte(i * i >> 3)
	}
	for name, result := range map[string][]byte{
		"nil": nil, "empty": {}, "a zero": []byte("0"), "NUL": {0}, "no UTF-8": []byte("a\xff\xfe\x00b"), "1 MiB": big,
		"text": []byte(`\x61 'quoted'`),
	} {
		r := f.begin(t, name, at(0), lease)
		must(t, f.CompleteResult(f.ctx, "c", name, r, at(time.Second), result))
		want := done(r, at(time.Second))
		want.Result = result
		f.refused(t, name, at(time.Hour), want) // looks up, too
		must(t, f.CompleteResult(f.ctx, "c", name, r, at(2*time.Second), []byte("second")))
		must(t, f.CompleteClaim(f.ctx, "c", name, r, at(2*time.Second)))
		must(t, f.CommitEffect(f.ctx, "c", name, r, at(2*time.Second), model.Effect{ID: "never"}))
		must(t, f.Complete(f.ctx, "c", name, at(2*time.Second)))
		f.stands(t, name, want)
		if record, _, err := f.BeginAs(f.ctx, "c", name, "n", at(time.Hour), lease); err != nil {
			t.Fatal(err)
		} else {
			same(t, record, want)
		}
	}
	plain := f.begin(t, "plain", at(0), lease)
	must(t, f.CompleteClaim(f.ctx, "c", "plain", plain, at(0)))
	must(t, f.CompleteResult(f.ctx, "c", "plain", plain, at(0), []byte("too late")))
	f.stands(t, "plain", done(plain, at(0)))
	f.effects(t, 0)
	f.prune(t, at(time.Hour), 8)
	if again := f.begin(t, "a zero", at(0), lease); again.Result != nil {
		t.Fatalf("a new record has the result of the one that was forgotten: %q", again.Result)
	}
}

func TestTheLongestReasonAndAResultOfManyPagesFit(t *testing.T) {
	f := newFixture(t)
	reason := strings.Repeat("é", postgres.MaxReasonBytes/2)
	r := f.begin(t, "m", at(0), lease)
	must(t, f.Bury(f.ctx, "c", "m", r, at(0), reason))
	f.stands(t, "m", dead(r, at(0), reason))
	must(t, f.Replay(f.ctx, "c", "m", at(0)))
	r = f.begin(t, "m", at(0), lease)
	result := []byte(fmt.Sprint(strings.Repeat("0123456789", 300_000)))
	must(t, f.CompleteResult(f.ctx, "c", "m", r, at(0), result))
	want := done(r, at(0))
	want.Result = result
	f.stands(t, "m", want)
}
