package model_test

import (
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce/model"
)

// nasty are strings that message ids really hold, or that a text form breaks on.
var nasty = []string{
	"", " ", "a b", "a\x00b", "line\nfeed", "\r", "\t", `quo"te`, `back\slash`, "\xff\xfe", "é", "e\u0301", "\u2028", "\ufffd", " -> ok",
	"=", "#1", "none", "end 3", "|", "a|b", "日本", "\U0010ffff", strings.Repeat("k", 1024), strings.Repeat("\x00", 64), "`", "'", "\x7f", "\\x00",
}

// rich is a history that has one of everything.
func rich() *model.History {
	h := history(model.Contract{
		Precision: ms, Window: 100 * time.Hour, MaxAttempts: 9, OrderedToken: true,
		Waivers: []model.Waiver{
			{Invariant: model.SurvivesRestart, Reason: `kept in "memory"` + "\n", Until: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)},
			{Invariant: model.TypedAnswers, Reason: "é"},
		},
	}, calls(
		begin(0).claimed(1), beginAs("n\n", sec).not(processing(1, 30*sec, 0)).token("100"), beginAs("", 2*sec).lost(),
		complete(3*sec).handle(2).fenced(), completeClaim(1, 4*sec).failed(), commit(1, 5*sec, 2).ok(), completeResult(1, 6*sec, "\x00").ok(),
		release(1, 7*sec, 8*sec).notFound(), extend(1, 9*sec).not(processing(1, 39*sec, 0)), bury(0, 10*sec).refused(), replay(11*sec).applied(),
		applyOnce(12*sec, 1).yes(), applyOnce(13*sec, 0).ok(), prune(14*sec).ok(), lookup().found(done(1, 5*sec)).result("").because("r").token("100"),
		lookup().ok(), begin(0).zeroNow().lease(-1).refused(), deliver(12*sec, 1).buried(), begin(0).around(sec, 2*sec).lost(),
	))
	h.Scenario, h.Seed = "it's \"rich\"", math.MaxUint64
	h.Capabilities, h.Zones = []model.Kind{model.CompleteClaim, model.Lookup}, []int{0, -3600, 20700}
	h.Faults[0].To = 99
	h.Faults = append(h.Faults, model.Fault{ID: 2, Name: "paused\x00", Worker: 2, From: 3, Detail: "a \"b\"\n"})
	h.Marks = []model.Mark{{Name: "a lease ran out", Count: 3}, {Name: "", Count: -1}}
	h.Operations[13].Answer.Count = 4
	h.Operations[0].Unseen = true
	h.Operations[2].Closed = 70
	last := &h.Operations[len(h.Operations)-1]
	last.Return, last.Answer, last.ReturnedAt = 0, model.Answer{}, model.NoInstant
	return h
}

func TestPrintedHistoryParsesBackToItself(t *testing.T) {
	h := rich()
	if err := h.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, s := range nasty {
		same := rich()
		same.Store, same.Scenario = s, s
		same.Operations[i%len(same.Operations)].Key = model.Key{}
		for o := range same.Operations {
			if same.Operations[o].Kind.Keyed() {
				same.Operations[o].Key = model.Key{Consumer: s, ID: nasty[(i+o)%len(nasty)]}
			}
		}
		same.Operations[1].Nonce, same.Operations[0].Answer.Token, same.Operations[7].Reason, same.Operations[6].Result = s, s, s, s
		same.Operations[4].Answer.Error, same.Operations[14].Answer.Result, same.Operations[14].Answer.State = s, s, model.State(s)
		same.Operations[5].Effect.ID, same.Operations[5].Effect.Account, same.Effects[0].Key.ID = s, s, s
		same.Effects[0].Effect.Amount, same.Marks[0].Name = math.MinInt64, s
		roundTrip(t, same)
	}
	roundTrip(t, h)
	roundTrip(t, &model.History{})
}

// roundTrip fails unless Parse(Print(h)) is h, and printing that gives the same text.
func roundTrip(t *testing.T, h *model.History) {
	t.Helper()
	text := h.Print()
	again, err := model.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !reflect.DeepEqual(again, h) {
		t.Fatalf("came back as another history:\n%s\nwas\n%s", again.Print(), text)
	}
	if again.Print() != text {
		t.Fatalf("prints differently:\n%s\nwas\n%s", again.Print(), text)
	}
	for i, line := range operationLines(text) {
		if got := h.PrintOperation(&h.Operations[i]); got != line {
			t.Fatalf("operation %d prints as %q alone and %q in the history", i+1, got, line)
		}
		if _, answer, _ := strings.Cut(line, " -> "); !strings.HasSuffix(line, " -> "+h.PrintAnswer(&h.Operations[i])) {
			t.Fatalf("operation %d prints its answer as %q alone", i+1, answer)
		}
	}
}

func operationLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "op ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func TestInstantsFarFromTheEpochSurviveTheText(t *testing.T) {
	for _, from := range []model.Instant{0, 1, -1, epoch, math.MinInt64, math.MaxInt64, math.MinInt64 + 1, math.MaxInt64 - 1} {
		for _, now := range []model.Instant{0, 1, -1, epoch, epoch + 1, math.MinInt64, math.MaxInt64, math.MinInt64 + 7, math.MaxInt64 - 7, math.MinInt64 / 2} {
			h := history(model.Contract{}, calls(begin(0).claimed(1), prune(0).ok()))
			h.Epoch = from
			o := &h.Operations[0]
			o.Now, o.CalledAt, o.ReturnedAt, o.Answer.LeaseUntil, o.Answer.UpdatedAt, o.Lease = now, now, now, now, now, math.MinInt64
			h.Operations[1].Before = now
			roundTrip(t, h)
		}
	}
}

func TestEveryFactOfAContractSurvivesTheText(t *testing.T) {
	for name, c := range map[string]model.Contract{
		"clock":            {Clock: model.ServerClock},
		"clock-error":      {ClockError: -1},
		"precision":        {Precision: ms},
		"min-lease":        {MinLease: 2 * sec},
		"window":           {Window: 48 * time.Hour},
		"redelivery":       {Redelivery: time.Hour},
		"retention":        {Retention: model.ByItself},
		"no-lease":         {NoLease: true},
		"lease-is-record":  {LeaseIsRecord: true},
		"refuses-late":     {RefusesLate: true},
		"no-attempts":      {NoAttempts: true},
		"no-times":         {NoTimes: true},
		"max-attempts":     {MaxAttempts: 3},
		"token-per-record": {TokenPerRecord: true},
		"ordered-token":    {OrderedToken: true},
		"prune-at-most":    {PruneAtMost: 1},
		"loses-on-crash":   {LosesOnCrash: true},
		"shared-namespace": {SharedNamespace: true},
	} {
		t.Run(name, func(t *testing.T) {
			roundTrip(t, &model.History{Contract: c})
			if f := c.Facts(); len(f) != 1 || !strings.HasPrefix(f[0], name+"=") {
				t.Errorf("facts %q, want %s alone", f, name)
			}
		})
	}
	if f := (model.Contract{}).Facts(); len(f) != 0 {
		t.Errorf("the strict contract has facts to tell: %q", f)
	}
	// A field that nobody taught to print would be lost on the way.
	if got, want := reflect.TypeFor[model.Contract]().NumField(), 18+3; got != want {
		t.Errorf("Contract has %d fields, the text form and this test know %d", got, want)
	}
}

var namesALine = regexp.MustCompile(`^model: history: line \d+: `)

func TestEveryTruncationIsRefusedWithALineNumber(t *testing.T) {
	text := rich().Print()
	for n := range text {
		if _, err := model.Parse(text[:n]); err == nil {
			t.Fatalf("cut after %d of %d bytes, and parsed", n, len(text))
		} else if !namesALine.MatchString(err.Error()) {
			t.Fatalf("cut after %d bytes: %v names no line", n, err)
		}
	}
}

// repeatable are the lines of which a history may have any number, so that one more or less is another history.
var repeatable = regexp.MustCompile(`^(waiver|zone|fault|mark|ledger|effect) `)

