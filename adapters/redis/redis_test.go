package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

var epoch = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

const lease = 10 * time.Second

func eachServer(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("miniredis", func(t *testing.T) { test(t, "redis://"+miniredis.RunT(t).Addr()) })
	t.Run("redis", func(t *testing.T) { test(t, realRedis.Need(t).DSN()) })
}

func freshNamespace(t testing.TB, url string) string {
	t.Helper()
	namespace := "test-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.Cleanup(func() {
		if err := Drop(context.Background(), url, namespace); err != nil {
			t.Error(err)
		}
	})
	return namespace
}

func open(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContractStatesMicrosecondsAndOrderedTokens(t *testing.T) {
	c := Contract()
	if err := c.Validate(); err != nil || c.Precision != time.Microsecond || !c.OrderedToken || c.Clock != model.CallerClock {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLeasesAndCutOffsAreTruncatedToMicroseconds(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		ns := func(n int) time.Time { return epoch.Add(time.Duration(n)) }
		claim := func(id string, now time.Time, lease time.Duration) (model.Record, bool) {
			r, claimed, err := s.Begin(t.Context(), "c", id, now, lease)
			if err != nil {
				t.Fatal(err)
			}
			return r, claimed
		}

		r, _ := claim("least", ns(999), time.Microsecond)
		if !r.UpdatedAt.Equal(ns(0)) || !r.LeaseUntil.Equal(ns(1000)) {
			t.Errorf("updated %v, lease until %v: the least lease is gone, or not truncated", r.UpdatedAt, r.LeaseUntil)
		}
		if _, claimed := claim("least", ns(999), time.Microsecond); claimed {
			t.Error("a lease of 1µs was none")
		}
		if _, claimed := claim("least", ns(1999), time.Microsecond); !claimed {
			t.Error("a lease of 1µs is not over when it is over")
		}

		claim("early", ns(0), 5*time.Microsecond+900)
		if _, claimed := claim("early", ns(4999), lease); claimed {
			t.Error("claimed more than 1µs before the end of the lease")
		}

		if err := s.Complete(t.Context(), "c", "least", ns(7999)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ before, want int }{{7000, 0}, {7999, 0}, {8000, 1}} {
			if n, err := s.Prune(t.Context(), ns(c.before)); n != c.want || err != nil {
				t.Errorf("Prune before %d ns removed %d, %v, want %d", c.before, n, err, c.want)
			}
		}
	})
}

func TestInstantsAreExactAtTheEndsOfTheirRange(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		for i, now := range []time.Time{
			time.UnixMicro(-maxMicro), time.UnixMicro(-1), time.UnixMicro(0), time.UnixMicro(99_999_999_999_999),
			time.UnixMicro(1_700_000_000_123_457), time.UnixMicro(maxMicro - 1),
		} {
			id := strconv.Itoa(i)
			r, claimed, err := s.Begin(t.Context(), "c", id, now, time.Microsecond)
			if err != nil || !claimed || !r.UpdatedAt.Equal(now) || !r.LeaseUntil.Equal(now.Add(time.Microsecond)) {
				t.Errorf("%v: %+v, %v, %v", now, r, claimed, err)
			}
			if got, _, err := s.Lookup(t.Context(), "c", id); err != nil || !got.LeaseUntil.Equal(r.LeaseUntil) || !got.UpdatedAt.Equal(now) {
				t.Errorf("%v: Lookup answers %+v, %v", now, got, err)
			}
			if _, claimed, err := s.Begin(t.Context(), "c", id, now, time.Microsecond); claimed || err != nil {
				t.Errorf("%v: claimed under a live lease (%v)", now, err)
			}
			if err := s.Complete(t.Context(), "c", id, now); err != nil {
				t.Error(err)
			}
			if n, err := s.Prune(t.Context(), now); n != 0 || err != nil {
				t.Errorf("%v: pruned %d, %v at its own instant", now, n, err)
			}
			if n, err := s.Prune(t.Context(), now.Add(time.Microsecond)); n != 1 || err != nil {
				t.Errorf("%v: pruned %d, %v one later", now, n, err)
			}
		}
	})
}

func TestPruneTakesEveryCutOff(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		if _, _, err := s.Begin(t.Context(), "c", "m", epoch, lease); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(t.Context(), "c", "m", epoch); err != nil {
			t.Fatal(err)
		}
		far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			before time.Time
			want   int
		}{{time.Time{}, 0}, {far, 1}, {far, 0}} {
			if n, err := s.Prune(t.Context(), c.before); n != c.want || err != nil {
				t.Errorf("Prune before %v removed %d, %v, want %d", c.before, n, err, c.want)
			}
		}
	})
}

