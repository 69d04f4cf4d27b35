package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/memory"
	"github.com/effectonce/effectonce/model"
)

var epoch = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

func Example() {
	ctx := context.Background()
	space := memory.New(memory.Options{})
	worker := space.Open()

	claim, claimed, _ := worker.Begin(ctx, "billing", "m-1", epoch, 30*time.Second)
	fmt.Println(claimed, claim.State, claim.Attempts)
	effect := model.Effect{ID: "e-1", Account: "alice", Amount: 5}
	fmt.Println(worker.CommitEffect(ctx, "billing", "m-1", claim, epoch.Add(time.Second), effect))

	again, claimed, _ := space.Open().Begin(ctx, "billing", "m-1", epoch.Add(time.Hour), 30*time.Second)
	fmt.Println(claimed, again.State, len(space.Effects()))
	// Output:
	// true PROCESSING 1
	// <nil>
	// false DONE 1
}

func TestHandlesShareTheSpaceAndSpacesShareNothing(t *testing.T) {
	one, other := memory.New(memory.Options{Capacity: 8}), memory.New(memory.Options{Capacity: -1})
	for i, c := range []struct {
		h    *memory.Handle
		want bool
	}{{one.Open(), true}, {one.Open(), false}, {other.Open(), true}} {
		if _, claimed, err := c.h.Begin(t.Context(), "c", "m", epoch, time.Second); claimed != c.want || err != nil {
			t.Errorf("handle %d: claimed %v, %v, want %v", i, claimed, err, c.want)
		}
	}
}

func TestOneNanosecondIsALease(t *testing.T) {
	h := memory.New(memory.Options{}).Open()
	for i := range 3 {
		now := epoch.Add(time.Duration(i))
		if r, claimed, err := h.Begin(t.Context(), "c", "m", now, 1); !claimed || err != nil || r.Attempts != i+1 {
			t.Fatalf("%d ns: %+v, %v, %v", i, r, claimed, err)
		}
		if _, claimed, err := h.Begin(t.Context(), "c", "m", now, 1); claimed || err != nil {
			t.Fatalf("%d ns: claimed under a live lease (%v)", i, err)
		}
	}
}

// A clock with a monotonic reading says what its wall says, also against an instant that has none.
func TestMonotonicReadingsDoNotCount(t *testing.T) {
	h := memory.New(memory.Options{}).Open()
	now := time.Now()
	r, _, err := h.Begin(t.Context(), "c", "m", now, time.Second)
	if err != nil || r.UpdatedAt != now.Round(0) {
		t.Errorf("updated %#v, %v, want the wall reading alone", r.UpdatedAt, err)
	}
}

// Completions come in any order of their instants; Prune is compared with a count over a plain list.
func TestPruneAgreesWithAPlainCount(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	h := memory.New(memory.Options{}).Open()
	ctx := t.Context()
	var completed []int
	for i := range 3000 {
		if random.IntN(10) == 0 {
			before := random.IntN(1000)
			left := completed[:0:0]
			for _, at := range completed {
				if at >= before {
					left = append(left, at)
				}
			}
			n, err := h.Prune(ctx, epoch.Add(time.Duration(before)))
			if want := len(completed) - len(left); n != want || err != nil {
				t.Fatalf("step %d: Prune removed %d, %v, want %d (seed %d)", i, n, err, want, seed)
			}
			completed = left
			continue
		}
		at := random.IntN(1000)
		id := strconv.Itoa(i)
		if _, _, err := h.Begin(ctx, "c", id, epoch.Add(time.Duration(at)), time.Second); err != nil {
			t.Fatal(err)
		}
		if random.IntN(3) == 0 {
			continue // stays PROCESSING
		}
		if err := h.Complete(ctx, "c", id, epoch.Add(time.Duration(at))); err != nil {
			t.Fatal(err)
		}
		completed = append(completed, at)
	}
}

func TestEffectsIsACopy(t *testing.T) {
	space := memory.New(memory.Options{})
	h := space.Open()
	r, _, err := h.Begin(t.Context(), "c", "m", epoch, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.CommitEffect(t.Context(), "c", "m", r, epoch, model.Effect{ID: "e"}); err != nil {
		t.Fatal(err)
	}
	space.Effects()[0].Effect.ID = "forged"
	if got := space.Effects()[0].Effect.ID; got != "e" {
		t.Errorf("the ledger says %q", got)
	}
}

func TestContractIsStrictWithOrderedTokens(t *testing.T) {
	c := memory.Contract()
	if err := c.Validate(); err != nil || !c.OrderedToken || c.Precision != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func BenchmarkBeginComplete(b *testing.B) {
	ctx := context.Background()
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			space := memory.New(memory.Options{Capacity: b.N})
			b.ReportAllocs()
			b.SetParallelism(max(1, clients/2))
			work := func(h *memory.Handle, id string) {
				r, _, err := h.Begin(ctx, "c", id, epoch, time.Second)
				if err == nil {
					err = h.CompleteClaim(ctx, "c", id, r, epoch)
				}
				if err != nil {
					b.Error(err)
				}
			}
			if clients == 1 {
				h := space.Open()
				for i := range b.N {
					work(h, strconv.Itoa(i))
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				h, prefix := space.Open(), strconv.FormatUint(rand.Uint64(), 36)
				for i := 0; pb.Next(); i++ {
					work(h, prefix+strconv.Itoa(i))
				}
			})
		})
	}
}