func TestEveryLineMovedTwiceOrMissingIsRefused(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSuffix(rich().Print(), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	refuse := func(what string, i int, parts ...[]string) {
		t.Helper()
		if _, err := model.Parse(strings.Join(slices.Concat(parts...), "")); err == nil {
			t.Errorf("line %d %s, and parsed: %s", i+1, what, lines[i])
		}
	}
	for i, line := range lines {
		if !repeatable.MatchString(line) {
			refuse("twice", i, lines[:i+1], lines[i:])
			refuse("missing", i, lines[:i], lines[i+1:])
		}
		verb := func(line string) string { first, _, _ := strings.Cut(line, " "); return first }
		if i+1 < len(lines) && (!repeatable.MatchString(line) || verb(line) != verb(lines[i+1])) {
			refuse("swapped with the next", i, lines[:i], []string{lines[i+1], line}, lines[i+2:])
		}
	}
}

// edits are changes by hand, each of which the parser must notice, with the words that its error must have.
var edits = []struct{ name, old, replacement, want string }{
	{"another version", "history 1\n", "history 2\n", "line 1"},
	{"an unknown line", "seed 1", "sede 1", "line 4"},
	{"an unknown fact", " precision=1ms", " precison=1ms", "line 6: unknown fact"},
	{"a fact twice", " precision=1ms", " precision=1ms precision=1ms", "line 6"},
	{"a fact with the strict value", " precision=1ms", " precision=1ms no-lease=no", "fact no-lease"},
	{"facts in another order", "precision=1ms window=100h0m0s", "window=100h0m0s precision=1ms", "line 6"},
	{"an unknown field", " lease=30s", " lesae=30s", "unexpected"},
	{"a field of another kind", " claim=#1 now=4s", " claim=#1 nonce=\"n\" now=4s", "unexpected"},
	{"a field twice", " lease=30s", " lease=30s lease=30s", "unexpected"},
	{"fields in another order", "now=0s lease=30s", "lease=30s now=0s", "not as it prints"},
	{"two spaces", "now=0s lease", "now=0s  lease", "line"},
	{"a space at the end", "capabilities complete-claim lookup\n", "capabilities complete-claim lookup \n", "not as it prints"},
	{"carriage returns", "\n", "\r\n", "line 1"},
	{"a lease in other words", "lease=30s", "lease=0.5m", "not as it prints"},
	{"an unquoted string", `store "table"`, `store table`, "not a quoted string"},
	{"another way to quote", `store "table"`, "store `table`", "not as it prints"},
	{"an open quote", `store "table"`, `store "table`, "does not end"},
	{"a number that is none", "call=1 ", "call=one ", "call:"},
	{"a number too large", "call=1 ", "call=99999999999999999999 ", "call:"},
	{"a number with a sign", "call=1 ", "call=+1 ", "not as it prints"},
	{"an operation out of order", "op 2 ", "op 3 ", "operation 2: numbered 3"},
	{"a call out of order", "call=3 ", "call=1 ", "operation 2: called at 1"},
	{"an answer before its call", "call=1 return=2", "call=2 return=1", "operation 1: returned at 1"},
	{"a claim by a later operation", "claim=#1 now=4s", "claim=#9 now=4s", "operation 5: presents the claim of operation 9"},
	{"a claim that is not granted", "claim=#1 now=4s", "claim=#2 now=4s", "operation 5: presents the claim of operation 2"},
	{"a claim without its sign", "claim=#1 now=4s", "claim=1 now=4s", "not as it prints"},
	{"a worker that is none", "op 1 w1/1", "op 1 x1/1", "no worker and handle"},
	{"a worker with more", "op 1 w1/1", "op 1 w1/1/1", "not as it prints"},
	{"an unknown kind", "op 1 w1/1 begin ", "op 1 w1/1 steal ", "unknown kind"},
	{"an unknown outcome", "-> ok claimed", "-> fine claimed", "unknown outcome"},
	{"an unknown word", "-> ok claimed", "-> ok grabbed", "neither"},
	{"an unknown refusal", "refusal=fenced", "refusal=gone", "no refusal"},
	{"ok with a refusal", "-> not-applied refusal=fenced", "-> ok refusal=fenced", "operation 4"},
	{"a flag with a value", " unseen", " unseen=yes", "a flag has no value"},
	{"a mark of no operation", "fault=1", "fault=7", "names fault 7"},
	{"no arrow", " -> ok claimed", " ok claimed", "line"},
	{"an invariant that is none", "waiver TypedAnswers", "waiver TypedAnswer", "no invariant"},
	{"an end that counts wrongly", "end 19", "end 17", "the end counts"},
	{"text after the end", "end 19\n", "end 19\n\n", "after the end"},
	{"an epoch in another zone", "epoch 2024-03-01T12:00:00Z", "epoch 2024-03-01T13:00:00+01:00", "not as it prints"},
	{"an epoch that is none", "epoch 2024-03-01T12:00:00Z", "epoch yesterday", "no instant"},
	{"an epoch after the last", "epoch 2024-", "epoch 9024-", "line"},
	{"an offset that is none", "now=0s", "now=soon", "no offset"},
	{"an offset beyond all durations", "now=0s", "now=9999999h", "no offset"},
	{"a far instant that is near", "now=0s", "now=@2024-03-01T12:00:00Z", "not as it prints"},
	{"a byte order mark", "effectonce history", "\ufeffeffectonce history", "line 1"},
}

func TestATextThatWasEditedByHandIsRefused(t *testing.T) {
	text := rich().Print()
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			n := 1
			if e.old == "\n" {
				n = -1
			}
			edited := strings.Replace(text, e.old, e.replacement, n)
			if edited == text {
				t.Fatalf("the text has no %q:\n%s", e.old, text)
			}
			if _, err := model.Parse(edited); err == nil || !strings.Contains(err.Error(), e.want) {
				t.Errorf("got %v, want %q", err, e.want)
			}
		})
	}
}

func TestAnEditedAnswerThatStillPrintsIsJudgedNotRefused(t *testing.T) {
	h := history(model.Contract{}, calls(begin(0).claimed(1), begin(30*sec).claimed(2)))
	edited, err := model.Parse(strings.Replace(h.Print(), "attempts=2", "attempts=3", 1))
	if err != nil {
		t.Fatal(err)
	}
	if !explained(model.NewRules(h.Contract), h) || explained(model.NewRules(h.Contract), edited) {
		t.Error("the text decides otherwise than the history")
	}
}
