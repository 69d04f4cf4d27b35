package scenarios

import (
	"context"
	"slices"
	"time"

	"github.com/effectonce/effectonce/model"
)

// BatchConsumer is a [Consumer] that takes what one poll brought as one call. It answers one result a message, in the
// order of the messages; an error says that nothing is known of any of them. The same message may stand in a batch
// twice.
type BatchConsumer interface {
	DeliverBatch(ctx context.Context, batch []model.Message) ([]model.Result, error)
}

// pruner is what every store has, and a consumer may have: it forgets, if the kit is to play the cleaner.
type pruner interface {
	Prune(ctx context.Context, before time.Time) (int, error)
}

// capabilities are what an opened value can do, found by assertion once, at open, before anything wraps it: a wrapper
// hides methods.
type capabilities struct {
	store    model.Store // exactly one of these three, as the harness's door says
	inbox    model.Inbox
	consumer Consumer

	batcher BatchConsumer
	pruner  pruner

	rebeginner model.Rebeginner
	fencer     model.Fencer
	committer  model.EffectCommitter
	reader     model.Reader
	releaser   model.Releaser
	extender   model.Extender
	buryer     model.DeadLetterer
	keeper     model.ResultKeeper
}

func findStore(s model.Store) capabilities {
	c := capabilities{store: s, pruner: s}
	c.rebeginner, _ = s.(model.Rebeginner)
	c.fencer, _ = s.(model.Fencer)
	c.committer, _ = s.(model.EffectCommitter)
	c.reader, _ = s.(model.Reader)
	c.releaser, _ = s.(model.Releaser)
	c.extender, _ = s.(model.Extender)
	c.buryer, _ = s.(model.DeadLetterer)
	c.keeper, _ = s.(model.ResultKeeper)
	return c
}

func findInbox(i model.Inbox) capabilities {
	c := capabilities{inbox: i, pruner: i}
	c.reader, _ = i.(model.Reader)
	return c
}

func findConsumer(consumer Consumer) capabilities {
	c := capabilities{consumer: consumer}
	c.batcher, _ = consumer.(BatchConsumer)
	c.pruner, _ = consumer.(pruner)
	return c
}

// capability is one thing that an opened value may be able to do: the operation that comes with it, and the name by
// which reports and Require know it.
type capability struct {
	kind model.Kind
	name string
	has  func(*capabilities) bool
}

// door is how a harness is entered, with what may be found behind it.
type door struct {
	kind     model.Kind // what a message is handled by; empty: a store, with operations of its own
	base     []model.Kind
	without  string // why a promise that no interface carries is not judged
	optional []capability
}

func reads() capability {
	return capability{model.Lookup, "Reader", func(c *capabilities) bool { return c.reader != nil }}
}

func (h *Harness) door() door {
	switch {
	case h.OpenInbox != nil:
		return door{model.ApplyOnce, []model.Kind{model.ApplyOnce, model.Prune}, "an inbox has no claim", []capability{reads()}}
	case h.OpenConsumer != nil:
		return door{model.Deliver, []model.Kind{model.Deliver}, "nobody looks into a consumer", []capability{
			{"", "BatchConsumer", func(c *capabilities) bool { return c.batcher != nil }},
			{model.Prune, "Pruner", func(c *capabilities) bool { return c.pruner != nil }},
		}}
	}
	return door{"", []model.Kind{model.Begin, model.Complete, model.Prune}, "", []capability{
		{model.BeginAs, "Rebeginner", func(c *capabilities) bool { return c.rebeginner != nil }},
		{model.CompleteClaim, "Fencer", func(c *capabilities) bool { return c.fencer != nil }},
		{model.CommitEffect, "EffectCommitter", func(c *capabilities) bool { return c.committer != nil }},
		reads(),
		{model.Release, "Releaser", func(c *capabilities) bool { return c.releaser != nil }},
		{model.Extend, "Extender", func(c *capabilities) bool { return c.extender != nil }},
		{model.Bury, "DeadLetterer", func(c *capabilities) bool { return c.buryer != nil }},
		{model.Replay, "DeadLetterer", func(c *capabilities) bool { return c.buryer != nil }},
		{model.CompleteResult, "ResultKeeper", func(c *capabilities) bool { return c.keeper != nil }},
	}}
}

// kinds lists the operations that the optional interfaces bring, sorted.
func (d door) kinds(c *capabilities) []model.Kind {
	var found []model.Kind
	for _, o := range d.optional {
		if o.kind != "" && o.has(c) {
			found = append(found, o.kind)
		}
	}
	slices.Sort(found)
	return found
}

// operations lists all that can be asked of what is behind the door, sorted.
func (d door) operations(c *capabilities) []model.Kind {
	all := append(d.kinds(c), d.base...)
	slices.Sort(all)
	return all
}

// names sorts the optional interfaces into those that were found and those that were not.
func (d door) names(c *capabilities) (found, missing []string) {
	for _, o := range d.optional {
		to := &missing
		if o.has(c) {
			to = &found
		}
		if !slices.Contains(*to, o.name) {
			*to = append(*to, o.name)
		}
	}
	slices.Sort(found)
	slices.Sort(missing)
	return found, missing
}
