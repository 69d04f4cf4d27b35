package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/postgres"
	"github.com/effectonce/effectonce/model"
)

// A drawn run of calls, one after the other, is answered as the contract allows: every answer is judged against what
// the record may be after those before it, and against the effects that the ledger holds in the end.
func TestTheContractExplainsEveryAnswerOfAnInbox(t *testing.T) {
	const steps, seed = 300, 11
	f := newInboxFixture(t, postgres.Options{PruneBatch: 2})
	random := rand.New(rand.NewPCG(seed, seed))
	instant := func() time.Time { return at(time.Duration(random.IntN(20_000)) * 500) } // every other one between microseconds
	history := model.History{Epoch: model.InstantOf(t0), Contract: postgres.InboxContract()}
	for i := range steps {
		o := model.Operation{ID: i + 1, Worker: 1, Handle: 1, Call: int64(2*i + 1), Return: int64(2*i + 2)}
		o.Answer.Outcome = model.OK
		var err error
		switch draw := random.IntN(10); {
		case draw < 6:
			now := instant()
			o.Kind, o.Key = model.ApplyOnce, model.Key{Consumer: "c", ID: fmt.Sprint("m", random.IntN(6))}
			o.Now, o.Effect = model.InstantOf(now), model.Effect{ID: fmt.Sprint("e", i)}
			o.Answer.Yes, err = f.ApplyOnce(f.ctx, o.Key.Consumer, o.Key.ID, now, o.Effect)
		case draw < 8:
			var record model.Record
			o.Kind, o.Key = model.Lookup, model.Key{Consumer: "c", ID: fmt.Sprint("m", random.IntN(6))}
			record, o.Answer.Yes, err = f.Inbox.Lookup(f.ctx, o.Key.Consumer, o.Key.ID)
			o.Answer.SetRecord(record)
		default:
			before := instant()
			o.Kind, o.Before = model.Prune, model.InstantOf(before)
			o.Answer.Count, err = f.Inbox.Prune(f.ctx, before)
		}
		must(t, err)
		history.Operations = append(history.Operations, o)
	}
	applied, err := postgres.Effects(f.ctx, testDSN(t), f.namespace)
	must(t, err)
	history.LedgerRead = 2*steps + 1
	for _, a := range applied {
		history.Effects = append(history.Effects, model.EffectRow{Key: model.Key{Consumer: a.Consumer, ID: a.MessageID}, Effect: a.Effect})
	}
	must(t, history.Validate())

	states := map[model.Key][]model.KeyState{}
	for n := range 6 {
		states[model.Key{Consumer: "c", ID: fmt.Sprint("m", n)}] = []model.KeyState{{}}
	}
	removed := 0
	for _, e := range history.Events() {
		for key, possible := range states {
			if e.Kind.Keyed() && e.Key != key {
				continue
			}
			if e.Kind == model.Prune {
				e.Alone = false // the count is of all keys
			}
			var next []model.KeyState
			for _, s := range possible {
				next = append(next, model.Step(history.Contract, s, e)...)
			}
			if len(next) == 0 {
				t.Fatalf("step %d of seed %d: %s was answered %+v, which the contract forbids from %v", e.ID, seed, e.Kind, e.Answer, possible)
			}
			states[key] = next
		}
		removed += e.Answer.Count
	}
	if removed < 10 || len(applied) < 20 {
		t.Fatalf("%d effects, %d pruned: too little happened", len(applied), removed)
	}
}
