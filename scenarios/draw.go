package scenarios

import (
	"hash/fnv"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/effectonce/effectonce/model"
)

// surface is what a store offers, as far as it decides what a plan may hold.
type surface struct {
	contract                           model.Contract // with defaults
	rebegins, fences, commits, looksUp bool
	releases, extends, buries, keeps   bool
	wire                               bool // there is a wire to lose a reply on

	whole   model.Kind // what handles a message in one call, where there is no claim to draw; empty: a store
	batches bool       // several messages are delivered in one call
	prunes  bool
	kinds   []model.Kind // all operations that there are, in order
	server  bool         // the server's clock decides
	waits   bool         // and real time has to pass
}

func newSurface(h *Harness, c capabilities) surface {
	return surface{
		contract: h.Contract.WithDefaults(), wire: h.Upstream != "",
		rebegins: c.rebeginner != nil, fences: c.fencer != nil,
		commits: c.committer != nil && h.Effects != nil, looksUp: c.reader != nil,
		releases: c.releaser != nil, extends: c.extender != nil, buries: c.buryer != nil, keeps: c.keeper != nil,
		whole: h.door().kind, batches: c.batcher != nil, prunes: c.pruner != nil,
		server: h.Contract.Clock == model.ServerClock, waits: h.waits(), kinds: h.door().operations(&c),
	}
}

// planner draws plan i of a run from a seed of its own: the same seed, scenario and number give the same plan,
// whoever asks and in whatever order.
type planner struct {
	surface surface
	draw    map[Tier]*rapid.Generator[*Plan]
}

func newPlanner(s surface) *planner {
	dice := newDice()
	dice.plain = acceptedKeys(s.contract, ordinaryKeys)
	start := func(t *rapid.T) *drawing { return &drawing{surface: s, dice: dice, t: t} }
	return &planner{s, map[Tier]*rapid.Generator[*Plan]{
		Stepped: rapid.Custom(func(t *rapid.T) *Plan { return start(t).plan() }),
		Real:    rapid.Custom(func(t *rapid.T) *Plan { return start(t).realPlan() }),
	}}
}

// plan draws the i-th plan. rapid draws; its Example takes the seed as it is, where Check would keep it in a flag of
// the whole process.
func (p *planner) plan(seed uint64, tier Tier, i int) *Plan {
	plan := p.draw[tier].Example(int(mix(seed, string(tier), i)))
	nameKeys(plan, i)
	return plan
}

