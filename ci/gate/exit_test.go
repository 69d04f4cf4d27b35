package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

func TestTheExitCodeSaysWhatTheReportsSay(t *testing.T) {
	all := func(r ...checker.Report) []checker.Report { return r }
	few := passed("shop")
	few.Counts.Plans, few.Counts.Distinct = 40, 40
	replayed := passed("shop")
	replayed.Counts.Plans, replayed.Counts.Distinct = 1, 1
	idle := passed("shop")
	idle.Counts = checker.Counts{Plans: 9, Distinct: 9}
	fenceless := passed("shop")
	fenceless.NotPromised = []checker.Cell{{Invariant: model.StaleClaimRefused, Why: "no Fencer"}}
	old := passed("shop") // from before waivers had a list of their own
	old.NotPromised = []checker.Cell{{Invariant: model.DoneStaysDone, Why: "waived: ticket 12"}}
	silent := broken(t, "shop")
	silent.Reasons = nil

	for name, c := range map[string]struct {
		reports []checker.Report
		flags   string
		code    int
		says    string // on stdout
	}{
		"one that passed":                     {all(passed("shop")), "", 0, "# effectonce: pass"},
		"all that are required passed":        {all(passed("memory"), passed("redis")), "-require memory,redis", 0, "2 reports read; 2 pass."},
		"required by two flags":               {all(passed("memory"), passed("redis")), "-require memory -require redis", 0, "2 pass"},
		"enough plans":                        {all(few), "-min-plans 40", 0, "40 (40)"},
		"a replay, and the policy lets it in": {all(replayed), "-min-plans 0", 0, "1 (1)"},
		"not promised, as the policy allows":  {all(fenceless), "", 0, "`StaleClaimRefused`: `no Fencer`"},
		"a waiver that is allowed":            {all(waiving("shop", model.DoneStaysDone)), "-allow-waiver NoEarlySteal,DoneStaysDone", 0, "until 2031-05-01 00:00 UTC: `ticket 12`"},

		"a violation":                         {all(passed("memory"), broken(t, "shop")), "", 1, "broke DoneStaysDone - "},
		"a violation without a reason":        {all(silent), "", 1, "## Violated: `shop`"},
		"a waiver":                            {all(waiving("shop", model.DoneStaysDone)), "", 1, "`waives DoneStaysDone, which the policy does not allow (-allow-waiver)`"},
		"a waiver beside one that is":         {all(waiving("shop", model.DoneStaysDone)), "-allow-waiver NoEarlySteal", 1, "**violated**"},
		"a waiver of an older report":         {all(old), "", 1, "waives DoneStaysDone"},
		"not promised, as the policy wants":   {all(fenceless), "-promised StaleClaimRefused", 1, "does not promise StaleClaimRefused"},
		"a required store without a report":   {all(passed("memory")), "-require memory,postgres", 2, "required (-require) and has no report"},
		"a required store named in part":      {all(passed("miniredis")), "-require redis", 2, "has no report"},
		"undecided":                           {all(passed("memory"), undecidedOf("shop")), "", 3, "UNDECIDED (not a violation): porcupine had 5s"},
		"inconclusive":                        {all(passed("memory"), inconclusiveOf("shop")), "", 4, "`shop` in `TestOfshop`: `prune removed`"},
		"too few plans":                       {all(few), "-min-plans 41", 4, "`ran 40 distinct plans, and the policy wants 41 (-min-plans)`"},
		"a replay instead of a campaign":      {all(replayed), "", 4, "ran 1 distinct plans"},
		"plans that did nothing":              {all(idle), "", 4, "did nothing"},
		"violated comes before unusable":      {all(broken(t, "shop")), "-require postgres", 1, "1 violated, 1 unusable. Exit code 1."},
		"violated comes before undecided":     {all(undecidedOf("a"), broken(t, "b"), inconclusiveOf("c")), "", 1, "1 violated, 1 undecided, 1 inconclusive"},
		"unusable comes before undecided":     {all(undecidedOf("a"), inconclusiveOf("c")), "-require b", 2, "Exit code 2."},
		"undecided comes before inconclusive": {all(inconclusiveOf("a"), undecidedOf("b")), "", 3, "Exit code 3."},
	} {
		t.Run(name, func(t *testing.T) {
			dir := leave(t, c.reports...)
			code, stdout, stderr := gate(t, dir, append(strings.Fields(c.flags), ".")...)
			if code != c.code {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
			if !strings.Contains(stdout, c.says) {
				t.Errorf("the summary does not say %q:\n%s", c.says, stdout)
			}
		})
	}
}

func TestInputThatCannotBeUsedExits2AndSaysWhy(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"cut off":                     {`{"schema": 1, "store": "shop", "verd`, "no JSON, or cut off"},
		"empty":                       {"", "no JSON, or cut off"},
		"no object":                   {`["schema", 1]`, "no JSON"},
		"two reports in one":          {`{"schema":1,"store":"a","verdict":"pass"}{"schema":1}`, "no JSON"},
		"another program's":           {`{"version": 3}`, "no schema number"},
		"a newer schema":              {`{"schema": 2, "store": "shop", "verdict": "pass"}`, "schema 2, and this gate reads 1"},
		"an older schema":             {`{"schema": 0, "store": "shop", "verdict": "pass"}`, "schema 0"},
		"a field of a newer version":  {`{"schema": 1, "store": "shop", "verdict": "pass", "excuse": ""}`, `unknown field "excuse"`},
		"a field inside of one":       {`{"schema": 1, "store": "shop", "verdict": "pass", "counts": {"guesses": 1}}`, `unknown field "guesses"`},
		"a number of another kind":    {`{"schema": 1, "store": "shop", "verdict": "pass", "seed": -1}`, "no report of schema 1"},
		"an unknown verdict":          {`{"schema": 1, "store": "shop", "verdict": "fine"}`, `verdict "fine", which is none`},
		"no verdict":                  {`{"schema": 1, "store": "shop"}`, `verdict "", which is none`},
		"no store":                    {`{"schema": 1, "store": "", "verdict": "pass"}`, "names no store"},
		"pass, and yet a reason":      {`{"schema": 1, "store": "shop", "verdict": "pass", "reasons": [{"invariant": "NoLostEffect"}]}`, "contradict"},
		"pass, and yet marks missing": {`{"schema": 1, "store": "shop", "verdict": "pass", "missed": ["prune removed"]}`, "contradict"},
		"undecided, and yet a reason": {`{"schema": 1, "store": "shop", "verdict": "undecided", "reasons": [{"invariant": "NoLostEffect"}]}`, "beside a broken promise"},
		"a negative count":            {`{"schema": 1, "store": "shop", "verdict": "pass", "counts": {"operations": -1}}`, "negative"},
		"more distinct than all":      {`{"schema": 1, "store": "shop", "verdict": "pass", "counts": {"plans": 1, "distinct_plans": 2}}`, "2 distinct plans of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := leave(t, passed("memory")) // that another one is well does not help
			put(t, filepath.Join(dir, "TestBad", reportFile), c.text)
			code, stdout, stderr := gate(t, dir, ".")
			if code != 2 || !strings.Contains(stderr, "gate: TestBad/report.json: ") || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d, want 2 and %q:\n%s", code, c.says, stderr)
			}
			if !strings.Contains(stdout, "1 report read; 1 pass, 1 unusable. Exit code 2.") {
				t.Errorf("the summary does not count it:\n%s", stdout)
			}
		})
	}
}

