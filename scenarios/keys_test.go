package scenarios

import (
	"testing"

	"github.com/effectonce/effectonce/model"
)

// Plans share a namespace. Whatever is left of one must not be met by another.
func TestNoKeyOfAPlanIsAKeyOfAnotherPlan(t *testing.T) {
	const plans = 300
	var all []model.Key
	for _, family := range families() {
		all = append(all, family...)
	}
	all = append(all, acceptedKeys(model.Contract{}, ordinaryKeys)...)
	all = append(all, acceptedKeys(model.Contract{AcceptsKey: onlyDigits}, ordinaryKeys)...)
	of := map[model.Key]int{}
	for i := range plans {
		p := &Plan{Keys: append([]model.Key(nil), all...)}
		nameKeys(p, i)
		for _, k := range p.Keys {
			if other, met := of[k]; met && other != i {
				t.Fatalf("%v is a key of plan %d and of plan %d", k, other, i)
			}
			of[k] = i
		}
	}
}

func onlyDigits(_, id string) error {
	for _, r := range id {
		if r < '0' || r > '9' {
			return model.ErrRefused
		}
	}
	return nil
}
