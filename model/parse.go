package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a printed history. A text that is cut, changed or not exactly as [History.Print] would write it is
// refused with the number of its line, so that Parse and Print are each other's inverse.
func Parse(text string) (*History, error) {
	p := parser{h: &History{}}
	if err := p.parse(text); err != nil {
		return nil, fmt.Errorf("model: history: line %d: %w", p.number, err)
	}
	if err := p.h.Validate(); err != nil {
		return nil, err
	}
	if again := p.h.Print(); again != text {
		line, want := firstDifference(text, again)
		return nil, fmt.Errorf("model: history: line %d: not as it prints; want %q", line, want)
	}
	return p.h, nil
}

func firstDifference(got, want string) (line int, text string) {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range w {
		if i >= len(g) || g[i] != w[i] {
			return i + 1, w[i]
		}
	}
	return len(w), ""
}

type parser struct {
	h      *History
	number int
	ended  bool
	// what is left of the current line
	rest string
}

func (p *parser) parse(text string) error {
	p.number = 1
	if text == "" {
		return fmt.Errorf("empty; want %q", historyHeader)
	}
	for text != "" {
		line, after, whole := strings.Cut(text, "\n")
		if !whole {
			return fmt.Errorf("cut short: the line has no end")
		}
		if p.ended {
			return fmt.Errorf("text after the end")
		}
		if err := p.line(line); err != nil {
			return err
		}
		text = after
		if text != "" {
			p.number++
		}
	}
	if !p.ended {
		p.number++
		return fmt.Errorf("cut short: want the end line")
	}
	return nil
}

func (p *parser) line(line string) error {
	if p.number == 1 {
		if line != historyHeader {
			return fmt.Errorf("want %q", historyHeader)
		}
		return nil
	}
	p.rest = line
	verb, err := p.next()
	if err != nil {
		return err
	}
	switch verb {
	case "store":
		return p.text(&p.h.Store)
	case "scenario":
		return p.text(&p.h.Scenario)
	case "seed":
		p.h.Seed, err = strconv.ParseUint(p.rest, 10, 64)
		return err
	case "epoch":
		return p.epoch()
	case "contract":
		return p.contract()
	case "waiver":
		return p.waiver()
	case "capabilities":
		for _, k := range strings.Fields(p.rest) {
			p.h.Capabilities = append(p.h.Capabilities, Kind(k))
		}
		return nil
	case "zone":
		return p.zone()
	case "fault":
		return p.fault()
	case "mark":
		return p.mark()
	case "op":
		return p.operation()
	case "ledger":
		return p.fields(map[string]func(string) error{"read": moment(&p.h.LedgerRead)})
	case "effect":
		return p.effect()
	case "end":
		p.ended = true
		if n, err := strconv.Atoi(p.rest); err != nil || n != len(p.h.Operations) {
			return fmt.Errorf("the end counts %q operations, there are %d", p.rest, len(p.h.Operations))
		}
		return nil
	}
	return fmt.Errorf("unknown line %q", verb)
}

// next takes the next word of the line; a quoted string, which may hold spaces, is part of its word.
func (p *parser) next() (string, error) {
	if p.rest == "" {
		return "", fmt.Errorf("cut short: a word is missing")
	}
	end := 0
	for end < len(p.rest) && p.rest[end] != ' ' {
		if p.rest[end] == '"' {
			quoted, err := strconv.QuotedPrefix(p.rest[end:])
			if err != nil {
				return "", fmt.Errorf("a quoted string does not end")
			}
			end += len(quoted)
			continue
		}
		end++
	}
	word := p.rest[:end]
	p.rest = strings.TrimPrefix(p.rest[end:], " ")
	return word, nil
}

func (p *parser) text(to *string) error {
	word, err := p.next()
	if err != nil {
		return err
	}
	*to, err = unquote(word)
	return err
}

func unquote(s string) (string, error) {
	text, err := strconv.Unquote(s)
	if err != nil {
		return "", fmt.Errorf("%s is not a quoted string", s)
	}
	return text, nil
}

// fields reads what is left of the line as name=value words, each at most once.
func (p *parser) fields(known map[string]func(string) error) error {
	seen := map[string]bool{}
	for p.rest != "" {
		word, err := p.next()
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(word, "=")
		set := known[name]
		if set == nil || seen[name] {
			return fmt.Errorf("unexpected %q", word)
		}
		seen[name] = true
		if err := set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (p *parser) epoch() error {
	t, err := time.Parse(time.RFC3339Nano, p.rest)
	if err != nil {
		return fmt.Errorf("epoch %q is no instant", p.rest)
	}
	p.h.Epoch = InstantOf(t)
	return nil
}

func (p *parser) contract() error {
	for _, word := range strings.Fields(p.rest) {
		name, value, _ := strings.Cut(word, "=")
		if err := parseFact(&p.h.Contract, name, value); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) waiver() error {
	name, err := p.next()
	if err != nil {
		return err
	}
	w := Waiver{Invariant: InvariantID(name)}
	err = p.fields(map[string]func(string) error{
		"until": func(s string) (err error) {
			if s != "never" {
				w.Until, err = time.Parse(time.RFC3339Nano, s)
			}
			return err
		},
		"reason": quoted(&w.Reason),
	})
	p.h.Contract.Waivers = append(p.h.Contract.Waivers, w)
	return err
}

func (p *parser) zone() error {
	if _, err := p.next(); err != nil {
		return err
	}
	seconds, err := strconv.Atoi(p.rest)
	p.h.Zones = append(p.h.Zones, seconds)
	return err
}

func (p *parser) fault() error {
	var f Fault
	if err := p.integer(&f.ID); err != nil {
		return err
	}
	if err := p.text(&f.Name); err != nil {
		return err
	}
	err := p.fields(map[string]func(string) error{
		"worker": integer(&f.Worker), "from": moment(&f.From), "to": moment(&f.To), "detail": quoted(&f.Detail),
	})
	p.h.Faults = append(p.h.Faults, f)
	return err
}

func (p *parser) mark() error {
	var m Mark
	if err := p.text(&m.Name); err != nil {
		return err
	}
	err := p.integer(&m.Count)
	p.h.Marks = append(p.h.Marks, m)
	return err
}

func (p *parser) effect() error {
	var e EffectRow
	if err := p.text(&e.Key.Consumer); err != nil {
		return err
	}
	if err := p.text(&e.Key.ID); err != nil {
		return err
	}
	err := p.fields(map[string]func(string) error{
		"id": quoted(&e.Effect.ID), "account": quoted(&e.Effect.Account),
		"amount": moment(&e.Effect.Amount),
	})
	p.h.Effects = append(p.h.Effects, e)
	return err
}

func (p *parser) integer(to *int) error {
	word, err := p.next()
	if err != nil {
		return err
	}
	return integer(to)(word)
}

func integer(to *int) func(string) error {
	return func(s string) (err error) {
		*to, err = strconv.Atoi(s)
		return err
	}
}

func moment(to *int64) func(string) error {
	return func(s string) (err error) {
		*to, err = strconv.ParseInt(s, 10, 64)
		return err
	}
}

func quoted(to *string) func(string) error {
	return func(s string) (err error) {
		*to, err = unquote(s)
		return err
	}
}