func TestInputThatRedisCannotHoldIsRefusedBeforeAnyIO(t *testing.T) {
	server := miniredis.RunT(t)
	s := open(t, "redis://"+server.Addr(), Options{Namespace: "n"})
	server.Close()
	ctx := t.Context()
	begin := func(now time.Time, lease time.Duration) error {
		_, _, err := s.Begin(ctx, "c", "m", now, lease)
		return err
	}
	for names, err := range map[string]error{
		"lease 999ns":          begin(epoch, 999),
		"now is 1600":          begin(time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), lease),
		"now is 2300":          s.Complete(ctx, "c", "m", time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)),
		"the end of the lease": begin(epoch, math.MaxInt64),
		"the consumer":         s.Complete(ctx, "", "m", epoch),
	} {
		if !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), names) {
			t.Errorf("%v, want ErrRefused that names %q", err, names)
		}
	}
}

func TestTokensRiseOverPruneAndScriptFlush(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		namespace := freshNamespace(t, url)
		s := open(t, url, Options{Namespace: namespace, Partitions: 3})
		last := make(map[string]uint64)
		seen := make(map[uint64]string)
		for round := range 6 {
			if err := s.client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				id := fmt.Sprint("m-", i)
				r, claimed, err := s.Begin(t.Context(), "c", id, epoch, lease)
				if err != nil || !claimed || r.Attempts != 1 {
					t.Fatalf("round %d, %s: %+v, %v, %v", round, id, r, claimed, err)
				}
				token, err := strconv.ParseUint(r.Token, 10, 64)
				if err != nil || token <= last[id] || seen[token] != "" {
					t.Fatalf("%s: token %s after %d, also of %q (%v)", id, r.Token, last[id], seen[token], err)
				}
				last[id], seen[token] = token, id
				if err := s.CompleteClaim(t.Context(), "c", id, r, epoch); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := s.Prune(t.Context(), epoch.Add(time.Second)); n != 20 || err != nil {
				t.Fatalf("Prune removed %d, %v, want 20", n, err)
			}
		}
	})
}

func TestTokensStayExactWhenTheCounterIsLong(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url), Partitions: 1})
		const counted = 1_234_567_890_123_455
		if err := s.client.Set(t.Context(), s.slots[0].counter, counted, 0).Err(); err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Begin(t.Context(), "c", "m", epoch, lease)
		if err != nil || r.Token != strconv.Itoa(counted+1) {
			t.Fatalf("token %q, %v, want %d", r.Token, err, counted+1)
		}
		if err := s.CompleteClaim(t.Context(), "c", "m", r, epoch); err != nil {
			t.Error(err)
		}
	})
}

func TestPruneGoesInBatchesAndStopsBetweenThem(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		const records = 2*pruneBatch + 7
		s := open(t, url, Options{Namespace: freshNamespace(t, url), Partitions: 1})
		fill(t, s, records)
		ctx, cancel := context.WithCancel(t.Context())
		s.client.AddHook(afterPrune{cancel})
		n, err := s.Prune(ctx, epoch.Add(time.Second))
		if n != pruneBatch || !errors.Is(err, context.Canceled) || model.OutcomeOf(err) != model.Unknown {
			t.Fatalf("Prune answers %d, %v (%v), want the first batch and the cancellation", n, err, model.OutcomeOf(err))
		}
		n, err = s.Prune(t.Context(), epoch.Add(time.Second))
		if n != records-pruneBatch || err != nil {
			t.Errorf("Prune answers %d, %v, want the other %d", n, err, records-pruneBatch)
		}
	})
}

func fill(t *testing.T, s *Store, records int) {
	t.Helper()
	for i := range records {
		id := strconv.Itoa(i)
		if _, _, err := s.Begin(t.Context(), "c", id, epoch, lease); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(t.Context(), "c", id, epoch); err != nil {
			t.Fatal(err)
		}
	}
}

// afterPrune cancels once a prune script has been answered.
type afterPrune struct{ cancel context.CancelFunc }

func (afterPrune) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (afterPrune) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (a afterPrune) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); len(args) > 1 && args[1] == newScripts().prune.sha {
			a.cancel()
		}
		return err
	}
}

