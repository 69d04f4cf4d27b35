package scenarios

import (
	"slices"
	"time"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

// required are the marks without which a pass would be vacuous, for what the store offers.
func (s surface) required() []string {
	marks := s.marks()
	if s.server { // nobody knows when exactly the server looked at its clock
		marks &^= model.TakenOverAtTheEnd | model.RefusedBeforeTheEnd
	}
	if s.contract.Retention == model.ByItself || !s.prunes {
		marks &^= model.PruneRemoved | model.PruneSparedYoung | model.PruneSparedClaim
		marks &^= model.ClaimedAgain | model.StaleAfterForgetting // its window may be days
	}
	names := marks.Names()
	if s.wire {
		names = append(names, brokenOnTheWire)
	}
	return names
}

func (s surface) marks() model.Marks {
	const forgetting = model.PruneRemoved | model.PruneSparedYoung | model.ClaimedAgain
	switch s.whole {
	case model.ApplyOnce:
		return model.DoneMet | model.ReplyLost | model.EffectCommitted | forgetting
	case model.Deliver:
		return model.DoneMet | model.ReplyLost | model.EffectCommitted
	}
	marks := model.LiveClaimRefused | model.TakenOver | model.TakenOverAtTheEnd | model.RefusedBeforeTheEnd |
		model.DoneMet | model.PruneSparedClaim | model.LateCompletion | model.ReplyLost | forgetting
	for _, c := range []struct {
		has    bool
		brings model.Marks
	}{
		{s.fences || s.commits, model.StalePresented | model.StaleAfterForgetting | model.CompletionRepeated},
		{s.commits, model.EffectCommitted},
		{s.rebegins, model.AskedAgain},
		{s.releases, model.ReleasedTaken | model.ReleasedHeld},
		{s.extends, model.Extended},
		{s.buries, model.DeadMet | model.Replayed},
		{s.keeps, model.ResultTold},
	} {
		if c.has {
			marks |= c.brings
		}
	}
	if s.contract.NoLease || s.contract.MaxAttempts == 1 {
		marks &^= model.TakenOver | model.TakenOverAtTheEnd
	}
	if s.contract.LeaseIsRecord || s.contract.NoLease || s.contract.MaxAttempts == 1 {
		marks &^= model.StalePresented // nobody takes over a record that is still there
	}
	if s.contract.LeaseIsRecord {
		marks &^= model.LateCompletion
	}
	return marks
}

// notPromised lists what is not judged, and why. What is measured all the same stands beside it.
func (g *campaign) notPromised(measured checker.Counts) []checker.Cell {
	var cells []checker.Cell
	add := func(id model.InvariantID, why string) { cells = append(cells, checker.Cell{Invariant: id, Why: why}) }
	door := g.h.door()
	offered := door.operations(&g.found)
	for _, i := range model.Invariants() {
		if !slices.ContainsFunc(i.Kinds, func(k model.Kind) bool { return slices.Contains(offered, k) }) {
			add(i.ID, door.carrier(i.Kinds))
			if i.ID == model.StaleClaimRefused && measured.ByKey > 0 {
				cells[len(cells)-1].Broken, cells[len(cells)-1].Of = measured.ByKeyAccepted, measured.ByKey
			}
		}
	}
	c, s := g.h.Contract, g.planner.surface
	for _, f := range []struct {
		is  bool
		id  model.InvariantID
		why string
	}{
		{true, model.SurvivesRestart, "this version restarts no server"},
		{c.NoAttempts, model.AttemptsCountClaims, "attempts are not kept"},
		{c.LeaseIsRecord, model.AttemptsCountClaims, "an expired claim leaves no record, so attempts start again"},
		{c.NoLease, model.NoEarlySteal, "a claim is final"},
		{c.NoLease, model.TakeoverAfterExpiry, "a claim is final"},
		{c.TokenPerRecord && g.planner.surface.fences, model.StaleClaimRefusedAfterForgetting, "tokens start again after Prune"},
		{s.waits && c.WithDefaults().Window > s.waitsAtMost(), model.RememberedInWindow, "for longer than " + s.waitsAtMost().String() + ": no Advance can move the server's clock, and nobody waits for days"},
		{g.h.Upstream != "" && g.h.Control == nil, model.EveryCallReturns, "no Control: no time bound is judged"},
	} {
		if f.is && !slices.ContainsFunc(cells, func(c checker.Cell) bool { return c.Invariant == f.id }) {
			add(f.id, f.why)
		}
	}
	for _, w := range c.Waivers {
		add(w.Invariant, "waived: "+w.Reason)
	}
	for _, w := range g.expired {
		add(w.Invariant, "judged again: its waiver ran out on "+w.Until.Format(time.DateOnly))
	}
	return cells
}

// carrier names the interface that would carry a promise.
func (d door) carrier(kinds []model.Kind) string {
	for _, k := range kinds {
		for _, o := range d.optional {
			if o.kind == k {
				return "no " + o.name
			}
		}
	}
	return d.without
}
