package redisttl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/chaos"
	"github.com/effectonce/effectonce/model"
)

func TestContractStatesWhatTheStoreIs(t *testing.T) {
	c := Contract(0, 0)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	want := "clock=server precision=1ms min-lease=1ms retention=by-itself lease-is-record=yes no-times=yes"
	if got := strings.Join(c.Facts(), " "); got != want {
		t.Errorf("facts %q, want %q", got, want)
	}
	if c := Contract(time.Hour, time.Minute); c.Window != time.Hour || c.Redelivery != time.Minute || c.Validate() != nil {
		t.Errorf("%+v, %v", c, c.Validate())
	}
	if Contract(time.Hour, 0).Validate() == nil {
		t.Error("a window shorter than the redelivery is fine")
	}
	var s any = &Store{}
	for name, offered := range map[string]bool{
		"Rebeginner": is[model.Rebeginner](s), "EffectCommitter": is[model.EffectCommitter](s),
		"ResultKeeper": is[model.ResultKeeper](s), "DeadLetterer": is[model.DeadLetterer](s),
	} {
		if offered {
			t.Errorf("the store offers %s, which its documentation denies", name)
		}
	}
}

func is[T any](s any) bool { _, ok := s.(T); return ok }

func onMiniredis(t *testing.T) (*miniredis.Miniredis, *Store) {
	t.Helper()
	server := miniredis.RunT(t)
	s, err := Open(t.Context(), "redis://"+server.Addr(), Options{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return server, s
}

func TestTheWindowIsSevenDaysUnlessStated(t *testing.T) {
	server, s := onMiniredis(t)
	if _, _, err := s.Begin(t.Context(), "c", "m", epoch, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(t.Context(), "c", "m", epoch); err != nil {
		t.Fatal(err)
	}
	if left := server.TTL(s.key("c", "m")); left != 7*24*time.Hour {
		t.Errorf("DONE is kept for %v", left)
	}
}

func TestALeaseIsNeverShorterThanAskedFor(t *testing.T) {
	server, s := onMiniredis(t)
	for lease, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond, 24*time.Hour - 1: 24 * time.Hour,
	} {
		c, _, err := s.Begin(t.Context(), "c", lease.String(), epoch, lease)
		if err != nil {
			t.Fatal(err)
		}
		if left := server.TTL(s.key("c", lease.String())); left != want {
			t.Errorf("a lease of %v is kept for %v, want %v", lease, left, want)
		}
		if err := s.Release(t.Context(), "c", lease.String(), c, epoch, epoch.Add(lease+time.Hour), ""); err != nil {
			t.Error(err)
		}
		if left := server.TTL(s.key("c", lease.String())); left != want+time.Hour {
			t.Errorf("a release for %v is kept for %v", lease+time.Hour, left)
		}
	}
	if _, claimed, err := s.Begin(t.Context(), "c", "long", epoch, math.MaxInt64/2); !claimed || err != nil {
		t.Errorf("146 years: %v, %v", claimed, err)
	}
}

func TestARealServerEndsALeaseAndTheWindowByItsOwnClock(t *testing.T) {
	const short, long = 150 * time.Millisecond, time.Minute
	const drift = 5 * time.Millisecond // of the server's wall clock, against which the test's is monotonic
	url := realRedis.Need(t).DSN()
	s, err := Open(t.Context(), url, Options{Namespace: newRow(t, row{t: t, url: url}).ns, Window: 2 * short})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// claim asks until it is granted, and demands that this was not before so much time had passed.
	claim := func(since time.Time, atLeast, lease time.Duration) model.Record {
		t.Helper()
		for {
			c, claimed, err := s.Begin(t.Context(), "c", "m", epoch, lease)
			answered := time.Since(since)
			switch {
			case err != nil:
				t.Fatal(err)
			case claimed && answered < atLeast-drift:
				t.Fatalf("claimed after %v, want not before %v", answered, atLeast)
			case claimed:
				return c
			case answered > long/2:
				t.Fatalf("not claimed after %v", answered)
			}
		}
	}
	began := time.Now()
	claim(began, 0, short)
	c := claim(began, short, long)
	began = time.Now()
	if err := s.CompleteClaim(t.Context(), "c", "m", c, epoch); err != nil {
		t.Fatal(err)
	}
	c = claim(began, 2*short, long)
	began = time.Now()
	if err := s.Release(t.Context(), "c", "m", c, epoch, epoch.Add(short), "later"); err != nil {
		t.Fatal(err)
	}
	claim(began, short, long)
}

func TestOfSixWorkersOneClaimsAndOneCompletes(t *testing.T) {
	eachServer(t, func(r row) {
		for round := range 30 {
			id := fmt.Sprint("m-", round)
			var claims, completed, released atomic.Int32
			var wg sync.WaitGroup
			start, winner := make(chan struct{}), make(chan model.Record, 6)
			for w := range 6 {
				wg.Go(func() {
					<-start
					s := []*Store{r.a, r.b}[w%2]
					c, claimed, err := s.Begin(r.t.Context(), "c", id, epoch, time.Minute)
					if err != nil {
						r.t.Error(err)
					}
					if claimed {
						claims.Add(1)
						winner <- c
					}
				})
			}
			close(start)
			wg.Wait()
			if claims.Load() != 1 {
				r.t.Fatalf("%s: %d claims", id, claims.Load())
			}
			c := <-winner
			for w := range 4 { // its owner finishes and gives back at once
				wg.Go(func() {
					var err error
					if w%2 == 0 {
						err = r.a.CompleteClaim(r.t.Context(), "c", id, c, epoch)
						if err == nil {
							completed.Add(1)
						}
					} else if err = r.b.Release(r.t.Context(), "c", id, c, epoch, epoch.Add(time.Minute), ""); err == nil {
						released.Add(1)
					}
					if err != nil && !errors.Is(err, model.ErrFenced) {
						r.t.Error(err)
					}
				})
			}
			wg.Wait()
			got, _, err := r.b.Lookup(r.t.Context(), "c", id)
			if err != nil || (got.State == model.Done) != (completed.Load() == 2) || (completed.Load() == 2) == (released.Load() == 2) {
				r.t.Errorf("%s: %+v after %d completions and %d releases, %v", id, got, completed.Load(), released.Load(), err)
			}
		}
	})
}

// The name in CLIENT LIST and the prefix of the keys are those of the package redis: its tools serve this store.
func TestDropAndSettledOfRedisServeThisStore(t *testing.T) {
	eachServer(t, func(r row) {
		beside, err := Open(r.t.Context(), r.url, Options{Namespace: r.ns + ":x"})
		if err != nil {
			r.t.Fatal(err)
		}
		defer beside.Close()
		if _, claimed := r.begin(beside); !claimed {
			r.t.Error("two namespaces share a message")
		}
		if strings.Contains(r.url, "/0") { // miniredis lists no clients
			if err := redis.Settled(r.t.Context(), r.url, r.ns); err != nil {
				r.t.Error(err)
			}
		}
		r.claimed(r.a)
		if err := redis.Drop(r.t.Context(), r.url, r.ns); err != nil {
			r.t.Fatal(err)
		}
		r.holds(model.Record{})
		if _, found, err := beside.Lookup(r.t.Context(), "c", "m"); !found || err != nil {
			r.t.Errorf("Drop took the namespace beside it (%v)", err)
		}
		if err := redis.Drop(r.t.Context(), r.url, r.ns+":x"); err != nil {
			r.t.Error(err)
		}
	})
}

// Every call is one request, and one whose reply is lost is not repeated.
func TestEveryCallGoesOutOnce(t *testing.T) {
	eachServer(t, func(r row) {
		proxy, err := chaos.NewProxy("worker", r.a.client.(*goredis.Client).Options().Addr)
		if err != nil {
			r.t.Fatal(err)
		}
		defer proxy.Close()
		s, err := Open(r.t.Context(), r.url, Options{Namespace: r.ns, Addr: proxy.Addr(), Window: r.units(5)})
		if err != nil {
			r.t.Fatal(err)
		}
		defer s.Close()
		var c model.Record
		ctx := r.t.Context()
		for i, call := range []func() error{
			func() (err error) { c, _, err = s.Begin(ctx, "c", "m", epoch, time.Minute); return err },
			func() error { _, _, err := s.Begin(ctx, "c", "m", epoch, time.Minute); return err },
			func() error { _, err := s.Extend(ctx, "c", "m", c, epoch, time.Minute); return err },
			func() error { _, _, err := s.Lookup(ctx, "c", "m"); return err },
			func() error { return s.CompleteClaim(ctx, "c", "m", c, epoch) },
			func() error { return s.Complete(ctx, "c", "m", epoch) },
		} {
			before := proxy.Requests()
			if err := call(); err != nil || proxy.Requests()-before != 1 {
				r.t.Errorf("call %d: %d requests, %v, want one", i, proxy.Requests()-before, err)
			}
		}
		lose := func(name string, call func() error) {
			loss, err := proxy.Arm(chaos.Fault{Kind: chaos.ReplyLost, Request: 1})
			if err != nil {
				r.t.Fatal(err)
			}
			before := proxy.Requests()
			if err := call(); err == nil || model.OutcomeOf(err) != model.Unknown {
				r.t.Errorf("%s without its reply: %v, want an unknown outcome", name, err)
			}
			if n := proxy.Requests() - before; n != 1 || !loss.Disarm().Fired {
				r.t.Errorf("%s went out %d times, want once, and its reply lost", name, n)
			}
			if _, _, err := s.Lookup(ctx, "c", "new connection"); err != nil {
				r.t.Error(err)
			}
		}
		lose("Begin", func() error { _, _, err := s.Begin(ctx, "c", "lost", epoch, time.Minute); return err })
		if _, claimed, err := s.Begin(ctx, "c", "lost", epoch, time.Minute); claimed || err != nil {
			r.t.Errorf("the claim of the lost reply is not there: %v, %v", claimed, err)
		}
		if err := s.Complete(ctx, "c", "lost", epoch); !errors.Is(err, model.ErrFenced) {
			r.t.Errorf("a claim that nobody was told of is completed: %v", err)
		}
		if _, _, err = s.Begin(ctx, "c", "known", epoch, time.Minute); err != nil {
			r.t.Fatal(err)
		}
		lose("Complete", func() error { return s.Complete(ctx, "c", "known", epoch) })
		if err := s.Complete(ctx, "c", "known", epoch); err != nil {
			r.t.Errorf("Complete asked again: %v", err)
		}
	})
}

func TestErrorsProveWhatTheyCan(t *testing.T) {
	server, s := onMiniredis(t)
	for answer, want := range map[string]model.Outcome{
		"OOM command not allowed when used memory > 'maxmemory'.": model.NotApplied, "ERR something": model.Unknown,
	} {
		server.SetError(answer)
		_, _, err := s.Begin(t.Context(), "c", "m", epoch, time.Second)
		if err == nil || model.OutcomeOf(err) != want {
			t.Errorf("%s: %v (%v), want %v", answer, err, model.OutcomeOf(err), want)
		}
	}
	server.SetError("")
	if err := server.Set(s.key("c", "strange"), "x:y"); err != nil {
		t.Fatal(err)
	}
	if _, claimed, err := s.Begin(t.Context(), "c", "strange", epoch, time.Second); claimed || err == nil {
		t.Errorf("what no Store wrote is taken for a record: %v, %v", claimed, err)
	}
	if _, found, err := s.Lookup(t.Context(), "c", "strange"); found || err == nil {
		t.Errorf("what no Store wrote is looked up: %v, %v", found, err)
	}
	server.Close()
	for i := range 3 {
		if err := s.Complete(t.Context(), "c", "m", epoch); err == nil || i > 0 && model.OutcomeOf(err) != model.NotApplied {
			t.Errorf("without a server: %v (%v)", err, model.OutcomeOf(err))
		}
	}
}

func TestBadInputIsRefusedBeforeAnyIO(t *testing.T) {
	server, s := onMiniredis(t)
	server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var never time.Time
	c := model.Record{Token: "t"}
	begin := func(consumer, id string, now time.Time, lease time.Duration) error {
		_, _, err := s.Begin(ctx, consumer, id, now, lease)
		return err
	}
	extend := func(now time.Time, lease time.Duration) error {
		_, err := s.Extend(ctx, "c", "m", c, now, lease)
		return err
	}
	_, _, lookup := s.Lookup(ctx, "c", "")
	for names, err := range map[string]error{
		"begin: the consumer is empty":   begin("", "m", epoch, time.Second),
		"begin: the message id is empty": begin("c", "", epoch, time.Second),
		"longer than 1 MiB":              begin("c", strings.Repeat("m", maxKey), epoch, time.Second),
		"begin: now is zero":             begin("c", "m", never, time.Second),
		"begin: the lease 0s":            begin("c", "m", epoch, 0),
		"begin: the lease -1s":           begin("c", "m", epoch, -time.Second),
		"begin: the lease 999.999µs":     begin("c", "m", epoch, time.Millisecond-1),
		"extend: the lease":              extend(epoch, time.Millisecond-1),
		"extend: now":                    extend(never, time.Second),
		"complete: now":                  s.Complete(ctx, "c", "m", never),
		"complete claim: the consumer":   s.CompleteClaim(ctx, "", "m", c, epoch),
		"release: now":                   s.Release(ctx, "c", "m", c, never, epoch, ""),
		"lookup: the message":            lookup,
	} {
		if !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), names) {
			t.Errorf("%v, want ErrRefused that names %q", err, names)
		}
	}
	if AcceptsKey("c", strings.Repeat("m", maxKey-1)) != nil || AcceptsKey("c", strings.Repeat("m", maxKey)) == nil {
		t.Error("the longest key is not 1 MiB")
	}
	cancel()
	_, prune := s.Prune(ctx, epoch)
	for _, err := range []error{begin("c", "m", epoch, time.Second), extend(epoch, time.Second), prune, s.Complete(ctx, "c", "m", epoch)} {
		if !errors.Is(err, context.Canceled) || model.OutcomeOf(err) != model.NotApplied {
			t.Errorf("%v, want the context's error with the proof that nothing changed", err)
		}
	}
}

