package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/adapters/redisttl"
	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// judged is a store that is driven at random and judged by the contract it states.
type judged struct {
	handles  []model.Store // two, on one namespace
	contract model.Contract
	advance  func(time.Duration) // nil: the callers' clock decides
	rand     *rand.Rand
	message  string
	h        *model.History
	elapsed  time.Duration
}

const step = 100 * time.Millisecond

// call makes one random call and records it.
func (j *judged) call() {
	r, w := j.rand, j.rand.IntN(len(j.handles))
	skew := time.Duration(0)
	if r.IntN(4) == 0 {
		skew = time.Duration(r.IntN(21)-10) * step
	}
	now := epoch.Add(j.elapsed + skew)
	o := model.Operation{
		ID: len(j.h.Operations) + 1, Worker: w + 1, Handle: w + 1, Now: model.InstantOf(now),
		Key: model.Key{Consumer: "c", ID: j.message}, Call: int64(2*len(j.h.Operations) + 1),
	}
	o.Return = o.Call + 1
	o.Kind = []model.Kind{
		model.Begin, model.Begin, model.Begin, model.BeginAs, model.Complete, model.CompleteClaim, model.CompleteResult,
		model.Release, model.Release, model.Extend, model.Bury, model.Replay, model.Prune, model.Lookup,
	}[r.IntN(14)]
	if o.Kind.Fenced() {
		if o.Claim = j.claim(); o.Claim == 0 {
			return
		}
	}
	delay := time.Duration(r.IntN(8)-3) * step
	switch o.Kind {
	case model.Begin, model.BeginAs, model.Extend:
		o.Lease = time.Duration(1+r.IntN(6)) * step
	case model.Release:
		o.VisibleAt = model.InstantOf(now.Add(delay))
		if j.advance != nil { // the server's time is the plan's
			o.VisibleAt = model.InstantOf(epoch.Add(j.elapsed + delay))
		}
	case model.Prune:
		o.Key, o.Now, o.Before = model.Key{}, model.NoInstant, model.InstantOf(now.Add(delay))
	case model.Lookup:
		o.Now = model.NoInstant
	}
	if o.Kind == model.BeginAs {
		o.Nonce = "n" + strconv.Itoa(r.IntN(2))
	}
	if o.Kind == model.Release || o.Kind == model.Bury {
		o.Reason = []string{"", "reason " + strconv.Itoa(o.ID)}[r.IntN(2)]
	}
	if o.Kind == model.CompleteResult {
		o.Result = []string{"", "0", "\xff\x00"}[r.IntN(3)]
	}
	if j.advance != nil {
		o.CalledAt = model.InstantOf(epoch.Add(j.elapsed))
		o.ReturnedAt = o.CalledAt
	}
	if j.ask(j.handles[w], &o, now, now.Add(delay)) {
		j.h.Operations = append(j.h.Operations, o)
	}
}

// claim picks one that somebody was granted, more often a late one.
func (j *judged) claim() int {
	picked := 0
	for i := range j.h.Operations {
		if j.h.Operations[i].Granted() && (picked == 0 || j.rand.IntN(3) > 0) {
			picked = i + 1
		}
	}
	return picked
}