// mix derives one plan's seed.
func mix(seed uint64, scenario string, i int) uint64 {
	f := fnv.New64a()
	f.Write([]byte(scenario))
	x := seed ^ f.Sum64() ^ uint64(i)*0x9e3779b97f4a7c15
	// The finish of SplitMix64: neighbours must not draw alike.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// dice are the generators that every plan draws with.
type dice struct {
	coin     *rapid.Generator[bool]
	upTo     [65]*rapid.Generator[int] // upTo[n] draws 0 to n
	moves    *rapid.Generator[move]
	families [][]model.Key
	plain    []model.Key
	family   *rapid.Generator[int]
}

func newDice() *dice {
	d := &dice{coin: rapid.Bool(), moves: rapid.SampledFrom(weighted()), families: families()}
	d.family = rapid.IntRange(0, len(d.families)-1)
	for n := range d.upTo {
		d.upTo[n] = rapid.IntRange(0, n)
	}
	return d
}

// move is one intent of the plan. Some are several steps, since a bug that needs four things in a row would
// seldom be met by single ones.
type move int

const (
	moveBegin move = iota
	moveFinish
	moveTakeOver
	movePresent
	moveForget
	moveRedeliver
	moveLoseBegin
	moveLoseFinish
	movePrune
	moveClock
	moveLookup
	moveCrash
	moveSkew
	moveCancel
	moveStorm
	moveRelease
	moveExtend
	moveBury
	moveReplay
	moveBatch
)

// weighted is the mix of moves. rapid favours the front of a list a little: what everything else builds on stands
// there. The weights were set by the marks that they reach; what a mark needs is in TestThePlansReachTheirMarks.
func weighted() []move {
	var all []move
	for _, w := range []struct {
		move
		weight int
	}{
		{moveBegin, 8}, {moveFinish, 7}, {moveTakeOver, 7}, {movePresent, 7}, {moveForget, 6}, {moveRedeliver, 5},
		{moveLoseBegin, 3}, {moveLoseFinish, 3}, {movePrune, 3}, {moveClock, 3}, {moveLookup, 3}, {moveCrash, 2},
		{moveRelease, 2}, {moveExtend, 2}, {moveBury, 2}, {moveReplay, 1}, {moveSkew, 1}, {moveCancel, 2},
		{moveStorm, 1}, {moveBatch, 2},
	} {
		for range w.weight {
			all = append(all, w.move)
		}
	}
	return all
}

// drawing draws one plan. It keeps a rough picture of where a right store would stand, only to aim at edges: what
// it believes decides nothing about right and wrong.
type drawing struct {
	surface
	*dice
	t *rapid.T
	p *Plan

	now     time.Duration
	skew    []time.Duration
	keys    []sketch
	nonce   int
	batched int // batches so far
}

// sketch is the rough picture of one key.
type sketch struct {
	state   model.State
	holder  int
	end     time.Duration // of the lease
	updated time.Duration
	claims  []int // by worker: how many claims it learned of
	style   Verb  // how this key is completed: the two ways are not mixed on one key
}

func (d *drawing) pick(n int) int { return d.upTo[n-1].Draw(d.t, "") }

// one says yes in one of n cases, or a little more often: rapid favours small numbers.
func (d *drawing) one(n int) bool { return d.pick(n) == n-1 }

func (d *drawing) plan() *Plan {
	d.p = &Plan{Tier: Stepped}
	d.p.Zones = make([]int, 2+d.pick(3))
	if d.coin.Draw(d.t, "") {
		for w := range d.p.Zones {
			d.p.Zones[w] = [...]int{0, -5 * 3600, 14 * 3600}[d.pick(3)]
		}
	}
	d.skew = make([]time.Duration, len(d.p.Zones))
	crowd := d.one(8)
	if crowd {
		d.p.Keys = d.drawCrowd()
	} else {
		d.p.Keys = d.drawKeys()
	}
	d.startElsewhere()
	d.keys = make([]sketch, len(d.p.Keys))
	for k := range d.keys {
		d.keys[k] = sketch{claims: make([]int, len(d.p.Zones)), style: d.drawStyle(), end: d.now, updated: d.now}
	}
	most := 16 + d.pick(36)
	d.p.Steps = slices.Grow(d.p.Steps, most+4)
	if crowd {
		d.crowd()
		most = len(d.p.Steps) + d.pick(16)
	}
	for len(d.p.Steps) < most {
		d.move(d.moves.Draw(d.t, ""), 1+d.pick(len(d.p.Zones)), d.pick(len(d.keys)))
	}
	for k := range d.keys { // how did each key end?
		if d.whole != "" {
			d.handle(1, k, Seen)
			continue
		}
		d.add(Step{Worker: 1, Verb: model.Begin, Key: k + 1, Lease: d.drawLease()})
	}
	return d.p
}

func (d *drawing) drawStyle() Verb {
	styles := []Verb{}
	if d.fences {
		styles = append(styles, model.CompleteClaim)
	}
	if d.commits {
		styles = append(styles, model.CommitEffect, model.CommitEffect)
	}
	if d.keeps {
		styles = append(styles, model.CompleteResult)
	}
	styles = append(styles, model.Complete)
	return styles[d.pick(len(styles))]
}

func (d *drawing) add(s Step) { d.p.Steps = append(d.p.Steps, s) }

// at is the time that counts for what a worker does.
func (d *drawing) at(w int) time.Duration {
	if d.server {
		return d.now
	}
	return d.now + d.skew[w-1]
}

// unit is the smallest step that the store can tell.
func (d *drawing) unit() time.Duration { return d.contract.Precision }

func (d *drawing) drawLease() time.Duration {
	if d.waits {
		return d.pace() * time.Duration([...]int{1, 1, 1, 2}[d.pick(4)])
	}
	lease := [...]time.Duration{30 * time.Second, 10 * time.Second, 1900 * time.Millisecond, 24 * time.Hour, 1, 0}[d.pick(6)]
	if lease == 0 { // of any size, from a nanosecond to some weeks
		lease = time.Duration(1) << (1 + d.pick(52))
		lease += lease / 5 * time.Duration(d.pick(5))
	}
	lease -= lease % d.unit()
	return max(lease, d.contract.MinLease, d.unit())
}
