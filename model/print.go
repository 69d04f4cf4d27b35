package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const historyHeader = "effectonce history 1"

// Print writes the history as text: a head of facts, one line an operation, and an end line that counts them, so
// that a truncated file is told from a short run. Equal histories print alike.
func (h *History) Print() string {
	p := printer{h: h}
	p.head()
	for _, f := range h.Faults {
		fmt.Fprintf(&p, "fault %d %s worker=%d from=%d to=%d", f.ID, quote(f.Name), f.Worker, f.From, f.To)
		p.field(f.Detail != "", "detail", quote(f.Detail))
		p.WriteByte('\n')
	}
	for _, m := range h.Marks {
		p.line("mark %s %d", quote(m.Name), m.Count)
	}
	for i := range h.Operations {
		p.operation(&h.Operations[i])
	}
	if h.LedgerRead != 0 {
		p.line("ledger read=%d", h.LedgerRead)
	}
	for _, e := range h.Effects {
		p.line("effect %s %s id=%s account=%s amount=%d", quote(e.Key.Consumer), quote(e.Key.ID),
			quote(e.Effect.ID), quote(e.Effect.Account), e.Effect.Amount)
	}
	p.line("end %d", len(h.Operations))
	return p.String()
}

// PrintOperation writes one operation as its line in the history, without the line's end.
func (h *History) PrintOperation(o *Operation) string {
	p := printer{h: h}
	p.operation(o)
	return strings.TrimSuffix(p.String(), "\n")
}

// PrintAnswer writes what an operation was answered, as its line says it after the arrow.
func (h *History) PrintAnswer(o *Operation) string {
	p := printer{h: h}
	p.answer(shapes[o.Kind], o)
	return strings.TrimPrefix(p.String(), " ")
}

type printer struct {
	strings.Builder
	h *History
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

// quote keeps a line on its line and in ASCII, whatever a message id holds.
func quote(s string) string { return strconv.QuoteToASCII(s) }

func (p *printer) head() {
	h := p.h
	p.line(historyHeader)
	p.line("store %s", quote(h.Store))
	p.line("scenario %s", quote(h.Scenario))
	p.line("seed %d", h.Seed)
	p.line("epoch %s", h.Epoch.Time().Format(time.RFC3339Nano))
	p.line("contract%s", printFacts(h.Contract))
	for _, w := range h.Contract.Waivers {
		until := "never"
		if !w.Until.IsZero() {
			until = w.Until.UTC().Format(time.RFC3339Nano)
		}
		p.line("waiver %s until=%s reason=%s", w.Invariant, until, quote(w.Reason))
	}
	p.WriteString("capabilities")
	for _, c := range h.Capabilities {
		p.WriteString(" " + string(c))
	}
	p.WriteByte('\n')
	for i, zone := range h.Zones {
		p.line("zone w%d %d", i+1, zone)
	}
}

func (p *printer) instant(i Instant) string {
	if i == NoInstant {
		return "none"
	}
	if d := p.h.Offset(i); p.h.Epoch+Instant(d) == i {
		return d.String()
	}
	return "@" + i.Time().Format(time.RFC3339Nano) // too far from the epoch for a duration
}

func (p *printer) field(wanted bool, name, value string) {
	if wanted {
		p.WriteString(" " + name + "=" + value)
	}
}

func (p *printer) operation(o *Operation) {
	sh := shapes[o.Kind]
	fmt.Fprintf(p, "op %d w%d/%d %s", o.ID, o.Worker, o.Handle, o.Kind)
	if sh.key {
		fmt.Fprintf(p, " %s %s", quote(o.Key.Consumer), quote(o.Key.ID))
	}
	p.field(sh.delivery, "delivery", strconv.Itoa(o.Delivery))
	p.field(sh.nonce, "nonce", quote(o.Nonce))
	p.field(sh.claim, "claim", "#"+strconv.Itoa(o.Claim))
	p.field(sh.now, "now", p.instant(o.Now))
	p.field(sh.lease, "lease", o.Lease.String())
	p.field(sh.before, "before", p.instant(o.Before))
	p.field(sh.visibleAt, "visible-at", p.instant(o.VisibleAt))
	p.field(sh.reason, "reason", quote(o.Reason))
	p.field(sh.result, "result", quote(o.Result))
	if sh.effect {
		p.field(true, "effect", quote(o.Effect.ID))
		p.field(true, "account", quote(o.Effect.Account))
		p.field(true, "amount", strconv.FormatInt(o.Effect.Amount, 10))
	}
	p.field(true, "call", strconv.FormatInt(o.Call, 10))
	p.field(o.Return != 0, "return", strconv.FormatInt(o.Return, 10))
	p.field(o.Closed != 0, "closed", strconv.FormatInt(o.Closed, 10))
	p.field(o.CalledAt != NoInstant, "called-at", p.instant(o.CalledAt))
	p.field(o.ReturnedAt != NoInstant, "returned-at", p.instant(o.ReturnedAt))
	p.WriteString(" ->")
	p.answer(sh, o)
	p.WriteByte('\n')
}

func (p *printer) answer(sh shape, o *Operation) {
	a := &o.Answer
	if o.Return == 0 {
		p.WriteString(" pending")
	} else {
		p.WriteString(" " + a.Outcome.String())
	}
	if a.Outcome == OK {
		if sh.yes != "" {
			word := sh.no
			if a.Yes {
				word = sh.yes
			}
			p.WriteString(" " + word)
		}
		if sh.told {
			p.WriteString(" " + a.Told.String())
		}
		p.field(sh.count, "count", strconv.Itoa(a.Count))
		if sh.record {
			p.record(a)
		}
	}
	p.field(a.Refusal != NoError, "refusal", string(a.Refusal))
	p.field(a.Error != "", "error", quote(a.Error))
	p.flag(o.Unseen, "unseen")
	p.flag(o.Applied, "applied")
	p.flag(o.Late, "late")
	p.field(o.Fault != 0, "fault", strconv.Itoa(o.Fault))
}

func (p *printer) flag(set bool, name string) {
	if set {
		p.WriteString(" " + name)
	}
}

func (p *printer) record(a *Answer) {
	p.field(a.State != Absent, "state", quote(string(a.State)))
	p.field(a.Attempts != 0, "attempts", strconv.Itoa(a.Attempts))
	p.field(a.LeaseUntil != NoInstant, "lease-until", p.instant(a.LeaseUntil))
	p.field(a.UpdatedAt != NoInstant, "updated-at", p.instant(a.UpdatedAt))
	p.field(a.Token != "", "token", quote(a.Token))
	p.field(a.Reason != "", "reason", quote(a.Reason))
	p.field(a.HasResult, "result", quote(a.Result))
}