// ask answers whether the store can do what is asked.
func (j *judged) ask(s model.Store, o *model.Operation, now, visibleAt time.Time) bool {
	ctx, consumer, id := context.Background(), o.Key.Consumer, o.Key.ID
	var claim, record model.Record
	var err error
	told, can := model.Answer{}, true
	if o.Claim > 0 {
		claim = j.h.Operations[o.Claim-1].Answer.Record()
	}
	switch o.Kind {
	case model.Begin:
		record, told.Yes, err = s.Begin(ctx, consumer, id, now, o.Lease)
	case model.Complete:
		err = s.Complete(ctx, consumer, id, now)
	case model.Prune:
		told.Count, err = s.Prune(ctx, o.Before.Time())
	case model.BeginAs:
		var s2 model.Rebeginner
		if s2, can = s.(model.Rebeginner); can {
			record, told.Yes, err = s2.BeginAs(ctx, consumer, id, o.Nonce, now, o.Lease)
		}
	case model.CompleteClaim:
		err = s.(model.Fencer).CompleteClaim(ctx, consumer, id, claim, now)
	case model.CompleteResult:
		var s2 model.ResultKeeper
		if s2, can = s.(model.ResultKeeper); can {
			err = s2.CompleteResult(ctx, consumer, id, claim, now, []byte(o.Result))
		}
	case model.Release:
		err = s.(model.Releaser).Release(ctx, consumer, id, claim, now, visibleAt, o.Reason)
	case model.Extend:
		record, err = s.(model.Extender).Extend(ctx, consumer, id, claim, now, o.Lease)
	case model.Bury, model.Replay:
		var s2 model.DeadLetterer
		if s2, can = s.(model.DeadLetterer); can && o.Kind == model.Bury {
			err = s2.Bury(ctx, consumer, id, claim, now, o.Reason)
		} else if can {
			err = s2.Replay(ctx, consumer, id, now)
		}
	case model.Lookup:
		record, told.Yes, err = s.(model.Reader).Lookup(ctx, consumer, id)
	}
	o.Answer = model.Answer{Outcome: model.OutcomeOf(err)}
	if err == nil {
		told.Outcome = model.OK
		o.Answer = told
		o.Answer.SetRecord(record)
		return can
	}
	o.Answer.Error, o.Answer.Refusal = err.Error(), model.Failed
	for sentinel, refusal := range map[error]model.Refusal{
		model.ErrFenced: model.Fenced, model.ErrNotFound: model.NotFound, model.ErrRefused: model.Refused,
	} {
		if errors.Is(err, sentinel) {
			o.Answer.Refusal = refusal
		}
	}
	return can
}

// run drives one message through a random history, and answers what the judge finds wrong with it.
func (j *judged) run(calls int) error {
	j.h = &model.History{Store: "judged", Scenario: "random", Epoch: model.InstantOf(epoch), Contract: j.contract}
	j.elapsed = 0
	for range calls {
		if d := time.Duration(j.rand.IntN(4)) * step; d > 0 {
			j.elapsed += d
			if j.advance != nil {
				j.advance(d)
			}
		}
		j.call()
	}
	defer j.handles[0].Prune(context.Background(), epoch.AddDate(1, 0, 0)) // what is DONE is not the next history's
	if err := j.h.Validate(); err != nil {
		return err
	}
	if report := checker.Check(j.h); report.Verdict != checker.Pass {
		return fmt.Errorf("%s\n%s", report.Explain(), j.h.Print())
	}
	return nil
}

func (j *judged) runAll(t *testing.T, histories int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	j.rand = rand.New(rand.NewPCG(seed, 0))
	for i := range histories {
		j.message = fmt.Sprint("m-", i)
		if err := j.run(60); err != nil {
			t.Fatalf("history %d of seed %d: %v", i, seed, err)
		}
	}
}

// Whatever is asked, in whatever order and by whatever claims, each answer is one that the contract allows.
func TestEveryAnswerIsOneThatTheContractAllows(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		space := memory.New(memory.Options{})
		j := judged{handles: []model.Store{space.Open(), space.Open()}, contract: memory.Contract()}
		j.runAll(t, 300)
	})
	for name, url := range map[string]func(*testing.T) string{
		"miniredis": func(t *testing.T) string { return "redis://" + miniredis.RunT(t).Addr() },
		"redis":     func(t *testing.T) string { return realRedis.Need(t).DSN() },
	} {
		t.Run(name, func(t *testing.T) {
			one := redisStore(t, url(t))
			j := judged{handles: []model.Store{one.store, one.store}, contract: redis.Contract()}
			j.runAll(t, 15)
		})
	}
	t.Run("redisttl", func(t *testing.T) {
		server := miniredis.RunT(t)
		j := judged{contract: redisttl.Contract(20*step, 10*step), advance: server.FastForward}
		j.contract.ClockError = -1 // miniredis knows the time exactly
		for range 2 {
			s, err := redisttl.Open(t.Context(), "redis://"+server.Addr(), redisttl.Options{Namespace: "judged", Window: 20 * step})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			j.handles = append(j.handles, s)
		}
		j.runAll(t, 60)
	})
}
