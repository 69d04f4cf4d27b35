package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

const planHeader = "effectonce plan 1"

// Print writes the plan as text, one line a step.
func (p *Plan) Print() string { return strings.Join(p.lines(), "\n") + "\n" }

// OneLine is Print for a shell: one line, and no single quote in it.
func (p *Plan) OneLine() string { return strings.Join(p.lines(), "; ") }

func (p *Plan) lines() []string {
	lines := []string{planHeader}
	if p.Tier == Real {
		lines = append(lines, "tier "+string(Real))
	}
	for i, zone := range p.Zones {
		lines = append(lines, fmt.Sprintf("worker w%d zone=%d", i+1, zone))
	}
	for i, k := range p.Keys {
		lines = append(lines, fmt.Sprintf("key k%d %s %s", i+1, quote(k.Consumer), quote(k.ID)))
	}
	for i := range p.Steps {
		lines = append(lines, p.Steps[i].line())
	}
	return append(lines, fmt.Sprintf("end %d", len(p.Steps)))
}

// quote keeps an id on its line, in ASCII, and fit to stand between single quotes in a shell.
func quote(s string) string { return strings.ReplaceAll(strconv.QuoteToASCII(s), "'", `\x27`) }

func (s *Step) line() string {
	var b strings.Builder
	if s.Worker > 0 {
		fmt.Fprintf(&b, "w%d ", s.Worker)
	}
	b.WriteString(string(s.Verb))
	if s.Key > 0 {
		fmt.Fprintf(&b, " k%d", s.Key)
	}
	for _, f := range stepFields(s) {
		if v := f.get(); v != "" {
			fmt.Fprintf(&b, " %s=%s", f.name, v)
		}
	}
	return b.String()
}

// stepField is one field of a step as text; empty is its zero value, and does not print.
type stepField struct {
	name string
	get  func() string
	set  func(string) error
}

func stepFields(s *Step) []stepField {
	return []stepField{
		durationField("lease", &s.Lease), durationField("by", &s.By), numberField("batch", &s.Batch),
		numberField("delivery", &s.Delivery), numberField("nonce", &s.Nonce),
		textField("claim", (*string)(&s.Claim), string(Previous), string(First), string(Handed), string(NoClaim)),
		amountField("amount", &s.Effect),
		textField("result", (*string)(&s.Result), string(EmptyBytes), string(ZeroBytes), string(NullBytes), string(InvalidBytes), string(ManyBytes)),
		textField("fault", (*string)(&s.Fault), string(Unseen), string(ReplyLost),
			string(RequestLost), string(HalfRequest), string(HalfReply), string(ConnectionCut)), numberField("request", &s.Request),
		{"context", func() string {
			if s.Cancelled {
				return "cancelled"
			}
			return ""
		}, func(v string) error {
			s.Cancelled = v == "cancelled"
			return unless(s.Cancelled, v)
		}},
	}
}

func unless(fine bool, value string) error {
	if fine {
		return nil
	}
	return fmt.Errorf("bad value %q", value)
}

func durationField(name string, to *time.Duration) stepField {
	return stepField{name, func() string {
		if *to == 0 {
			return ""
		}
		return to.String()
	}, func(v string) (err error) { *to, err = time.ParseDuration(v); return err }}
}

func numberField(name string, to *int) stepField {
	return stepField{name, func() string {
		if *to == 0 {
			return ""
		}
		return strconv.Itoa(*to)
	}, func(v string) (err error) { *to, err = strconv.Atoi(v); return err }}
}

func amountField(name string, to *int64) stepField {
	return stepField{name, func() string {
		if *to == 0 {
			return ""
		}
		return strconv.FormatInt(*to, 10)
	}, func(v string) (err error) { *to, err = strconv.ParseInt(v, 10, 64); return err }}
}

func textField(name string, to *string, values ...string) stepField {
	return stepField{name, func() string { return *to }, func(v string) error {
		for _, known := range values {
			if v == known {
				*to = v
				return nil
			}
		}
		return fmt.Errorf("bad value %q, want one of %s", v, strings.Join(values, ", "))
	}}
}

