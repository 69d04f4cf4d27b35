package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/model"
)

// plan numbers stand in every message id, so that a namespace can be used again: numberMark is where.
const numberMark = "№"

// families are sets of keys that are different, and that a store has been seen to take for one. Each stands for a
// way of identifying keys: by joining the parts, by folding, trimming, cutting, hashing.
func families() [][]model.Key {
	const n = numberMark
	long := strings.Repeat("x", 255)
	families := [][]model.Key{
		{{Consumer: "orders", ID: n + "-m1"}, {Consumer: "orders", ID: n + "-m2"}, {Consumer: "orders", ID: n + "-m3"}},
		{{Consumer: "orders", ID: n + "-m"}, {Consumer: "billing", ID: n + "-m"}},
		{{Consumer: "orders", ID: "Order-" + n}, {Consumer: "orders", ID: "order-" + n}},
		{{Consumer: "orders", ID: n + "-m"}, {Consumer: "orders", ID: n + "-m "}, {Consumer: "orders", ID: " " + n + "-m"}},
		{{Consumer: "orders", ID: n + "-caf\u00e9"}, {Consumer: "orders", ID: n + "-cafe\u0301"}},
		{{Consumer: "orders", ID: n + long + "a"}, {Consumer: "orders", ID: n + long + "b"}},
		{{Consumer: "orders", ID: n + long + long + long + long[:200] + "a"}, {Consumer: "orders", ID: n + long + long + long + long[:200] + "b"}},
		{{Consumer: "orders", ID: n + "-m\x00a"}, {Consumer: "orders", ID: n + "-m\x00b"}, {Consumer: "orders", ID: n + "-m"}},
		{{Consumer: "orders", ID: n + "-\xff"}, {Consumer: "orders", ID: n + "-\xfe"}},
		{{Consumer: "orders", ID: n + "-m%"}, {Consumer: "orders", ID: n + "-m_"}, {Consumer: "orders", ID: n + "-m'\""}},
		{{Consumer: "orders", ID: "0" + n}, {Consumer: "orders", ID: n}, {Consumer: "orders", ID: n + ".0"}},
		// Equal under a 32-bit hash: CRC-32, FNV-1a, and the sum that many languages use for strings.
		{{Consumer: "orders", ID: "plumless" + n}, {Consumer: "orders", ID: "buckeroo" + n}},
		{{Consumer: "orders", ID: "costarring" + n}, {Consumer: "orders", ID: "liquor" + n}},
		{{Consumer: "orders", ID: "Aa" + n}, {Consumer: "orders", ID: "BB" + n}},
	}
	for _, joint := range []string{":", "|", "/", "-", ".", "_", "#", "\x00", " ", ""} {
		families = append(families, []model.Key{
			{Consumer: "a" + joint + "b", ID: "c" + n}, {Consumer: "a", ID: "b" + joint + "c" + n},
		})
	}
	return families
}

// drawKeys picks a family and how many of it a plan uses: few, so that much happens to each.
func (d *drawing) drawKeys() []model.Key {
	plain := slices.Clone(d.families[0]) // the plan's number is written into them
	if !d.coin.Draw(d.t, "") {
		return plain[:1+d.pick(2)]
	}
	family := d.acceptable(slices.Clone(d.families[d.pick(len(d.families))]))
	if len(family) < 2 {
		return plain[:1+d.pick(len(plain))]
	}
	return family
}

// acceptable leaves out the keys that the store says it refuses.
func (d *drawing) acceptable(family []model.Key) []model.Key {
	if d.contract.AcceptsKey == nil {
		return family
	}
	var kept []model.Key
	for _, k := range family {
		if d.contract.AcceptsKey(k.Consumer, k.ID) == nil {
			kept = append(kept, k)
		}
	}
	return kept
}

// nameKeys writes the plan's number into its keys.
func nameKeys(p *Plan, i int) {
	number := strconv.Itoa(i)
	for k := range p.Keys {
		p.Keys[k].ID = strings.ReplaceAll(p.Keys[k].ID, numberMark, number)
	}
}
