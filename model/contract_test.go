package model_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

func TestValidateNamesTheFieldThatIsWrong(t *testing.T) {
	waiver := func(id model.InvariantID, reason string) model.Contract {
		return model.Contract{Waivers: []model.Waiver{{Invariant: model.TypedAnswers, Reason: "r"}, {Invariant: id, Reason: reason}}}
	}
	for want, c := range map[string]model.Contract{
		"Clock 2":                     {Clock: 2},
		"Clock -1":                    {Clock: -1},
		"Retention 9":                 {Retention: 9},
		"Precision -1ns":              {Precision: -1},
		"MinLease -1s":                {MinLease: -sec},
		"Window -1s":                  {Window: -sec},
		"Redelivery -1s":              {Redelivery: -sec},
		"Window 168h0m0s is not":      {Redelivery: model.DefaultWindow},
		"Window 24h0m0s is not":       {Window: model.DefaultRedelivery},
		"MaxAttempts -1":              {MaxAttempts: -1},
		"PruneAtMost -2":              {PruneAtMost: -2},
		`Waivers[1] names "Nothing"`:  waiver("Nothing", "r"),
		"Waivers[1] (NoEarlySteal) g": waiver(model.NoEarlySteal, ""),
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, c := range []model.Contract{{}, {ClockError: -1}, {Window: 2, Redelivery: 1}, {Clock: model.ServerClock, Retention: model.ByItself}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestZeroFieldsStandForTheirDefaults(t *testing.T) {
	strict := model.Contract{}.WithDefaults()
	if strict.Precision != 1 || strict.MinLease != 1 || strict.Window != 7*24*time.Hour || strict.Redelivery != 24*time.Hour || strict.ClockError != 0 {
		t.Errorf("strict: %+v", strict)
	}
	if c := (model.Contract{Clock: model.ServerClock, Precision: ms}).WithDefaults(); c.ClockError != 50*ms || c.MinLease != ms {
		t.Errorf("server's clock: %+v", c)
	}
	if c := (model.Contract{Clock: model.ServerClock, ClockError: -1}).WithDefaults(); c.ClockError != 0 {
		t.Errorf("no error at all: %+v", c)
	}
}

func TestOutcomeOfTellsOnlyWhatAnErrorProves(t *testing.T) {
	reset := errors.New("connection reset")
	for _, c := range []struct {
		err  error
		want model.Outcome
	}{
		{nil, model.OK},
		{reset, model.Unknown},
		{context.Canceled, model.Unknown},
		{context.DeadlineExceeded, model.Unknown},
		{model.ErrFenced, model.NotApplied},
		{model.ErrNotFound, model.NotApplied},
		{model.ErrRefused, model.NotApplied},
		{fmt.Errorf("postgres: complete: %w", model.ErrFenced), model.NotApplied},
		{errors.Join(reset, model.ErrRefused), model.NotApplied},
		{model.NoEffect(reset), model.NotApplied},
		{fmt.Errorf("redis: dial: %w", model.NoEffect(reset)), model.NotApplied},
		{model.NoEffect(nil), model.OK},
		{errors.New(model.ErrFenced.Error()), model.Unknown},
	} {
		if got := model.OutcomeOf(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(model.NoEffect(reset), reset) || model.NoEffect(reset).Error() != reset.Error() {
		t.Error("NoEffect hides the error that it wraps")
	}
	if model.Unknown.String() != "unknown" || model.OK.String() != "ok" || model.NotApplied.String() != "not-applied" {
		t.Error("outcomes are not told in the history's words")
	}
}

func TestInstantOfKeepsWhatItCanAndStopsAtTheEdges(t *testing.T) {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	for _, c := range []struct {
		name string
		at   time.Time
		want model.Instant
	}{
		{"zero", time.Time{}, model.NoInstant},
		{"zero in another zone", time.Time{}.In(time.FixedZone("east", 3600)), model.NoInstant},
		{"1970", time.Unix(0, 0), model.NoInstant},
		{"before 1970", time.Unix(0, -1), -1},
		{"with a zone", time.Unix(5, 0).In(time.FixedZone("east", 3600)), 5e9},
		{"the first", first, math.MinInt64},
		{"the second", first.Add(1), math.MinInt64 + 1},
		{"within the first second", first.Add(sec / 2), math.MinInt64 + 5e8},
		{"before the first", first.Add(-1), math.MinInt64},
		{"the last", last, math.MaxInt64},
		{"the last but one", last.Add(-1), math.MaxInt64 - 1},
		{"within the last second", last.Add(-sec / 2), math.MaxInt64 - 5e8},
		{"after the last", last.Add(1), math.MaxInt64},
		{"year 1, plus a lease", time.Time{}.Add(30 * sec), math.MinInt64},
		{"year 9999", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{"year -5000", time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64},
	} {
		if got := model.InstantOf(c.at); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
		if back := c.want.Time(); c.want != model.NoInstant && model.InstantOf(back) != c.want {
			t.Errorf("%s: %d came back as %d", c.name, c.want, model.InstantOf(back))
		}
	}
	if !model.NoInstant.Time().IsZero() || epoch.Time().Location() != time.UTC {
		t.Error("an instant is not told as UTC, or none not as the zero time")
	}
}

func TestInstantsAddAndSubtractWithoutWrappingRound(t *testing.T) {
	const first, last = model.Instant(math.MinInt64), model.Instant(math.MaxInt64)
	for _, c := range []struct {
		got, want model.Instant
	}{
		{model.Instant(5).Add(3), 8}, {model.Instant(5).Add(-3), 2}, {model.NoInstant.Add(sec), model.NoInstant},
		{last.Add(1), last}, {first.Add(-1), first}, {model.Instant(1).Add(math.MaxInt64), last}, {model.Instant(-2).Add(math.MinInt64), first},
		{model.Instant(model.Instant(5).Sub(3)), 2}, {model.Instant(last.Sub(-1)), last}, {model.Instant(first.Sub(1)), first},
		{model.Instant(last.Sub(last)), 0}, {model.Instant(first.Sub(last)), first}, {model.Instant(last.Sub(first)), last},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

func TestKeysPrintAlikeOnlyIfTheyAreEqual(t *testing.T) {
	seen := map[string]model.Key{}
	for _, consumer := range nasty {
		for _, id := range nasty {
			k := model.Key{Consumer: consumer, ID: id}
			if other, twice := seen[k.String()]; twice && other != k {
				t.Errorf("%q and %q print alike: %s", other, k, k)
			}
			seen[k.String()] = k
		}
	}
}

func TestEveryInvariantHasASentence(t *testing.T) {
	for _, inv := range model.Invariants() {
		if inv.ID.Statement() == "" || inv.ID.Statement() != inv.Statement {
			t.Errorf("%s: %q", inv.ID, inv.Statement)
		}
	}
	if model.InvariantID("Nothing").Statement() != "" {
		t.Error("a name that is no invariant has a sentence")
	}
	table := model.Invariants()
	table[0].ID = "changed"
	if model.Invariants()[0].ID == "changed" {
		t.Error("the table can be changed from outside")
	}
}