func TestAnIndexEntryWithoutItsRecordNeverCostsAClaim(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := open(t, url, Options{Namespace: freshNamespace(t, url)})
		fill(t, s, 1)
		_, key := s.recordKey("c", "0")
		if err := s.client.Del(t.Context(), key).Err(); err != nil { // as an eviction would
			t.Fatal(err)
		}
		if _, claimed, err := s.Begin(t.Context(), "c", "0", epoch, lease); !claimed || err != nil {
			t.Fatal(claimed, err)
		}
		if n, err := s.Prune(t.Context(), epoch.Add(time.Hour)); n != 0 || err != nil {
			t.Errorf("Prune answers %d, %v, want 0", n, err)
		}
		if r, _, err := s.Lookup(t.Context(), "c", "0"); r.State != model.Processing || err != nil {
			t.Errorf("the claim is gone: %+v, %v", r, err)
		}
	})
}

func TestAClientThatRepeatsOrLagsIsRefused(t *testing.T) {
	o := Options{Namespace: "n"}
	single := func(retries int) goredis.UniversalClient {
		return goredis.NewClient(&goredis.Options{MaxRetries: retries})
	}
	cluster := func(c goredis.ClusterOptions) goredis.UniversalClient {
		c.Addrs = []string{"127.0.0.1:1"}
		return goredis.NewClusterClient(&c)
	}
	for name, c := range map[string]struct {
		client goredis.UniversalClient
		says   string
	}{
		"default retries": {single(0), "lost reply"},
		"two retries":     {single(2), "MaxRetries to -1"},
		"cluster retries": {cluster(goredis.ClusterOptions{MaxRetries: 1}), "lost reply"},
		"replicas":        {cluster(goredis.ClusterOptions{ReadOnly: true}), "replicas"},
		"ring":            {goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}), "neither"},
		"none":            {nil, "neither"},
		"no retries":      {single(-1), ""},
		"cluster":         {cluster(goredis.ClusterOptions{MaxRetries: -1}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.client != nil {
				defer c.client.Close()
			}
			_, err := New(c.client, o)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("New answers %v, want an error that says %q", err, c.says)
			}
		})
	}
	if _, err := Open(t.Context(), "redis://127.0.0.1:1?max_retries=2", o); !errors.Is(err, ErrRetries) {
		t.Errorf("Open answers %v, want ErrRetries", err)
	}
}

func TestNamespacesAndPartitionsAreChecked(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{MaxRetries: -1})
	defer client.Close()
	for _, namespace := range []string{"", "a b", "a{b", "a}b", "a*", "a?", "[a]", `a\`, "a\n", "é", strings.Repeat("n", maxNamespace+1)} {
		if _, err := New(client, Options{Namespace: namespace}); err == nil {
			t.Errorf("namespace %q is taken", namespace)
		}
	}
	for _, partitions := range []int{-1, maxPartitions + 1} {
		if _, err := New(client, Options{Namespace: "n", Partitions: partitions}); err == nil {
			t.Errorf("%d partitions are taken", partitions)
		}
	}
	if _, err := New(client, Options{Namespace: "orders/v2:eu-1.x_y@z#1,+="}); err != nil {
		t.Error(err)
	}
}

func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		namespace := freshNamespace(t, url)
		if err := Prepare(t.Context(), url, namespace); err != nil {
			t.Fatal(err)
		}
		open(t, url, Options{Namespace: namespace})
		if _, err := Open(t.Context(), url, Options{Namespace: namespace, Partitions: 8}); err == nil || !strings.Contains(err.Error(), "16 partitions, not 8") {
			t.Errorf("Open answers %v, want that the numbers differ", err)
		}
	})
}

func TestThePasswordIsNeverPrinted(t *testing.T) {
	const secret = "s3cr3t"
	server := miniredis.RunT(t)
	server.RequireAuth("another")
	free := freeAddr(t)
	for _, url := range []string{
		"redis://:" + secret + "@" + server.Addr(),
		"redis://user:" + secret + "@" + server.Addr(),
		"redis://user:" + secret + "@" + free,
		"http://user:" + secret + "@host",
		"redis://user:" + secret + "@host:port",
		"redis://user:a/" + secret + "@host:1",
		"redis://user:a#" + secret + "@host:1",
		"redis://user:a%" + secret + "@host:1",
		"redis://user:a@host/1/" + secret,
		"redis://host?password=" + secret,
		"redis://host?" + secret + "=1",
		"redis://host?pool_size=" + secret,
		"redis://host/" + secret,
		secret,
	} {
		_, err := Open(t.Context(), url, Options{Namespace: "n"})
		for _, err := range []error{err, Prepare(t.Context(), url, "n"), Drop(t.Context(), url, "n"), Settled(t.Context(), url, "n")} {
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
				t.Errorf("%s: %v, want an error without the password", url, err)
			}
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