// ParsePlan reads a printed plan, on several lines or on one. A text that is cut or changed is refused with the
// number of its line.
func ParsePlan(text string) (*Plan, error) {
	p := &Plan{Tier: Stepped}
	lines := splitLines(text)
	if len(lines) == 0 || lines[0] != planHeader {
		return nil, fmt.Errorf("scenarios: plan: line 1: want %q", planHeader)
	}
	for i, line := range lines[1:] {
		if err := p.parseLine(line, i == len(lines)-2); err != nil {
			return nil, fmt.Errorf("scenarios: plan: line %d: %w", i+2, err)
		}
	}
	if got := p.lines(); strings.Join(got, "\n") != strings.Join(lines, "\n") {
		for i := range got {
			if i >= len(lines) || got[i] != lines[i] {
				return nil, fmt.Errorf("scenarios: plan: line %d: not as it prints; want %q", i+1, got[i])
			}
		}
		return nil, fmt.Errorf("scenarios: plan: line %d: text after the end", len(got)+1)
	}
	return p, nil
}

// splitLines splits at line ends and at "; " outside of quotes.
func splitLines(text string) []string {
	var lines []string
	text = strings.TrimSuffix(text, "\n")
	start, inside := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case inside && text[i] == '\\':
			i++
		case text[i] == '"':
			inside = !inside
		case !inside && text[i] == '\n':
			lines = append(lines, text[start:i])
			start = i + 1
		case !inside && strings.HasPrefix(text[i:], "; "):
			lines = append(lines, text[start:i])
			start = i + 2
			i++
		}
	}
	return append(lines, text[start:])
}

func (p *Plan) parseLine(line string, last bool) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case verb == "end":
		if n, err := strconv.Atoi(rest); err != nil || n != len(p.Steps) {
			return fmt.Errorf("the end counts %q steps, there are %d", rest, len(p.Steps))
		}
		return nil
	case last:
		return fmt.Errorf("cut short: want the end line")
	case verb == "tier":
		if rest != string(Real) || len(p.Zones) > 0 {
			return fmt.Errorf("want %q, and before the workers, or nothing", "tier "+string(Real))
		}
		p.Tier = Real
		return nil
	case verb == "worker":
		_, zone, _ := strings.Cut(rest, " zone=")
		seconds, err := strconv.Atoi(zone)
		if err != nil || seconds < -86400 || seconds > 86400 {
			return fmt.Errorf("%q is no zone in seconds east of UTC", zone)
		}
		p.Zones = append(p.Zones, seconds)
		return nil
	case verb == "key":
		return p.parseKey(rest)
	}
	return p.parseStep(line)
}

func (p *Plan) parseKey(rest string) error {
	var name string
	var k model.Key
	if _, err := fmt.Sscanf(rest, "%s %q %q", &name, &k.Consumer, &k.ID); err != nil {
		return fmt.Errorf("want a name, a consumer and a message id: %w", err)
	}
	p.Keys = append(p.Keys, k)
	return nil
}

func (p *Plan) parseStep(line string) error {
	var s Step
	words := strings.Fields(line)
	if words[0] != string(ClockStep) {
		n, err := numbered(words[0], "w", len(p.Zones))
		if err != nil {
			return err
		}
		s.Worker = n
		words = words[1:]
	}
	if len(words) == 0 {
		return fmt.Errorf("cut short: want what the worker does")
	}
	s.Verb = Verb(words[0])
	if s.calls() && !s.Verb.Known() {
		return fmt.Errorf("unknown step %q", words[0])
	}
	words = words[1:]
	if s.Verb.Keyed() {
		if len(words) == 0 {
			return fmt.Errorf("cut short: want a key")
		}
		n, err := numbered(words[0], "k", len(p.Keys))
		if err != nil {
			return err
		}
		s.Key, words = n, words[1:]
	}
	for _, word := range words {
		if err := s.parseField(word); err != nil {
			return err
		}
	}
	p.Steps = append(p.Steps, s)
	return nil
}

func (s *Step) parseField(word string) error {
	name, value, _ := strings.Cut(word, "=")
	for _, f := range stepFields(s) {
		if f.name == name {
			if err := f.set(value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("unexpected %q", word)
}

func numbered(word, prefix string, most int) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(word, prefix))
	if err != nil || !strings.HasPrefix(word, prefix) || n < 1 || n > most {
		return 0, fmt.Errorf("%q is none of %s1 to %s%d", word, prefix, prefix, most)
	}
	return n, nil
}
