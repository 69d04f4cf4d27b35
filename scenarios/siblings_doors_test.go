package scenarios_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/broken"
	"github.com/effectonce/effectonce/adapters/broken/siblings/mailbox"
	"github.com/effectonce/effectonce/adapters/broken/siblings/serverclock"
	"github.com/effectonce/effectonce/adapters/broken/siblings/tickets"
	"github.com/effectonce/effectonce/adapters/broken/siblings/upsert"
	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// moment is the budget of one right relative behind one of the other doors: there are many of them.
var moment = scenarios.Budget(500 * time.Millisecond)

// The right inboxes, consumers and stores on a server's clock were written from the contract's text alone, too. An
// alarm on one of them is a defect of the kit.
func TestIndependentRightDoorsPass(t *testing.T) {
	for name, h := range independentDoors() {
		if !inBrief(name) && *silencePlans == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) { scenarios.Test(t, h, moment) })
	}
}

// inBrief says who is tried by default, where time is short: those who can do the most and need not wait.
func inBrief(name string) bool {
	for _, full := range []string{", polling", ", full, advanced", "upsert", "inbox style", "with a reader"} {
		if strings.HasSuffix(name, full) {
			return true
		}
	}
	return false
}

// TestSilenceBehindDoors is TestSilence for the other doors. Those that wait get fewer plans, since each takes a second
// or several.
func TestSilenceBehindDoors(t *testing.T) {
	if *silencePlans == 0 {
		t.Skip("a campaign: set -silence.plans, such as -silence.plans=200000")
	}
	for name, h := range independentDoors() {
		plans := *silencePlans
		if h.Contract.Clock == model.ServerClock && h.Advance == nil {
			plans = max(1, plans/silenceOnServers)
		}
		t.Run(name, func(t *testing.T) {
			scenarios.Test(t, h, scenarios.Plans(plans), scenarios.Budget(silenceBudget))
		})
	}
	for _, d := range liarDoors() {
		if d.onServer {
			t.Run(d.name, func(t *testing.T) {
				scenarios.Test(t, d.open(t, broken.None), scenarios.Plans(max(1, *silencePlans/silenceOnServers)), scenarios.Budget(silenceBudget))
			})
		}
	}
	t.Run("postgres-clock", func(t *testing.T) {
		scenarios.Test(t, serverTimed(t), scenarios.Plans(max(1, *silencePlans/silenceOnServers)), scenarios.Budget(silenceBudget))
	})
}

func independentDoors() map[string]scenarios.Harness {
	all := rightConsumers()
	maps.Copy(all, rightClocks())
	for name, reads := range map[string]bool{"mailbox": false, "mailbox with a reader": true} {
		boxes := perNamespace[*mailbox.Box]{open: mailbox.New}
		all[name] = scenarios.Harness{
			Name: name, Contract: model.Contract{NoLease: true, NoAttempts: true}, Drop: boxes.drop,
			OpenInbox: func(_ context.Context, env scenarios.Env) (model.Inbox, error) {
				if reads {
					return mailbox.Reading{Box: boxes.get(env.Namespace)}, nil
				}
				return boxes.get(env.Namespace), nil
			},
			Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
				return boxes.get(namespace).Effects(), nil
			},
		}
	}
	return all
}

// consumers is a harness of consumers that share something in this process.
func consumers[S interface{ Effects() []model.Applied }](name string, c model.Contract, make func() S, open func(S, scenarios.Env) scenarios.Consumer) scenarios.Harness {
	shared := &perNamespace[S]{open: make}
	return scenarios.Harness{
		Name: name, Contract: c, Drop: shared.drop,
		OpenConsumer: func(_ context.Context, env scenarios.Env) (scenarios.Consumer, error) {
			return open(shared.get(env.Namespace), env), nil
		},
		Effects: func(_ context.Context, namespace string) ([]model.Applied, error) {
			return shared.get(namespace).Effects(), nil
		},
	}
}