func TestWrongUsageExits2AndSaysWhy(t *testing.T) {
	dir := leave(t, passed("memory"))
	put(t, filepath.Join(dir, "empty", "plan.txt"), "no report")
	for args, says := range map[string]string{
		"":                        "no folder and no report is given",
		"-h":                      "usage: gate",
		"-requires memory .":      "-requires",
		"-min-plans many .":       "many",
		"-min-plans -1 .":         "-1",
		"-require , .":            "a name is empty",
		"-allow-waiver Done .":    `"Done" is no invariant`,
		"-promised Done .":        `"Done" is no invariant`,
		". -require memory":       "flags come first",
		"nowhere":                 "gate: nowhere: no such file",
		"empty":                   "gate: empty: no report.json below it",
		"Test0 empty":             "gate: empty: no report.json below it",
		"-o nowhere/summary.md .": "gate: -o: ",
	} {
		code, _, stderr := gate(t, dir, strings.Fields(args)...)
		if code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("gate %s: exit code %d, want 2 and %q:\n%s", args, code, says, stderr)
		}
	}
}

func TestTheSummaryIsAppendedToAFile(t *testing.T) {
	dir := leave(t, passed("memory"))
	put(t, filepath.Join(dir, "summary.md"), "before\n")
	code, stdout, stderr := gate(t, dir, "-o", "summary.md", ".")
	text, err := os.ReadFile(filepath.Join(dir, "summary.md"))
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || string(text) != "before\n"+stdout {
		t.Errorf("exit code %d, the file holds\n%s\nwant what was there and\n%s%s", code, text, stdout, stderr)
	}
}

func TestAReportCountsOnceHoweverItIsReached(t *testing.T) {
	dir := leave(t, passed("memory"))
	if err := os.Symlink("Test0", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for args, want := range map[string]string{
		". Test0":                   "1 report read",
		"Test0/report.json Test0":   "1 report read",
		"link":                      "1 report read", // a folder may be given as a link
		"Test0/../Test0 ./Test0/./": "1 report read",
	} {
		if code, stdout, stderr := gate(t, dir, strings.Fields(args)...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("gate %s: exit code %d, want %q:\n%s%s", args, code, want, stdout, stderr)
		}
	}
}
