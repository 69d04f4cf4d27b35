package model_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

// FuzzHistoryText: whatever parses prints back to the same text, can be judged, and nothing panics.
func FuzzHistoryText(f *testing.F) {
	f.Add(rich().Print())
	f.Add((&model.History{}).Print())
	f.Add("")
	for _, e := range edits {
		f.Add(strings.Replace(rich().Print(), e.old, e.replacement, 1))
	}
	for seed := range uint64(4) {
		f.Add(drawn(seed, 12).Print())
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := model.Parse(text)
		if err != nil {
			return
		}
		if again := h.Print(); again != text {
			t.Fatalf("parsed\n%s\nand prints\n%s", text, again)
		}
		judge(h)
	})
}

// judge puts every operation to every state that the others may have led to, under strict and under wider rules.
func judge(h *model.History) {
	rules := model.NewRules(h.Contract)
	for _, r := range []*model.Rules{rules, rules.Excusing(model.StaleClaimRefused), rules.Excusing(model.ExclusiveClaim), rules.Excusing(model.TypedAnswers)} {
		now := model.Fresh()
		events := h.Events()
		for i := range events {
			if next := now.Next(r, &events[i]); len(next) > 0 && len(next) < 64 {
				now = next
			}
			now.NextOptional(r, &events[i])
			describe(h, now)
			r.Reached(now[0], &events[i])
		}
	}
}

// FuzzHistoryRoundTrip: any history that a recorder could have written survives the text.
func FuzzHistoryRoundTrip(f *testing.F) {
	for i, s := range nasty {
		f.Add([]byte(strings.Repeat(s+"\x07", 20)), s, nasty[len(nasty)-1-i], int64(i)<<57)
	}
	f.Add([]byte(strings.Repeat("\xff", 300)), "consumer", "id", int64(-1<<63))
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"), "", "\x00", int64(1<<63-1))
	f.Fuzz(func(t *testing.T, data []byte, consumer, id string, epoch int64) {
		h := build(&bits{data}, consumer, id, model.Instant(epoch))
		if err := h.Validate(); err != nil {
			t.Fatalf("built a history that is none: %v", err)
		}
		roundTrip(t, h)
		judge(h)
	})
}

// bits deals fuzz data out; an empty one deals zeros.
type bits struct{ data []byte }

func (b *bits) byte() byte {
	if len(b.data) == 0 {
		return 0
	}
	first := b.data[0]
	b.data = b.data[1:]
	return first
}

func (b *bits) flip() bool     { return b.byte()&1 == 1 }
func (b *bits) upTo(n int) int { return int(b.byte()) % n }

func (b *bits) int64() int64 {
	if b.flip() {
		return int64(int8(b.byte()))
	}
	var wide [8]byte
	for i := range wide {
		wide[i] = b.byte()
	}
	return int64(binary.LittleEndian.Uint64(wide[:]))
}

func (b *bits) text() string {
	if b.flip() {
		return nasty[b.upTo(len(nasty))]
	}
	n := min(b.upTo(9), len(b.data))
	s := string(b.data[:n])
	b.data = b.data[n:]
	return s
}

func (b *bits) instant() model.Instant  { return model.Instant(b.int64()) }
func (b *bits) duration() time.Duration { return time.Duration(b.int64()) }
func (b *bits) positive() int64         { return max(b.int64()&(1<<62-1), 1) }
func (b *bits) effect() (e model.Effect) {
	e.ID, e.Account, e.Amount = b.text(), b.text(), b.int64()
	return e
}
func (b *bits) key(c, id string) model.Key {
	if b.flip() {
		return model.Key{Consumer: c, ID: id}
	}
	return model.Key{Consumer: b.text(), ID: b.text()}
}

var kinds = []model.Kind{
	model.Begin, model.BeginAs, model.Complete, model.CompleteClaim, model.CommitEffect, model.CompleteResult, model.Release,
	model.Extend, model.Bury, model.Replay, model.ApplyOnce, model.Prune, model.Lookup,
}

