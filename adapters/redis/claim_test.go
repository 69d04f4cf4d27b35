package redis

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/chaos"
	"github.com/effectonce/effectonce/model"
)

func begin(t *testing.T, s *Store, id string, now time.Time) model.Record {
	t.Helper()
	r, claimed, err := s.Begin(t.Context(), "c", id, now, lease)
	if err != nil || !claimed {
		t.Fatalf("Begin answers %+v, %v, %v", r, claimed, err)
	}
	return r
}

func TestVisibleAtAndExtensionsAreTruncatedToMicroseconds(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		ns := func(n int) time.Time { return epoch.Add(time.Duration(n)) }
		c := begin(t, s, "m", epoch)
		if err := s.Release(t.Context(), "c", "m", c, ns(1999), ns(5999), "r"); err != nil {
			t.Fatal(err)
		}
		r, claimed, err := s.Begin(t.Context(), "c", "m", ns(4999), lease)
		if err != nil || claimed || !r.LeaseUntil.Equal(ns(5000)) || !r.UpdatedAt.Equal(ns(1000)) {
			t.Errorf("Begin answers %+v, %v, %v", r, claimed, err)
		}
		c = begin(t, s, "m", ns(5000))
		r, err = s.Extend(t.Context(), "c", "m", c, ns(9999), lease)
		if err != nil || !r.LeaseUntil.Equal(ns(9000).Add(lease)) {
			t.Errorf("Extend answers %+v, %v", r, err)
		}
	})
}

// The instants are as long as they get: a script that compared or passed them on as what Lua prints would fail.
func TestExtensionsAreExactAtTheEndsOfTheirRange(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		for id, now := range map[string]time.Time{
			"first": time.UnixMicro(-maxMicro), "last": time.UnixMicro(maxMicro - 2), "negative": time.UnixMicro(-2),
		} {
			c, _, err := s.Begin(t.Context(), "c", id, now, time.Microsecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, micros := range []int{2, 1} { // the second one does not shorten
				r, err := s.Extend(t.Context(), "c", id, c, now, time.Duration(micros)*time.Microsecond)
				if want := now.Add(2 * time.Microsecond); err != nil || !r.LeaseUntil.Equal(want) {
					t.Errorf("%s: Extend answers %+v, %v, want until %v", id, r, err, want)
				}
			}
			if err := s.Bury(t.Context(), "c", id, c, now, ""); err != nil {
				t.Fatal(err)
			}
			if err := s.Replay(t.Context(), "c", id, now); err != nil {
				t.Fatal(err)
			}
			if r, found, err := s.Lookup(t.Context(), "c", id); err != nil || !found || !r.LeaseUntil.Equal(now) {
				t.Errorf("%s: replayed is %+v, %v", id, r, err)
			}
		}
	})
}

func TestAVisibleAtThatNoRecordCanHold(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		for id, visible := range map[string]time.Time{"zero": {}, "1600": time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)} {
			c := begin(t, s, id, epoch)
			if err := s.Release(t.Context(), "c", id, c, epoch.Add(time.Second), visible, ""); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			r, found, err := s.Lookup(t.Context(), "c", id)
			if err != nil || !found || !r.LeaseUntil.Equal(epoch.Add(time.Second)) {
				t.Errorf("%s: %+v, %v, want that it counts as now", id, r, err)
			}
		}
		c := begin(t, s, "2300", epoch)
		err := s.Release(t.Context(), "c", "2300", c, epoch, time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), "")
		if !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), "visibleAt is 2300") {
			t.Errorf("%v, want ErrRefused that names visibleAt", err)
		}
		if _, err := s.Extend(t.Context(), "c", "2300", c, epoch, math.MaxInt64); !errors.Is(err, model.ErrRefused) {
			t.Errorf("Extend answers %v, want ErrRefused", err)
		}
		if err := s.CompleteClaim(t.Context(), "c", "2300", c, epoch); err != nil {
			t.Errorf("what was refused has changed the claim: %v", err)
		}
	})
}

