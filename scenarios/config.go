package scenarios

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Option changes one setting of a run. The environment has the last word, so that a printed command can replay a
// case whatever the test says.
type Option func(*config)

type config struct {
	seed    uint64
	seeded  bool
	budget  time.Duration
	plans   int
	out     string
	plan    string // a plan's text, or the file it stands in
	history string // a file with a history to judge instead of running
	require []string
	only    []Tier // empty: all
	without []Tier
	short   bool
	err     error
}

// The defaults: as many plans as the marks need many times over, and no more time than a person waits.
const (
	defaultBudget    = 10 * time.Second
	plansInProcess   = 2000
	plansOnTheWire   = 400
	shortShare       = 2 // -short divides budget and plans by this
	reduceAtMost     = 400
	reduceBudget     = 20 * time.Second
	replays          = 5
	porcupineOneIn   = 64
	realShare        = 5 // of so many stepped plans, one real plan
	firstShare       = 2 // the stepped tier's part of the time, where the real one has 1
	lanesOnTheWire   = 4
	lanesThatWait    = 16 // each has a plan in which time passes
	deadlineReserve  = 5 * time.Second
	deadlineReserves = 10 // at most a tenth of go test's own time is kept back
)

// Seed fixes the plans that are drawn. Without it, each run draws new ones and says from which seed.
func Seed(seed uint64) Option { return func(c *config) { c.seed, c.seeded = seed, true } }

// Budget bounds the time of one Test; half of it counts under -short. Zero or less is an error.
func Budget(d time.Duration) Option {
	return func(c *config) { c.setBudget("Budget", d) }
}

func (c *config) setBudget(name string, d time.Duration) {
	if d <= 0 {
		c.fail(fmt.Errorf("%s is %v; it must be longer than nothing", name, d))
		return
	}
	c.budget = d
}

// Plans is how many plans are run, if the budget allows; half as many under -short.
func Plans(n int) Option {
	return func(c *config) { c.setPlans("Plans", n) }
}

func (c *config) setPlans(name string, n int) {
	if n <= 0 {
		c.fail(fmt.Errorf("%s is %d; it must be at least 1", name, n))
		return
	}
	c.plans = n
}

// Out is a folder in which every run leaves its plan, history and report. Without it only a failed test does.
func Out(dir string) Option { return func(c *config) { c.out = dir } }

// Only runs these tiers and no other.
func Only(tiers ...Tier) Option { return func(c *config) { c.only = append(c.only, tiers...) } }

// Without leaves these tiers out.
func Without(tiers ...Tier) Option {
	return func(c *config) { c.without = append(c.without, tiers...) }
}

// tiers are what is left of all tiers, in the order in which they run.
func (c *config) tiers() []Tier {
	var left []Tier
	for _, t := range allTiers() {
		if (len(c.only) == 0 || slices.Contains(c.only, t)) && !slices.Contains(c.without, t) {
			left = append(left, t)
		}
	}
	return left
}

func allTiers() []Tier { return []Tier{ByName, Stepped, Real} }

func (c *config) checkTiers() {
	for _, t := range slices.Concat(c.only, c.without) {
		if !slices.Contains(allTiers(), t) {
			c.fail(fmt.Errorf("%q is no tier; there are %q", t, allTiers()))
		}
	}
	if len(c.tiers()) == 0 {
		c.fail(errors.New("Only and Without leave no tier to run"))
	}
}

// Require fails a store that lost a capability: by the name of the optional interface, such as "Fencer". A wrapper
// hides optional methods, and a suite that then judges less must not stay green.
func Require(capability ...string) Option {
	return func(c *config) { c.require = append(c.require, capability...) }
}

func (c *config) fail(err error) { c.err = errors.Join(c.err, err) }

// Setting is one environment variable that a run obeys.
type Setting struct {
	Name string // without the prefix EFFECTONCE_
	Help string
	set  func(*config, string)
}

// Settings is the table of the environment: EFFECTONCE_ and the name.
func Settings() []Setting {
	return []Setting{
		{"SEED", "the seed that plans are drawn from, a number", func(c *config, v string) {
			n, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				c.fail(fmt.Errorf("EFFECTONCE_SEED is %q; it must be a number from 0 to 2^64-1", v))
				return
			}
			c.seed, c.seeded = n, true
		}},
		{"BUDGET", "the time of one test, such as 10s", func(c *config, v string) {
			d, err := time.ParseDuration(v)
			if err != nil {
				c.fail(fmt.Errorf("EFFECTONCE_BUDGET is %q; it must be a duration such as 10s", v))
				return
			}
			c.setBudget("EFFECTONCE_BUDGET", d)
		}},
		{"PLANS", "how many plans one test runs, a number", func(c *config, v string) {
			n, err := strconv.Atoi(v)
			if err != nil {
				c.fail(fmt.Errorf("EFFECTONCE_PLANS is %q; it must be a number", v))
				return
			}
			c.setPlans("EFFECTONCE_PLANS", n)
		}},
		{"OUT", "a folder for plan, history and report of every run", func(c *config, v string) { c.out = v }},
		{"PLAN", "one plan to run instead of drawn ones: its text, or the file it stands in", func(c *config, v string) { c.plan = v }},
		{"HISTORY", "the file of one history to judge instead of running anything", func(c *config, v string) { c.history = v }},
	}
}

// of other rooms: adapters/backend reads these, and a run must not take them for typing errors.
func foreignSettings() []string {
	return []string{"BACKEND", "REQUIRE", "POSTGRES_DSN", "REDIS_URL"}
}

const prefix = "EFFECTONCE_"

// configure applies options, then the environment, and refuses what it cannot read.
func configure(opts []Option, short bool) (*config, error) {
	c := &config{budget: defaultBudget, short: short}
	for _, o := range opts {
		o(c)
	}
	// By name, also those that are not set: go test keeps a result under the variables that were asked for by name,
	// and would show one that was had with another setting.
	for _, s := range Settings() {
		if value := os.Getenv(prefix + s.Name); value != "" {
			s.set(c, value)
		}
	}
	c.refuseUnknown(os.Environ())
	c.checkTiers()
	if !c.seeded {
		c.seed = freshSeed()
	}
	if c.err != nil {
		return nil, fmt.Errorf("scenarios: configuration: %w", c.err)
	}
	return c, nil
}

// refuseUnknown takes a variable that looks like a setting, and is none, for a typing error.
func (c *config) refuseUnknown(environ []string) {
	known := foreignSettings()
	for _, s := range Settings() {
		known = append(known, s.Name)
	}
	slices.Sort(known)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(name, prefix)
		if ours && value != "" && !slices.Contains(known, name) {
			c.fail(fmt.Errorf("%s%s is no setting; there are %s", prefix, name, strings.Join(known, ", ")))
		}
	}
}

// planText is the plan that the configuration names.
func (c *config) planText() (string, error) {
	if strings.HasPrefix(c.plan, planHeader) {
		return c.plan, nil
	}
	text, err := os.ReadFile(c.plan)
	if err != nil {
		return "", fmt.Errorf("scenarios: EFFECTONCE_PLAN is neither a plan nor a file that can be read: %w", err)
	}
	return string(text), nil
}
