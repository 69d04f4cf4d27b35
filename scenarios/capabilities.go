package scenarios

import (
	"slices"

	"github.com/effectonce/effectonce/model"
)

// capabilities are the optional interfaces of a store, found by assertion once, at open, before anything wraps the
// store: a wrapper hides methods.
type capabilities struct {
	rebeginner model.Rebeginner
	fencer     model.Fencer
	committer  model.EffectCommitter
	reader     model.Reader
	releaser   model.Releaser
	extender   model.Extender
	buryer     model.DeadLetterer
	keeper     model.ResultKeeper
}

func find(s model.Store) capabilities {
	var c capabilities
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

// kinds lists the operations that the optional interfaces bring, sorted.
func (c capabilities) kinds() []model.Kind {
	var found []model.Kind
	for kind, has := range map[model.Kind]bool{
		model.BeginAs: c.rebeginner != nil, model.CompleteClaim: c.fencer != nil,
		model.CommitEffect: c.committer != nil, model.Lookup: c.reader != nil,
		model.Release: c.releaser != nil, model.Extend: c.extender != nil,
		model.Bury: c.buryer != nil, model.Replay: c.buryer != nil, model.CompleteResult: c.keeper != nil,
	} {
		if has {
			found = append(found, kind)
		}
	}
	slices.Sort(found)
	return found
}

// optional names the interface that each optional operation comes with.
func optional() map[model.Kind]string {
	return map[model.Kind]string{
		model.BeginAs: "Rebeginner", model.CompleteClaim: "Fencer", model.CommitEffect: "EffectCommitter", model.Lookup: "Reader",
		model.Release: "Releaser", model.Extend: "Extender", model.Bury: "DeadLetterer", model.CompleteResult: "ResultKeeper",
	}
}
