package postgres_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

const lease = 10 * time.Second

func TestBegin(t *testing.T) {
	t.Run("claims what is absent", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		want := model.Record{State: model.Processing, Attempts: 1, LeaseUntil: at(lease), UpdatedAt: at(0), Token: r.Token}
		if r.Token == "" {
			t.Fatal("no token")
		}
		same(t, r, want)
		f.stands(t, "m", want)
	})
	t.Run("refuses a live lease and leaves it alone", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		f.refused(t, "m", at(lease-time.Microsecond), r)
		f.refused(t, "m", at(-time.Hour), r)
	})
	t.Run("takes over at the lease's end exactly", func(t *testing.T) {
		f := newFixture(t)
		first := f.begin(t, "m", at(0), lease)
		second := f.begin(t, "m", at(lease), lease)
		same(t, second, model.Record{State: model.Processing, Attempts: 2, LeaseUntil: at(2 * lease), UpdatedAt: at(lease), Token: second.Token})
		increases(t, first, second)
		f.stands(t, "m", second)
	})
	t.Run("refuses what is done, at any time", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		must(t, f.Complete(f.ctx, "c", "m", at(1)))
		f.refused(t, "m", at(0), done(r, at(0)))
		f.refused(t, "m", at(1000*time.Hour), done(r, at(0)))
	})
}

func TestBeginAs(t *testing.T) {
	f := newFixture(t)
	beginAs := func(nonce string, now time.Time, want bool) model.Record {
		t.Helper()
		r, claimed, err := f.BeginAs(f.ctx, "c", "m", nonce, now, lease)
		if err != nil || claimed != want {
			t.Fatalf("begin as %s at %v: claimed %v, error %v; want %v", nonce, now.Sub(t0), claimed, err, want)
		}
		f.stands(t, "m", r)
		return r
	}
	first := beginAs("n1", at(0), true)
	same(t, beginAs("n1", at(lease-time.Microsecond), true), first)
	same(t, beginAs("n2", at(time.Second), false), first)
	f.refused(t, "m", at(time.Second), first)

	second := beginAs("n1", at(lease), true)
	if second.Attempts != 2 {
		t.Fatalf("a lease that is over was answered with attempt %d, want a takeover", second.Attempts)
	}
	increases(t, first, second)
	third := beginAs("n2", at(2*lease), true)
	same(t, beginAs("n1", at(2*lease), false), third)

	must(t, f.CompleteClaim(f.ctx, "c", "m", third, at(2*lease)))
	same(t, beginAs("n2", at(2*lease), false), done(third, at(2*lease)))

	plain := f.begin(t, "plain", at(0), lease)
	r, claimed, err := f.BeginAs(f.ctx, "c", "plain", "n1", at(0), lease)
	if err != nil || claimed {
		t.Fatalf("a claim without a nonce was answered to a nonce: %v, %v", claimed, err)
	}
	same(t, r, plain)
}

func TestComplete(t *testing.T) {
	t.Run("makes its own claim done", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		must(t, f.Complete(f.ctx, "c", "m", at(time.Second)))
		f.stands(t, "m", done(r, at(time.Second)))
	})
	t.Run("makes done whoever calls, lease over or not", func(t *testing.T) {
		f := newFixture(t)
		f.begin(t, "m", at(0), lease)
		r := f.begin(t, "m", at(lease), lease)
		must(t, f.Complete(f.ctx, "c", "m", at(5*lease)))
		f.stands(t, "m", done(r, at(5*lease)))
	})
	t.Run("keeps what is done", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		must(t, f.Complete(f.ctx, "c", "m", at(time.Second)))
		must(t, f.Complete(f.ctx, "c", "m", at(time.Hour)))
		f.stands(t, "m", done(r, at(time.Second)))
	})
	t.Run("says that nothing is there", func(t *testing.T) {
		f := newFixture(t)
		wantIs(t, f.Complete(f.ctx, "c", "m", at(0)), model.ErrNotFound)
		f.stands(t, "m", model.Record{})
	})
}

