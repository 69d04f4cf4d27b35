package redisttl

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

var transitions = []struct {
	name string
	run  func(row)
}{
	{"Begin claims an absent message and its lease at once", func(r row) {
		r.holds(model.Record{})
		r.claimed(r.a)
	}},
	{"Begin under a live lease is refused by every handle and changes nothing", func(r row) {
		c := r.claimed(r.a)
		r.after(1)
		r.refused(r.a, c)
		r.refused(r.b, c)
		r.lasts(0, 2)
	}},
	{"Begin when the lease is over claims anew, under another token", func(r row) {
		first := r.claimed(r.a)
		r.after(3)
		if second := r.claimed(r.b); second.Token == first.Token {
			r.t.Errorf("two claims bear the token %s", first.Token)
		}
		r.powerless(first, model.ErrFenced)
	}},
	{"Complete by the handle that claimed: DONE for the window, counted from now", func(r row) {
		c := r.claimed(r.a)
		r.after(2)
		r.complete(r.a, nil)
		r.lasts(4, 5)
		r.refused(r.b, done(c))
		r.after(2)
		r.complete(r.a, nil)
		r.complete(r.b, nil)
		r.lasts(0, 3) // which began at the first completion
		r.after(3)
		r.holds(model.Record{})
		r.claimed(r.b)
	}},
	{"Complete by another handle is refused and changes nothing", func(r row) {
		c := r.claimed(r.a)
		r.complete(r.b, model.ErrFenced)
		r.complete(r.open(), model.ErrFenced)
		r.holds(c)
		r.lasts(0, 3)
		r.complete(r.a, nil)
	}},
	{"Complete by a handle whose claim was taken over is refused", func(r row) {
		r.claimed(r.a)
		r.after(3)
		c := r.claimed(r.b)
		r.complete(r.a, model.ErrFenced)
		r.holds(c)
		r.complete(r.b, nil)
		r.holds(done(c))
	}},
	{"Complete without a record is an error, so also when the lease is over", func(r row) {
		r.complete(r.a, model.ErrNotFound)
		r.claimed(r.a)
		r.after(3)
		r.complete(r.a, model.ErrNotFound)
		r.holds(model.Record{})
	}},
	{"CompleteClaim by the current claim, whoever asks, and again", func(r row) {
		c := r.claimed(r.a)
		r.after(1)
		r.finish(r.b, c, nil)
		r.lasts(4, 5)
		r.after(2)
		r.finish(r.a, c, nil)
		r.lasts(0, 3)
		r.refused(r.a, done(c))
		r.after(3)
		r.finish(r.a, c, model.ErrNotFound)
	}},
	{"a claim that another has followed stays powerless", func(r row) {
		stale := r.claimed(r.a)
		r.after(3)
		r.powerless(stale, model.ErrNotFound)
		c := r.claimed(r.b)
		r.powerless(stale, model.ErrFenced)
		for _, forged := range []string{"", ":", c.Token + ":", "p:" + c.Token} {
			r.powerless(model.Record{Token: forged}, model.ErrFenced)
		}
		r.finish(r.b, c, nil)
		r.powerless(stale, model.ErrFenced)
		r.complete(r.a, nil) // DONE is what was asked for
	}},
	{"after DONE its claim may only complete again", func(r row) {
		c := r.claimed(r.a)
		r.finish(r.a, c, nil)
		r.extend(c, 50, model.ErrFenced)
		r.release(r.a, c, 0, "", model.ErrFenced)
		r.release(r.a, c, 1, "", model.ErrFenced)
		r.holds(done(c))
		r.lasts(0, 5)
	}},
	{"Extend counts from now and never shortens", func(r row) {
		c := r.claimed(r.a)
		r.after(1)
		r.extend(c, 3, nil)
		r.lasts(2, 3)
		r.extend(c, 1, nil)
		r.lasts(2, 3)
		r.after(2) // where the first lease would have ended
		r.refused(r.b, c)
		r.complete(r.a, nil)
		r.holds(done(c))
	}},
	{"Release at once leaves nothing behind", func(r row) {
		c := r.claimed(r.a)
		r.release(r.a, c, 0, "lost with it", nil)
		r.holds(model.Record{})
		r.powerless(c, model.ErrNotFound)
		c = r.claimed(r.b)
		r.release(r.a, c, -4, "", nil)
		r.holds(model.Record{})
		c = r.claimed(r.a)
		if err := r.a.Release(r.t.Context(), "c", "m", c, epoch, time.Time{}, ""); err != nil {
			r.t.Error(err)
		}
		r.claimed(r.b)
	}},
	{"Release for later: refused with the reason until then, claimable from then on", func(r row) {
		c := r.claimed(r.a)
		r.release(r.a, c, 2, "why:\x00\xff\n", nil)
		r.lasts(0, 2)
		c.Reason = "why:\x00\xff\n"
		r.refused(r.a, c)
		r.refused(r.b, c)
		r.finish(r.a, c, model.ErrFenced)
		r.extend(c, 100, model.ErrFenced)
		r.complete(r.a, model.ErrFenced)
		r.complete(r.b, model.ErrFenced)
		r.release(r.b, model.Record{Token: c.Token + ":why"}, 0, "", model.ErrFenced)
		r.lasts(0, 2)
		r.after(2)
		r.holds(model.Record{})
		r.claimed(r.b)
	}},
	{"Release again by the same claim: the last one counts, also beyond the lease", func(r row) {
		c := r.claimed(r.a)
		r.release(r.a, c, 1, "first", nil)
		r.release(r.b, c, 7, "second", nil)
		r.lasts(6, 7)
		c.Reason = "second"
		r.holds(c)
		for _, forged := range []string{"", c.Token[1:], c.Token[:3], c.Token + ":second"} {
			r.release(r.b, model.Record{Token: forged}, 0, "", model.ErrFenced)
		}
		r.holds(c)
		r.release(r.b, c, 0, "", nil)
		r.holds(model.Record{})
	}},
	{"Prune answers 0 and removes nothing", func(r row) {
		c := r.claimed(r.a)
		r.finish(r.a, c, nil)
		if n, err := r.a.Prune(r.t.Context(), epoch.AddDate(100, 0, 0)); n != 0 || err != nil {
			r.t.Errorf("Prune answers %d, %v", n, err)
		}
		r.holds(done(c))
	}},
}

func TestTransitionTable(t *testing.T) {
	for _, c := range transitions {
		t.Run(c.name, func(t *testing.T) { eachServer(t, c.run) })
	}
}