func TestOpenAndNewRefuseWhatCannotWork(t *testing.T) {
	retrying := goredis.NewClient(&goredis.Options{})
	defer retrying.Close()
	if _, err := New(retrying, Options{Namespace: "n"}); !errors.Is(err, redis.ErrRetries) {
		t.Errorf("a client that retries: %v", err)
	}
	steady := goredis.NewClient(&goredis.Options{MaxRetries: -1})
	defer steady.Close()
	for _, o := range []Options{{}, {Namespace: "a{b"}, {Namespace: "n", Window: -1}, {Namespace: "n", Window: time.Millisecond - 1}} {
		if _, err := New(steady, o); err == nil {
			t.Errorf("New takes %+v", o)
		}
	}
	_, err := Open(t.Context(), "redis://user:s3cr3t@host:port", Options{Namespace: "n"})
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("Open answers %v", err)
	}
}

func TestTwoKeysAreNeverOne(t *testing.T) {
	_, s := onMiniredis(t)
	for _, k := range [][2]string{
		{"a", "b:c"}, {"a:b", "c"}, {"1:a", "b"}, {"a", "1:b"}, {"ab", "c"}, {"a", "bc"}, {"a}", "b"}, {"{a}", "b"},
		{"a", "b\x00"}, {"a\x00", "b"}, {"A", "b"}, {"a", "b"}, {"a", "b "}, {"a", "\xff"}, {"a", "\xef\xbf\xbd"},
	} {
		if r, claimed, err := s.Begin(t.Context(), k[0], k[1], epoch, time.Minute); !claimed || err != nil {
			t.Errorf("%q met another key: %+v, %v", k, r, err)
		}
	}
}
