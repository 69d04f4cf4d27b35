package checker

import "github.com/effectonce/effectonce/model"

// generation counts the effects of one record between two forgettings: a message that was forgotten and came again
// is a new one, and may have its effect again.
type generation struct {
	born, rows       int
	asked            bool
	amount, expected int64
}

func (g *generation) met(e *model.Event, born int, out *Effects) {
	if e.Effect.ID == "" || e.Rows < 0 {
		return
	}
	if g.asked && born != g.born {
		g.end(out)
	}
	g.born, g.asked = born, true
	g.rows += e.Rows
	g.amount += int64(e.Rows) * e.Effect.Amount
	if e.Rows > 0 && g.expected == 0 {
		g.expected = e.Effect.Amount
	}
}

func (g *generation) end(out *Effects) {
	if !g.asked {
		return
	}
	switch g.rows {
	case 0:
		out.None++
	case 1:
		out.Once++
	default:
		out.More++
	}
	out.Amount += g.amount
	out.Expected += g.expected
	*g = generation{}
}

// countEffects counts the effects of a key whose operations overlapped, as one generation.
func countEffects(g *group, out *Effects) {
	var all generation
	for _, e := range g.events {
		all.met(e, 0, out)
	}
	all.end(out)
}
