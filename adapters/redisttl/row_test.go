package redisttl

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/model"
)

// row is one message on one server, with a unit of time of which a lease is three and a window five.
type row struct {
	t    *testing.T
	url  string
	unit time.Duration
	pass func(time.Duration)
	ns   string
	a, b *Store // two handles
}

var namespaces atomic.Int64

// eachServer runs a row on miniredis, whose clock the row moves, and on a real server, where the message's own
// countdown is moved instead. That a real server's own clock ends it is a test of its own.
func eachServer(t *testing.T, run func(row)) {
	t.Run("miniredis", func(t *testing.T) {
		server := miniredis.RunT(t)
		run(newRow(t, row{t: t, url: "redis://" + server.Addr(), unit: time.Second, pass: server.FastForward}))
	})
	t.Run("redis", func(t *testing.T) {
		r := newRow(t, row{t: t, url: realRedis.Need(t).DSN(), unit: time.Minute})
		r.pass = func(d time.Duration) { r.sooner(d) }
		run(r)
	})
}

// sooner takes d from what is left of the message.
func (r row) sooner(d time.Duration) {
	r.t.Helper()
	key := r.a.key("c", "m")
	left, err := r.a.client.PTTL(r.t.Context(), key).Result()
	switch {
	case err != nil:
		r.t.Fatal(err)
	case left == -2: // there is none
	case left < 0:
		r.t.Fatalf("%q never expires", key)
	default:
		if err := r.a.client.PExpire(r.t.Context(), key, left-d).Err(); err != nil {
			r.t.Fatal(err)
		}
	}
}

func newRow(t *testing.T, r row) row {
	r.ns = "ttl-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatInt(namespaces.Add(1), 10)
	r.a, r.b = r.open(), r.open()
	t.Cleanup(func() {
		if err := redis.Drop(context.Background(), r.url, r.ns); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r row) open() *Store {
	r.t.Helper()
	s, err := Open(r.t.Context(), r.url, Options{Namespace: r.ns, Window: r.units(5)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	return s
}

func (r row) units(n int) time.Duration { return time.Duration(n) * r.unit }

// after lets units of the server's time pass.
func (r row) after(n int) { r.pass(r.units(n)) }

// epoch is far from every clock: the store must not care.
var epoch = time.Date(1999, 5, 6, 7, 8, 9, 0, time.UTC)

func (r row) begin(s *Store) (model.Record, bool) {
	r.t.Helper()
	got, claimed, err := s.Begin(r.t.Context(), "c", "m", epoch, r.units(3))
	if err != nil {
		r.t.Fatal(err)
	}
	return got, claimed
}

func (r row) claimed(s *Store) model.Record {
	r.t.Helper()
	got, claimed := r.begin(s)
	if !claimed || got.State != model.Processing || got.Attempts != 1 || got.Token == "" || !got.LeaseUntil.IsZero() || !got.UpdatedAt.IsZero() {
		r.t.Fatalf("Begin answers %+v, %v, want a claim", got, claimed)
	}
	r.holds(got)
	r.lasts(2, 3)
	return got
}

func (r row) refused(s *Store, want model.Record) {
	r.t.Helper()
	got, claimed := r.begin(s)
	if claimed {
		r.t.Fatal("Begin claims")
	}
	r.same("Begin", got, want)
}

func (r row) same(call string, got, want model.Record) {
	r.t.Helper()
	if got.State != want.State || got.Attempts != want.Attempts || got.Token != want.Token || got.Reason != want.Reason {
		r.t.Errorf("%s answers\n %+v, want\n %+v", call, got, want)
	}
}

func (r row) holds(want model.Record) {
	r.t.Helper()
	got, found, err := r.b.Lookup(r.t.Context(), "c", "m")
	if err != nil || found != (want.State != model.Absent) {
		r.t.Fatalf("Lookup answers %+v, %v, %v, want %+v", got, found, err, want)
	}
	r.same("Lookup", got, want)
}

// lasts demands that the server forgets the message after more than from and at most to units.
func (r row) lasts(from, to int) {
	r.t.Helper()
	left, err := r.a.client.PTTL(r.t.Context(), r.a.key("c", "m")).Result()
	if err != nil || left <= r.units(from) || left > r.units(to) {
		r.t.Errorf("%v are left (%v), want more than %v and at most %v", left, err, r.units(from), r.units(to))
	}
}

func (r row) answers(call string, got, want error) {
	r.t.Helper()
	if !errors.Is(got, want) || (got == nil) != (want == nil) {
		r.t.Errorf("%s answers %v, want %v", call, got, want)
	}
}

func (r row) complete(s *Store, want error) {
	r.t.Helper()
	r.answers("Complete", s.Complete(r.t.Context(), "c", "m", epoch), want)
}

func (r row) finish(s *Store, claim model.Record, want error) {
	r.t.Helper()
	r.answers("CompleteClaim", s.CompleteClaim(r.t.Context(), "c", "m", claim, epoch), want)
}

func (r row) extend(claim model.Record, n int, want error) {
	r.t.Helper()
	got, err := r.b.Extend(r.t.Context(), "c", "m", claim, epoch, r.units(n))
	r.answers("Extend", err, want)
	if err == nil {
		r.same("Extend", got, claim)
	} else {
		r.same("a refused Extend", got, model.Record{})
	}
}

// release by a caller whose clock is days off: n units from now.
func (r row) release(s *Store, claim model.Record, n int, reason string, want error) {
	r.t.Helper()
	now := epoch.AddDate(0, 0, 40)
	r.answers("Release", s.Release(r.t.Context(), "c", "m", claim, now, now.Add(r.units(n)), reason), want)
}

// powerless demands that every call of a claim is refused and changes nothing.
func (r row) powerless(claim model.Record, want error) {
	r.t.Helper()
	before, _, err := r.b.Lookup(r.t.Context(), "c", "m")
	if err != nil {
		r.t.Fatal(err)
	}
	r.finish(r.a, claim, want)
	r.finish(r.b, claim, want)
	r.extend(claim, 100, want)
	r.release(r.b, claim, 1, "powerless", want)
	r.release(r.b, claim, 0, "powerless", want)
	r.holds(before)
}

func done(claim model.Record) model.Record {
	return model.Record{State: model.Done, Attempts: 1, Token: claim.Token}
}