func rightConsumers() map[string]scenarios.Harness {
	all := map[string]scenarios.Harness{
		"upsert": consumers("upsert", model.Contract{}, upsert.New,
			func(o *upsert.Orders, _ scenarios.Env) scenarios.Consumer { return o }),
		"inbox style": consumers("inbox style", model.Contract{}, mailbox.New,
			func(b *mailbox.Box, env scenarios.Env) scenarios.Consumer {
				return &mailbox.Reader{Box: b, Now: env.Now}
			}),
	}
	marks := &perNamespace[*sync.Map]{open: func() *sync.Map { return &sync.Map{} }}
	all["marked upsert"] = consumers("marked upsert", model.Contract{}, upsert.New,
		func(o *upsert.Orders, env scenarios.Env) scenarios.Consumer {
			return upsert.Marked{Orders: o, Marks: marks.get(env.Namespace), Now: env.Now}
		})
	for name, window := range map[string]time.Duration{"its own clock": 0, "its own clock, shortly": 400 * time.Millisecond} {
		own := model.Contract{Clock: model.ServerClock, Window: window, Redelivery: window / 2}
		style := tickets.Style{Lease: 100 * time.Millisecond}
		for _, advanced := range []bool{false, true} {
			// Each test has a server of its own: where one was left by another, its clock is off.
			ofBox, ofDesk := &serverclock.Hand{}, &serverclock.Hand{}
			name, boxNow, deskNow := name, time.Now, time.Now
			if advanced {
				name, boxNow, deskNow = name+", full, advanced", ofBox.Now, ofDesk.Now
			}
			desk := func() *tickets.Desk { return tickets.NewDesk(style) }
			boxed := consumers("inbox by "+name, own, mailbox.New, func(b *mailbox.Box, _ scenarios.Env) scenarios.Consumer {
				return &mailbox.Reader{Box: b, Now: boxNow}
			})
			polling := consumers("tickets by "+name, own, desk, func(d *tickets.Desk, _ scenarios.Env) scenarios.Consumer {
				return tickets.Polling{Clerk: &tickets.Clerk{Desk: d, Now: deskNow}}
			})
			if advanced {
				boxed.Advance, polling.Advance = ofBox.Advance, ofDesk.Advance
			}
			all[boxed.Name], all[polling.Name] = boxed, polling
		}
	}
	for name, style := range map[string]tickets.Style{
		"tickets":                      {},
		"tickets, loud in flight":      {LoudInFlight: true},
		"tickets, errors swallowed":    {SwallowsAll: true},
		"tickets, given back":          {GivesBack: true},
		"tickets, buried":              {BuryAfter: 3},
		"tickets, buried at once":      {BuryAfter: 1, LoudInFlight: true},
		"tickets, forgets by itself":   {Window: model.DefaultWindow},
		"tickets, asks again":          {Unsteady: true},
		"tickets, long lease":          {Lease: model.DefaultRedelivery},
		"tickets, short lease, all on": {Lease: time.Nanosecond, SwallowsAll: true, Unsteady: true, BuryAfter: 5, Window: model.DefaultWindow},
	} {
		desk := func() *tickets.Desk { return tickets.NewDesk(style) }
		all[name] = consumers(name, model.Contract{}, desk, func(d *tickets.Desk, env scenarios.Env) scenarios.Consumer {
			return &tickets.Clerk{Desk: d, Now: env.Now}
		})
		all[name+", polling"] = consumers(name+", polling", model.Contract{}, desk, func(d *tickets.Desk, env scenarios.Env) scenarios.Consumer {
			return tickets.Polling{Clerk: &tickets.Clerk{Desk: d, Now: env.Now}}
		})
	}
	return all
}

func rightClocks() map[string]scenarios.Harness {
	all := map[string]scenarios.Harness{}
	for name, kind := range map[string]serverclock.Kind{
		"until pruned":         {},
		"until pruned, silent": {Silent: true},
		"by itself":            {ByItself: true},
		"ttl":                  {ByItself: true, LeaseIsRecord: true, Silent: true},
		"ttl that tells":       {ByItself: true, LeaseIsRecord: true},
		"lease is record":      {LeaseIsRecord: true},
		"milliseconds":         {Unit: time.Millisecond, RoundsUp: true},
		"whole seconds":        {Unit: time.Second},
		"whole seconds, up":    {Unit: time.Second, RoundsUp: true},
		"seconds by itself":    {Unit: time.Second, ByItself: true, LeaseIsRecord: true},
		"short window":         {ByItself: true, LeaseIsRecord: true, Window: 400 * time.Millisecond},
		"short window, kept":   {ByItself: true, Window: 400 * time.Millisecond},
		"short, pruned":        {Window: 400 * time.Millisecond},
	} {
		for _, full := range []bool{false, true} {
			for _, advanced := range []bool{false, true} {
				name := name
				if full {
					name += ", full"
				}
				if advanced {
					name += ", advanced"
				}
				all[name] = serverClock(name, kind, full, advanced)
			}
		}
	}
	return all
}

func serverClock(name string, kind serverclock.Kind, full, advanced bool) scenarios.Harness {
	h := scenarios.Harness{Name: name, Contract: kind.Contract()}
	if advanced {
		hand := &serverclock.Hand{}
		kind.Now, h.Advance = hand.Now, hand.Advance
	}
	servers := perNamespace[*serverclock.Server]{open: func() *serverclock.Server { return serverclock.New(kind) }}
	h.Drop = servers.drop
	h.Open = func(_ context.Context, env scenarios.Env) (model.Store, error) {
		if full {
			return serverclock.Full{Server: servers.get(env.Namespace)}, nil
		}
		return servers.get(env.Namespace), nil
	}
	return h
}