func build(b *bits, consumer, id string, epoch model.Instant) *model.History {
	h := &model.History{Store: b.text(), Scenario: b.text(), Seed: uint64(b.int64()), Epoch: epoch, LedgerRead: b.int64()}
	h.Contract = model.Contract{
		Clock: model.Clock(b.upTo(2)), ClockError: b.duration(), Precision: time.Duration(b.positive()), Window: 2 + time.Duration(b.positive()),
		Redelivery: 1, Retention: model.Retention(b.upTo(2)), NoLease: b.flip(), LeaseIsRecord: b.flip(), RefusesLate: b.flip(), NoAttempts: b.flip(),
		NoTimes: b.flip(), MaxAttempts: b.upTo(4), TokenPerRecord: b.flip(), OrderedToken: b.flip(), PruneAtMost: b.upTo(3),
		LosesOnCrash: b.flip(), SharedNamespace: b.flip(),
	}
	for range b.upTo(3) {
		w := model.Waiver{Invariant: model.Invariants()[b.upTo(17)].ID, Reason: "r" + b.text()}
		if b.flip() {
			w.Until = time.Unix(b.int64()%(1<<35), int64(b.byte())).UTC()
		}
		h.Contract.Waivers = append(h.Contract.Waivers, w)
	}
	for range b.upTo(3) {
		h.Capabilities, h.Zones = append(h.Capabilities, kinds[b.upTo(len(kinds))]), append(h.Zones, int(int8(b.byte())))
		h.Marks = append(h.Marks, model.Mark{Name: b.text(), Count: int(b.int64())})
		h.Faults = append(h.Faults, model.Fault{ID: len(h.Faults) + 1, Name: "f" + b.text(), Detail: b.text(), Worker: b.upTo(5), From: b.positive()})
		h.Effects = append(h.Effects, model.EffectRow{Key: b.key(consumer, id), Effect: b.effect()})
	}
	moment := int64(0)
	for len(b.data) > 0 && len(h.Operations) < 40 {
		moment += 1 + int64(b.upTo(3))
		o := operation(b, h, moment, b.key(consumer, id))
		h.Operations = append(h.Operations, o)
		moment = max(moment, o.Return)
	}
	return h
}

// operation builds one, with only those fields that its kind has and its outcome tells.
func operation(b *bits, h *model.History, call int64, key model.Key) model.Operation {
	k := kinds[b.upTo(len(kinds))]
	o := model.Operation{ID: len(h.Operations) + 1, Worker: 1 + b.upTo(3), Handle: 1 + b.upTo(3), Kind: k, Call: call,
		CalledAt: b.instant(), ReturnedAt: b.instant(), Unseen: b.flip(), Fault: b.upTo(len(h.Faults) + 1)}
	if k.Keyed() {
		o.Key = key
	}
	switch k {
	case model.Prune:
		o.Before = b.instant()
	case model.Lookup:
	default:
		o.Now = b.instant()
	}
	switch k {
	case model.Begin, model.Extend:
		o.Lease = b.duration()
	case model.BeginAs:
		o.Lease, o.Nonce = b.duration(), b.text()
	case model.CommitEffect, model.ApplyOnce:
		o.Effect = b.effect()
	case model.CompleteResult:
		o.Result = b.text()
	case model.Release:
		o.VisibleAt, o.Reason = b.instant(), b.text()
	case model.Bury:
		o.Reason = b.text()
	}
	if n := len(h.Operations); k.Fenced() && n > 0 {
		if id := 1 + b.upTo(n); h.Operations[id-1].Granted() {
			o.Claim = id
		}
	}
	answer(b, &o)
	return o
}

func answer(b *bits, o *model.Operation) {
	a := &o.Answer
	if a.Outcome = model.Outcome(b.upTo(3)); a.Outcome == model.Unknown {
		o.Applied = b.flip()
		if b.flip() { // it never came back
			if b.flip() {
				o.Closed = o.Call + 1
			}
			return
		}
	}
	o.Return = o.Call + 1 + int64(b.upTo(3))
	if a.Outcome != model.OK {
		a.Refusal, a.Error = []model.Refusal{model.Fenced, model.NotFound, model.Refused, model.Failed}[b.upTo(4)], b.text()
		if a.Outcome == model.Unknown && b.flip() {
			o.Closed = o.Return + int64(b.upTo(9))
		}
		return
	}
	switch o.Kind {
	case model.Begin, model.BeginAs, model.Lookup, model.ApplyOnce:
		a.Yes = b.flip()
	case model.Prune:
		a.Count = int(b.int64())
	}
	switch o.Kind {
	case model.Begin, model.BeginAs, model.Lookup, model.Extend:
		a.State = []model.State{model.Absent, model.Processing, model.Done, model.Dead, model.State(b.text())}[b.upTo(5)]
		a.Attempts, a.LeaseUntil, a.UpdatedAt, a.Token, a.Reason = int(b.int64()), b.instant(), b.instant(), b.text(), b.text()
		if b.flip() {
			a.Result, a.HasResult = b.text(), true
		}
	}
}
