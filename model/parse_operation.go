package model

import (
	"fmt"
	"strings"
	"time"
)

// ParseOperation reads one operation from its line, as [History.PrintOperation] writes it. Its instants are offsets
// from this history's epoch.
func (h *History) ParseOperation(line string) (Operation, error) {
	p := parser{h: &History{Epoch: h.Epoch}}
	rest, is := strings.CutPrefix(line, "op ")
	if !is {
		return Operation{}, fmt.Errorf("model: operation: %q is no operation", line)
	}
	p.rest = rest
	if err := p.operation(); err != nil {
		return Operation{}, fmt.Errorf("model: operation: %w", err)
	}
	return p.h.Operations[0], nil
}

func (p *parser) operation() error {
	var o Operation
	if err := p.integer(&o.ID); err != nil {
		return err
	}
	who, err := p.next()
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(who, "w%d/%d", &o.Worker, &o.Handle); err != nil {
		return fmt.Errorf("%q is no worker and handle", who)
	}
	kind, err := p.next()
	if err != nil {
		return err
	}
	o.Kind = Kind(kind)
	sh, known := shapes[o.Kind]
	if !known {
		return fmt.Errorf("unknown kind %q", kind)
	}
	if sh.key {
		if err := p.text(&o.Key.Consumer); err != nil {
			return err
		}
		if err := p.text(&o.Key.ID); err != nil {
			return err
		}
	}
	if err := p.invocation(sh, &o); err != nil {
		return err
	}
	if err := p.response(sh, &o); err != nil {
		return err
	}
	p.h.Operations = append(p.h.Operations, o)
	return nil
}

// invocation reads the fields before the arrow.
func (p *parser) invocation(sh shape, o *Operation) error {
	known := map[string]func(string) error{
		"call": moment(&o.Call), "return": moment(&o.Return), "closed": moment(&o.Closed),
		"called-at": p.instantTo(&o.CalledAt), "returned-at": p.instantTo(&o.ReturnedAt),
	}
	add := func(wanted bool, name string, set func(string) error) {
		if wanted {
			known[name] = set
		}
	}
	add(sh.delivery, "delivery", integer(&o.Delivery))
	add(sh.nonce, "nonce", quoted(&o.Nonce))
	add(sh.claim, "claim", func(s string) error { return integer(&o.Claim)(strings.TrimPrefix(s, "#")) })
	add(sh.now, "now", p.instantTo(&o.Now))
	add(sh.lease, "lease", func(s string) (err error) { o.Lease, err = time.ParseDuration(s); return err })
	add(sh.before, "before", p.instantTo(&o.Before))
	add(sh.visibleAt, "visible-at", p.instantTo(&o.VisibleAt))
	add(sh.reason, "reason", quoted(&o.Reason))
	add(sh.result, "result", quoted(&o.Result))
	add(sh.effect, "effect", quoted(&o.Effect.ID))
	add(sh.effect, "account", quoted(&o.Effect.Account))
	add(sh.effect, "amount", moment(&o.Effect.Amount))
	before, after, arrow := cutArrow(p.rest)
	if !arrow {
		return fmt.Errorf("cut short: the operation has no answer")
	}
	p.rest = before
	if err := p.fields(known); err != nil {
		return err
	}
	p.rest = after
	return nil
}

// cutArrow splits at the arrow that stands outside of quotes.
func cutArrow(line string) (before, after string, found bool) {
	inside := false
	for i := 0; i < len(line); i++ {
		switch {
		case inside && line[i] == '\\':
			i++
		case line[i] == '"':
			inside = !inside
		case !inside && strings.HasPrefix(line[i:], " ->"):
			return line[:i], strings.TrimPrefix(line[i+len(" ->"):], " "), true
		}
	}
	return "", "", false
}

// response reads the fields after the arrow.
func (p *parser) response(sh shape, o *Operation) error {
	a := &o.Answer
	outcome, err := p.next()
	if err != nil {
		return err
	}
	switch outcome {
	case "pending", "unknown":
		a.Outcome = Unknown
	case "ok":
		a.Outcome = OK
	case "not-applied":
		a.Outcome = NotApplied
	default:
		return fmt.Errorf("unknown outcome %q", outcome)
	}
	if a.Outcome == OK && sh.yes != "" {
		word, err := p.next()
		if err != nil {
			return err
		}
		if word != sh.yes && word != sh.no {
			return fmt.Errorf("%q is neither %q nor %q", word, sh.yes, sh.no)
		}
		a.Yes = word == sh.yes
	}
	if a.Outcome == OK && sh.told {
		word, err := p.next()
		if err != nil {
			return err
		}
		if a.Told, err = parseResult(word); err != nil {
			return err
		}
	}
	return p.fields(p.answers(sh, o))
}

func (p *parser) answers(sh shape, o *Operation) map[string]func(string) error {
	a := &o.Answer
	known := map[string]func(string) error{
		"refusal": func(s string) error { a.Refusal = Refusal(s); return knownRefusal(a.Refusal) },
		"error":   quoted(&a.Error),
		"unseen":  flagTo(&o.Unseen),
		"applied": flagTo(&o.Applied),
		"late":    flagTo(&o.Late),
		"fault":   integer(&o.Fault),
	}
	if a.Outcome == OK && sh.count {
		known["count"] = integer(&a.Count)
	}
	if a.Outcome == OK && sh.record {
		known["state"] = func(s string) error { return quoted((*string)(&a.State))(s) }
		known["attempts"] = integer(&a.Attempts)
		known["lease-until"] = p.instantTo(&a.LeaseUntil)
		known["updated-at"] = p.instantTo(&a.UpdatedAt)
		known["token"] = quoted(&a.Token)
		known["reason"] = quoted(&a.Reason)
		known["result"] = func(s string) error { a.HasResult = true; return quoted(&a.Result)(s) }
	}
	return known
}

func knownRefusal(r Refusal) error {
	switch r {
	case Fenced, NotFound, Refused, Failed:
		return nil
	}
	return fmt.Errorf("%q is no refusal", r)
}

func flagTo(to *bool) func(string) error {
	return func(s string) error {
		if s != "" {
			return fmt.Errorf("a flag has no value, not %q", s)
		}
		*to = true
		return nil
	}
}

func (p *parser) instantTo(to *Instant) func(string) error {
	return func(s string) error {
		if s == "none" {
			*to = NoInstant
			return nil
		}
		if far, is := strings.CutPrefix(s, "@"); is {
			t, err := time.Parse(time.RFC3339Nano, far)
			*to = InstantOf(t)
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%q is no offset from the epoch", s)
		}
		*to = p.h.Epoch + Instant(d)
		return nil
	}
}
