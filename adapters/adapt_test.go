package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters"
	"github.com/effectonce/effectonce/model"
)

// row is a record as somebody's table has it.
type row struct {
	Status  string
	Tries   int
	Expires int64 // seconds
}

// table is a store over row that answers what it is told and remembers what it was asked.
type table struct {
	answer  row
	claimed bool
	err     error
	asked   []string
}

func (t *table) Begin(_ context.Context, consumer, id string, now time.Time, lease time.Duration) (row, bool, error) {
	t.asked = append(t.asked, fmt.Sprint("begin ", consumer, " ", id, " ", now.Unix(), " ", lease))
	return t.answer, t.claimed, t.err
}

func (t *table) Complete(_ context.Context, consumer, id string, now time.Time) error {
	t.asked = append(t.asked, fmt.Sprint("complete ", consumer, " ", id, " ", now.Unix()))
	return t.err
}

func (t *table) Prune(_ context.Context, before time.Time) (int, error) {
	t.asked = append(t.asked, fmt.Sprint("prune ", before.Unix()))
	return 7, t.err
}

func (t *table) CompleteClaim(context.Context, string, string, model.Record, time.Time) error {
	return model.ErrFenced
}

func (t *table) Close() error { return nil }

func record(r row) model.Record {
	if r.Status == "" {
		return model.Record{}
	}
	return model.Record{State: model.State(r.Status), Attempts: r.Tries, LeaseUntil: time.Unix(r.Expires, 0)}
}

func Example() {
	mine := &table{answer: row{Status: "PROCESSING", Tries: 2, Expires: 90}, claimed: true}

	var store model.Store = adapters.From(mine, record)
	r, claimed, err := store.Begin(context.Background(), "billing", "m-1", time.Unix(60, 0), 30*time.Second)

	fmt.Println(claimed, r.State, r.Attempts, r.LeaseUntil.Unix(), err)
	// Output: true PROCESSING 2 90 <nil>
}

func TestFromPassesEveryCallThroughUnchanged(t *testing.T) {
	boom := errors.New("boom")
	mine := &table{answer: row{Status: "DONE", Tries: 3}, err: boom}
	store := adapters.From(mine, record)
	ctx := context.Background()

	r, claimed, err := store.Begin(ctx, "c", "m", time.Unix(5, 0), time.Second)
	if r.State != model.Done || r.Attempts != 3 || claimed || !errors.Is(err, boom) {
		t.Errorf("Begin answered %+v, %v, %v", r, claimed, err)
	}
	if err := store.Complete(ctx, "c", "m", time.Unix(6, 0)); !errors.Is(err, boom) {
		t.Errorf("Complete answered %v, want the store's own error", err)
	}
	if n, err := store.Prune(ctx, time.Unix(7, 0)); n != 7 || !errors.Is(err, boom) {
		t.Errorf("Prune answered %d, %v, want 7 and the store's own error", n, err)
	}
	want := []string{"begin c m 5 1s", "complete c m 6", "prune 7"}
	if fmt.Sprint(mine.asked) != fmt.Sprint(want) {
		t.Errorf("the store was asked %q, want %q, each once", mine.asked, want)
	}
}

func TestFromOffersTheThreeMethodsOnlyUntilOthersAreAddedBesideIt(t *testing.T) {
	mine := &table{}
	store := adapters.From(mine, record)
	if _, ok := store.(model.Fencer); ok {
		t.Error("From claims a capability that it was not given")
	}

	var fenced any = struct {
		model.Store
		model.Fencer
	}{store, mine}
	if _, ok := fenced.(model.Store); !ok {
		t.Error("the store with a fencer beside it is no longer a Store")
	}
	f, ok := fenced.(model.Fencer)
	if !ok {
		t.Fatal("the fencer that was added is not found")
	}
	if err := f.CompleteClaim(context.Background(), "c", "m", model.Record{}, time.Time{}); !errors.Is(err, model.ErrFenced) {
		t.Errorf("CompleteClaim answered %v, want the store's own ErrFenced", err)
	}
}