// Every call is one request, also the first one after the server has lost its scripts and been told them again.
func TestEveryCallIsOneRequest(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		settings, err := goredis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := chaos.NewProxy("worker", settings.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer proxy.Close()
		s := open(t, url, Options{Namespace: freshNamespace(t, url), Addr: proxy.Addr()})
		ctx := t.Context()
		var c model.Record
		for i, call := range []func() error{
			func() (err error) { c, _, err = s.Begin(ctx, "c", "m", epoch, lease); return err },
			func() error { _, err := s.Extend(ctx, "c", "m", c, epoch, lease); return err },
			func() error { return s.Release(ctx, "c", "m", c, epoch, epoch, "") },
			func() (err error) { c, _, err = s.BeginAs(ctx, "c", "m", "n", epoch, lease); return err },
			func() error { return s.Bury(ctx, "c", "m", c, epoch, "") },
			func() error { return s.Replay(ctx, "c", "m", epoch) },
			func() (err error) { c, _, err = s.Begin(ctx, "c", "m", epoch, lease); return err },
			func() error { return s.CompleteResult(ctx, "c", "m", c, epoch, []byte("r")) },
			func() error { return s.CommitEffect(ctx, "c", "m", c, epoch, model.Effect{ID: "e"}) },
			func() error { return s.Complete(ctx, "c", "m", epoch) },
			func() error { _, _, err := s.Lookup(ctx, "c", "m"); return err },
		} {
			before := proxy.Requests()
			if err := call(); err != nil || proxy.Requests()-before != 1 {
				t.Errorf("call %d: %d requests, %v, want one", i, proxy.Requests()-before, err)
			}
		}
		if err := s.client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		c = begin(t, s, "other", epoch)
		if err := s.Bury(ctx, "c", "other", c, epoch, "r"); err != nil {
			t.Errorf("after the scripts were flushed: %v", err)
		}
	})
}

// What a claim leaves in its hash is what the record has: nothing of a release or a burial outlives it.
func TestARecordKeepsNoMoreThanItNeeds(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		fields := func() int64 {
			_, key := s.recordKey("c", "m")
			return s.client.HLen(t.Context(), key).Val()
		}
		check := func(what string, err error, want int64) {
			t.Helper()
			if n := fields(); n != want || err != nil {
				t.Errorf("%s: %d fields, %v, want %d", what, n, err, want)
			}
		}
		c := begin(t, s, "m", epoch)
		check("claimed", nil, 6)
		check("released", s.Release(t.Context(), "c", "m", c, epoch, epoch, "r"), 8)
		c = begin(t, s, "m", epoch)
		check("claimed again", nil, 6)
		check("buried", s.Bury(t.Context(), "c", "m", c, epoch, "r"), 7)
		check("replayed", s.Replay(t.Context(), "c", "m", epoch), 6)
		c = begin(t, s, "m", epoch)
		check("released", s.Release(t.Context(), "c", "m", c, epoch, epoch, "r"), 8)
		check("completed by key", s.Complete(t.Context(), "c", "m", epoch), 6)
	})
}

func TestNewClientHasTheSettingsOfAStore(t *testing.T) {
	client, err := NewClient("redis://127.0.0.1:1", Options{Namespace: "n", PoolSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := CheckClient(client); err != nil {
		t.Error(err)
	}
	if o := client.Options(); o.ClientName != "n" || o.PoolSize != 3 || !o.ContextTimeoutEnabled {
		t.Errorf("name %q, pool of %d, context honoured %v", o.ClientName, o.PoolSize, o.ContextTimeoutEnabled)
	}
	if _, err := NewClient("redis://host?max_retries=2", Options{Namespace: "n"}); !errors.Is(err, ErrRetries) {
		t.Errorf("%v, want ErrRetries", err)
	}
	if _, err := Prefix("a{b"); err == nil {
		t.Error("a prefix of no namespace")
	}
}

// warmer is a store to be opened.
type warmer struct{ err error }

func (w *warmer) Warm(context.Context) error { return w.err }

func TestAStoreThatCannotBeOpenedLeavesNoClientBehind(t *testing.T) {
	server := miniredis.RunT(t)
	cold, unmade := errors.New("cold"), errors.New("unmade")
	for _, c := range []struct {
		store     *warmer
		err, want error
	}{
		{&warmer{}, nil, nil},
		{&warmer{cold}, nil, cold},
		{nil, unmade, unmade},
	} {
		client, err := NewClient("redis://"+server.Addr(), Options{Namespace: "n"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Opened(t.Context(), client, c.store, c.err)
		if !errors.Is(err, c.want) || (s != nil) != (c.want == nil) {
			t.Errorf("got %v, %v; want error %v", s, err, c.want)
		}
		if closed := errors.Is(client.Ping(t.Context()).Err(), goredis.ErrClosed); closed != (c.want != nil) {
			t.Errorf("error %v, client closed: %v", c.want, closed)
		}
		_ = client.Close() // a second time in two of the cases
	}
}

func TestOutcomeKnowsWhatAnErrorProves(t *testing.T) {
	server := miniredis.RunT(t)
	client, err := NewClient("redis://"+server.Addr(), Options{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for answer, want := range map[string]model.Outcome{"OOM x": model.NotApplied, "ERR x": model.Unknown} {
		server.SetError(answer)
		if got := Outcome(client.Set(t.Context(), "k", "v", 0).Err()); got != want {
			t.Errorf("%s: %v, want %v", answer, got, want)
		}
	}
	if Outcome(nil) != model.OK || Outcome(model.ErrFenced) != model.NotApplied {
		t.Error("Outcome knows less than the model")
	}
}
