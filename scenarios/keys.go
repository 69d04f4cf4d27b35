package scenarios

import (
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/model"
)

// plan numbers stand in every key, so that a namespace can be used again: numberMark is where.
const numberMark = "№"

// confusable are texts that are different, and that stores have been seen to take for one. Each line stands for a
// way of identifying: by folding, trimming, cutting, unescaping, reading as a number, hashing.
func confusable() [][]string {
	x := strings.Repeat("x", 255)
	return [][]string{
		{"Order-", "order-"},
		{"m", "m ", " m"},
		{"m", "m\n", "m\r\n", "m\t"},
		{"a b", "a  b", "a\tb", "a\u00a0b"},
		{"m", "m\u200b", "\ufeffm"},
		{"caf\u00e9", "cafe\u0301"},
		{"\u00e9", "\u00c9", "\u00fc"},
		{"fi", "\ufb01"}, {"K", "\u212a"}, {"ss", "\u00df"},
		{x[:30] + "a", x[:30] + "b"},
		{x[:62] + "a", x[:62] + "b"},
		{x[:126] + "a", x[:126] + "b"},
		{x + "a", x + "b"},
		{x + x[:255] + "a", x + x[:255] + "b"},
		{x + x + x + x[:245] + "a", x + x + x + x[:245] + "b"},
		{"a-" + x, "b-" + x},
		{"m\x00a", "m\x00b", "m", "m\x00"},
		{"\xff", "\xfe", "\ufffd", "?"},
		{"m%", "m_", "m*", "mm"},
		{"m'", "m\"", "m", "'m'", "\"m\"", "m\\"},
		{"a/b", "a%2Fb", "a%2fb"}, {"a b", "a+b", "a%20b"}, {"a&b", "a&amp;b"},
		{"a/b", "a//b", "a/./b", "a/b/"},
		{"0-1-2", "012", "{0-1-2}"},
		{"a-m", "b-m"}, {"m.1", "m.2"}, {"m#1", "m#2"}, {"m?1", "m?2"}, {"m:1", "m:2"}, {"m/1", "m/2"}, {"m@1", "m@2"},
		{"0", "00", "0.0", "+0"},
		{"9007199254740992", "9007199254740993", "9007199254740992.0"},
		{"1e3", "1000", "1E3"},
		// Equal under a hash that is too short, or no hash: CRC-32, FNV-1a, the sums times 31 and times 33, Adler-32,
		// the sum of the bytes.
		{"plumless", "buckeroo"}, {"costarring", "liquor"}, {"Aa", "BB"}, {"ab", "bA"}, {"aca", "bab"}, {"abc", "cba"},
	}
}

// families are sets of keys that are different, and that a store has been seen to take for one: by one of the two
// parts, or by the way in which the parts are joined.
func families() [][]model.Key {
	const n = numberMark
	families := [][]model.Key{
		{{Consumer: "orders", ID: n + "-m1"}, {Consumer: "orders", ID: n + "-m2"}, {Consumer: "orders", ID: n + "-m3"}},
		{{Consumer: "orders", ID: n + "-m"}, {Consumer: "billing", ID: n + "-m"}},
		{{Consumer: "a", ID: "b" + n}, {Consumer: "b" + n, ID: "a"}},
		{{Consumer: "a\\", ID: "b:c" + n}, {Consumer: "a:b", ID: "c" + n}},
		{{Consumer: "a", ID: ":b:c" + n}, {Consumer: "a:b", ID: "c" + n}},
	}
	for _, texts := range confusable() {
		var behind, before, consumers []model.Key
		for _, t := range texts {
			behind = append(behind, model.Key{Consumer: "orders", ID: n + t})
			before = append(before, model.Key{Consumer: "orders", ID: t + n})
			consumers = append(consumers, model.Key{Consumer: t, ID: n + "-m"})
		}
		families = append(families, behind, before, consumers)
	}
	for _, joint := range []string{
		":", "|", "/", "-", ".", "_", "#", "\x00", " ", "", ",", ";", "@", "~", "=", "+", "\t", "\n", "::", "->", "--",
	} {
		families = append(families, []model.Key{
			{Consumer: "a" + joint + "b", ID: "c" + n}, {Consumer: "a", ID: "b" + joint + "c" + n},
		})
	}
	return families
}

// drawKeys picks a family and how many of it a plan uses: few, so that much happens to each.
func (d *drawing) drawKeys() []model.Key {
	plain := slices.Clone(d.plain) // the plan's number is written into them
	if !d.coin.Draw(d.t, "") {
		return plain[:1+d.pick(2)]
	}
	family := d.acceptable(slices.Clone(d.families[d.family.Draw(d.t, "")]))
	if len(family) < 2 {
		return plain[:1+d.pick(len(plain))]
	}
	return family
}

// drawCrowd picks many keys, of many families: little happens to each.
func (d *drawing) drawCrowd() []model.Key {
	var all []model.Key
	for i, most := d.family.Draw(d.t, ""), 4+d.pick(60); len(all) < most && i < 4*len(d.families); i++ {
		for _, k := range d.acceptable(d.families[i%len(d.families)]) {
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
		if i%8 == 0 { // a narrow store accepts few of them
			for _, k := range d.plain {
				k.ID += strconv.Itoa(i)
				if accepts(d.contract, k) && !slices.Contains(all, k) {
					all = append(all, k)
				}
			}
		}
	}
	return all
}

// acceptable leaves out the keys that the store says it refuses.
func (d *drawing) acceptable(family []model.Key) []model.Key {
	if d.contract.AcceptsKey == nil {
		return family
	}
	var kept []model.Key
	for _, k := range family {
		if accepts(d.contract, k) {
			kept = append(kept, k)
		}
	}
	return kept
}

func accepts(c model.Contract, k model.Key) bool {
	numbered := strings.NewReplacer(numberMark, "1")
	return c.AcceptsKey == nil || c.AcceptsKey(numbered.Replace(k.Consumer), numbered.Replace(k.ID)) == nil
}

// ordinaryKeys is how many plain keys plans choose from.
const ordinaryKeys = 3

// acceptedKeys are n ordinary keys that the store accepts; none: it accepts nothing that the kit can draw.
func acceptedKeys(c model.Contract, n int) []model.Key {
	for _, shape := range []string{numberMark + "-m%d", numberMark + "%d", "%d" + numberMark, "m%d" + numberMark} {
		var keys []model.Key
		for i := range n {
			keys = append(keys, model.Key{Consumer: "orders", ID: strings.Replace(shape, "%d", strconv.Itoa(i+1), 1)})
		}
		if !slices.ContainsFunc(keys, func(k model.Key) bool { return !accepts(c, k) }) {
			return keys
		}
	}
	return nil
}

// nameKeys writes the plan's number into its keys.
func nameKeys(p *Plan, i int) {
	number := strconv.Itoa(i)
	for k := range p.Keys {
		p.Keys[k].ID = strings.ReplaceAll(p.Keys[k].ID, numberMark, number)
		p.Keys[k].Consumer = strings.ReplaceAll(p.Keys[k].Consumer, numberMark, number)
	}
}
