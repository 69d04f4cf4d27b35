package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/effectonce/effectonce/checker"
	"github.com/effectonce/effectonce/model"
)

var rewrite = flag.Bool("rewrite", false, "write the golden summaries again")

func TestGoldenSummaries(t *testing.T) {
	postgres := passed("postgres")
	postgres.NotPromised = []checker.Cell{
		{Invariant: model.StaleClaimRefused, Why: "no Fencer"},
		{Invariant: model.StaleClaimRefusedAfterForgetting, Why: "no Fencer"},
		{Invariant: model.StaleClaimRefusedAfterForgetting, Why: "tokens start again after Prune"},
	}
	explored := passed("shop") // by Explore, in no test
	explored.Test = ""
	for name, c := range map[string]struct {
		policy policy
		inputs []input
	}{
		"all_passed": {policy{}, []input{
			{path: "runs/TestMemory/report.json", report: passed("memory")}, {path: "runs/TestPostgres/report.json", report: postgres},
			{path: "runs/shop/report.json", report: explored},
		}},
		"everything_that_can_go_wrong": {policy{require: []string{"memory", "redis"}, minPlans: 3000, allowed: []string{"NoEarlySteal"}}, []input{
			{path: "runs/TestMemory/report.json", report: passed("memory")},
			{path: "runs/TestShop/report.json", report: broken(t, "shop")},
			{path: "runs/TestSlow/report.json", report: undecidedOf("slow")},
			{path: "runs/TestIdle/report.json", report: inconclusiveOf("idle")},
			{path: "runs/TestLax/report.json", report: waiving("lax", model.DoneStaysDone)},
			{path: "runs/TestShort/report.json", report: waiving("short", model.NoEarlySteal)},
			{path: "runs/TestCut/report.json", err: errors.New("no JSON, or cut off: unexpected end of JSON input")},
		}},
		"what_came_from_messages_stays_text": {policy{}, []input{hostileInput(t)}},
		"nothing_to_read":                    {policy{}, []input{{path: "runs", err: errors.New("no report.json below it")}}},
	} {
		t.Run(name, func(t *testing.T) {
			judged := c.policy.judge(c.inputs)
			got := judged.markdown()
			file := filepath.Join("testdata", name+".md")
			if *rewrite {
				put(t, file, got)
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s:\n%s\nwant:\n%s", file, got, want)
			}
		})
	}
}

func hostileInput(t *testing.T) input {
	t.Helper()
	r := broken(t, "shop")
	fill(&r, "a`|</code>\n# pass")
	r.Verdict, r.Schema = checker.Violated, checker.Schema
	return input{path: "runs/| pass |/report.json", report: r}
}