func TestCompleteClaim(t *testing.T) {
	t.Run("makes done for the current claim, also late, and again", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		must(t, f.CompleteClaim(f.ctx, "c", "m", r, at(3*lease)))
		must(t, f.CompleteClaim(f.ctx, "c", "m", r, at(4*lease)))
		f.stands(t, "m", done(r, at(3*lease)))
	})
	t.Run("refuses a claim that was taken over, before and after the successor is done", func(t *testing.T) {
		f := newFixture(t)
		stale := f.begin(t, "m", at(0), lease)
		current := f.begin(t, "m", at(lease), lease)
		wantIs(t, f.CompleteClaim(f.ctx, "c", "m", stale, at(lease)), model.ErrFenced)
		f.stands(t, "m", current)
		must(t, f.CompleteClaim(f.ctx, "c", "m", current, at(lease)))
		wantIs(t, f.CompleteClaim(f.ctx, "c", "m", stale, at(lease)), model.ErrFenced)
		f.stands(t, "m", done(current, at(lease)))
	})
	t.Run("refuses a claim from before its message was forgotten", func(t *testing.T) {
		f := newFixture(t)
		old := f.begin(t, "m", at(0), lease)
		must(t, f.CompleteClaim(f.ctx, "c", "m", old, at(0)))
		f.prune(t, at(1*time.Second), 1)
		if err := f.CompleteClaim(f.ctx, "c", "m", old, at(0)); model.OutcomeOf(err) != model.NotApplied {
			t.Fatalf("absent: %v", err)
		}
		again := f.begin(t, "m", at(2*time.Second), lease)
		wantIs(t, f.CompleteClaim(f.ctx, "c", "m", old, at(2*time.Second)), model.ErrFenced)
		f.stands(t, "m", again)
		if again.Attempts != 1 {
			t.Fatalf("attempts start with %d after the record was forgotten", again.Attempts)
		}
		increases(t, old, again)
	})
	t.Run("refuses what is no token", func(t *testing.T) {
		f := newFixture(t)
		r := f.begin(t, "m", at(0), lease)
		for _, token := range []string{"", "0", "-1", "+" + r.Token, "0" + r.Token, " " + r.Token, r.Token + " ", "x", "1e3",
			"18446744073709551615", "99999999999999999999", "9223372036854775807", "9223372036854775808"} {
			claim := r
			claim.Token = token
			wantIs(t, f.CompleteClaim(f.ctx, "c", "m", claim, at(0)), model.ErrFenced)
			wantIs(t, f.CommitEffect(f.ctx, "c", "m", claim, at(0), model.Effect{ID: "e"}), model.ErrFenced)
		}
		f.stands(t, "m", r)
		f.effects(t, 0)
	})
}

func TestKeysAreByteExact(t *testing.T) {
	f := newFixture(t)
	keys := [][2]string{{"a|b", "c"}, {"a", "b|c"}, {"a", "B|c"}, {"a", "b|c "}, {"a ", "b|c"}, {"\u00e9", "x"}, {"e\u0301", "x"}, {"a", "%"}, {"a", `\`}, {"a", "'"}}
	for _, k := range keys {
		if _, claimed, err := f.Begin(f.ctx, k[0], k[1], at(0), lease); err != nil || !claimed {
			t.Fatalf("%q: claimed %v, %v", k, claimed, err)
		}
	}
}

func TestTimesAreInstants(t *testing.T) {
	f := newFixture(t)
	east := time.FixedZone("east", 14*3600)
	zoned := f.storeWith(t, map[string]string{"TimeZone": "America/St_Johns", "DateStyle": "SQL, DMY"})
	r, claimed, err := zoned.Begin(f.ctx, "c", "m", at(0).In(east), lease)
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	same(t, r, model.Record{State: model.Processing, Attempts: 1, LeaseUntil: at(lease), UpdatedAt: at(0), Token: r.Token})
	f.refused(t, "m", at(lease-time.Microsecond).In(time.FixedZone("west", -12*3600)), r)
	must(t, zoned.Complete(f.ctx, "c", "m", at(time.Second).In(east)))
	f.stands(t, "m", done(r, at(time.Second)))
}

func TestNothingIsTakenEarlyWithinAMicrosecond(t *testing.T) {
	f := newFixture(t)
	// 900ns + 1900ns end at 2800ns: stored as 3µs. At 2µs the lease still lives, although cutting both sides would
	// have ended it at 1µs.
	r := f.begin(t, "m", at(900), 1900)
	if !r.LeaseUntil.Equal(at(3*time.Microsecond)) || !r.UpdatedAt.Equal(at(0)) {
		t.Fatalf("stored %v to %v", r.UpdatedAt.Sub(t0), r.LeaseUntil.Sub(t0))
	}
	f.refused(t, "m", at(2*time.Microsecond+799), r)
	f.refused(t, "m", at(2*time.Microsecond+999), r)
	f.begin(t, "m", at(3*time.Microsecond), time.Microsecond)

	f.begin(t, "old", time.Date(-44, 3, 15, 0, 0, 0, 1, time.UTC), lease)
	r = f.begin(t, "old", time.Date(-44, 3, 15, 1, 0, 0, 1, time.UTC), time.Microsecond)
	if want := time.Date(-44, 3, 15, 1, 0, 0, 0, time.UTC); !r.UpdatedAt.Equal(want) {
		t.Fatalf("before the year 1: %v, want %v", r.UpdatedAt, want)
	}
}

func increases(t testing.TB, before, after model.Record) {
	t.Helper()
	a, b := number(t, before.Token), number(t, after.Token)
	if b <= a {
		t.Fatalf("token %d follows %d", b, a)
	}
}
