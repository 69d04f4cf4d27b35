package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fact is one field of the contract as text. A fact at its zero value does not print.
type fact struct {
	name  string
	print func(Contract) string // empty: the zero value
	parse func(*Contract, string) error
}

func duration(name string, field func(*Contract) *time.Duration) fact {
	return fact{name, func(c Contract) string {
		if d := *field(&c); d != 0 {
			return d.String()
		}
		return ""
	}, func(c *Contract, s string) (err error) {
		*field(c), err = time.ParseDuration(s)
		return err
	}}
}

func number(name string, field func(*Contract) *int) fact {
	return fact{name, func(c Contract) string {
		if n := *field(&c); n != 0 {
			return strconv.Itoa(n)
		}
		return ""
	}, func(c *Contract, s string) (err error) {
		*field(c), err = strconv.Atoi(s)
		return err
	}}
}

func word(name, value string, field func(*Contract) *bool) fact {
	return fact{name, func(c Contract) string {
		if *field(&c) {
			return value
		}
		return ""
	}, func(c *Contract, s string) error {
		if s != value {
			return fmt.Errorf("%q is not %q", s, value)
		}
		*field(c) = true
		return nil
	}}
}

func flag(name string, field func(*Contract) *bool) fact { return word(name, "yes", field) }

func facts() []fact {
	return []fact{
		{"clock", func(c Contract) string {
			if c.Clock == ServerClock {
				return "server"
			}
			return ""
		}, func(c *Contract, s string) error {
			if s != "server" {
				return fmt.Errorf("%q is not \"server\"", s)
			}
			c.Clock = ServerClock
			return nil
		}},
		duration("clock-error", func(c *Contract) *time.Duration { return &c.ClockError }),
		duration("precision", func(c *Contract) *time.Duration { return &c.Precision }),
		duration("min-lease", func(c *Contract) *time.Duration { return &c.MinLease }),
		duration("window", func(c *Contract) *time.Duration { return &c.Window }),
		duration("redelivery", func(c *Contract) *time.Duration { return &c.Redelivery }),
		{"retention", func(c Contract) string {
			if c.Retention == ByItself {
				return "by-itself"
			}
			return ""
		}, func(c *Contract, s string) error {
			if s != "by-itself" {
				return fmt.Errorf("%q is not \"by-itself\"", s)
			}
			c.Retention = ByItself
			return nil
		}},
		flag("no-lease", func(c *Contract) *bool { return &c.NoLease }),
		flag("lease-is-record", func(c *Contract) *bool { return &c.LeaseIsRecord }),
		flag("refuses-late", func(c *Contract) *bool { return &c.RefusesLate }),
		flag("no-attempts", func(c *Contract) *bool { return &c.NoAttempts }),
		flag("no-times", func(c *Contract) *bool { return &c.NoTimes }),
		number("max-attempts", func(c *Contract) *int { return &c.MaxAttempts }),
		flag("token-per-record", func(c *Contract) *bool { return &c.TokenPerRecord }),
		flag("ordered-token", func(c *Contract) *bool { return &c.OrderedToken }),
		number("prune-at-most", func(c *Contract) *int { return &c.PruneAtMost }),
		flag("loses-on-crash", func(c *Contract) *bool { return &c.LosesOnCrash }),
		flag("shared-namespace", func(c *Contract) *bool { return &c.SharedNamespace }),
	}
}

// Facts lists the contract's facts that differ from the strict ones, as "name=value".
func (c Contract) Facts() []string {
	var told []string
	for _, f := range facts() {
		if v := f.print(c); v != "" {
			told = append(told, f.name+"="+v)
		}
	}
	return told
}

func printFacts(c Contract) string {
	var b strings.Builder
	for _, f := range c.Facts() {
		b.WriteString(" " + f)
	}
	return b.String()
}

func parseFact(c *Contract, name, value string) error {
	for _, f := range facts() {
		if f.name != name {
			continue
		}
		if err := f.parse(c, value); err != nil {
			return fmt.Errorf("fact %s: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("unknown fact %q", name)
}
