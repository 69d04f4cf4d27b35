package scenarios_test

import (
	"strings"
	"testing"

	"github.com/effectonce/effectonce/model"
	"github.com/effectonce/effectonce/scenarios"
)

// What the wire knows of a call that it broke off stands in the history, and closes what the client could not know: the
// client of all four heard the same.
func TestWhatTheWireKnowsOfABrokenCommit(t *testing.T) {
	for _, c := range []struct {
		fault, detail string
		found         int
	}{
		{"reply-lost", "query: COMMIT on connection 1, passed on wholly, the server had answered COMMIT", 1},
		{"half-reply", "the server had answered COMMIT", 1},
		{"request-lost", "query: COMMIT on connection 1, passed on not at all, the server ended the connection without an answer", 0},
		{"half-request", "query: COMMIT on connection 1, passed on partly", 0},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Setenv("EFFECTONCE_OUT", "") // which has the last word, and is read here
			t.Setenv("EFFECTONCE_PLAN", `effectonce plan 1; worker w1 zone=0; key k1 "orders" "m1"; w1 begin k1 lease=30s; `+
				`w1 commit-effect k1 amount=7 fault=`+c.fault+` request=3; end 2`)
			dir := t.TempDir()
			r := explore(t, postgresHarness(t), scenarios.Out(dir))
			h, err := model.Parse(readFile(t, dir+"/postgres/history.txt"))
			if err != nil {
				t.Fatal(r.Verdict, err)
			}
			o := h.Operations[1]
			if len(h.Faults) != 1 || !strings.Contains(h.Faults[0].Detail, c.detail) {
				t.Errorf("%+v, want %q in it", h.Faults, c.detail)
			}
			if o.Answer.Outcome != model.Unknown || o.Closed == 0 || len(h.Effects) != c.found {
				t.Errorf("%s, closed %d, effects %d, want unknown, closed, and %d\n%s", o.Answer.Outcome, o.Closed, len(h.Effects), c.found, h.Print())
			}
		})
	}
}
