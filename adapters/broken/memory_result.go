package broken

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

// The flaws of a store that keeps a result beside DONE.
const (
	ResultIsText   Flaw = "result-is-text"    // bytes that are no UTF-8 are replaced
	ResultCut      Flaw = "result-cut"        // a column that ends at 64 KiB
	ResultNotKept  Flaw = "result-not-kept"   // "0", "null" and the like read as no result
	NoResultNoDone Flaw = "no-result-no-done" // no result reads as not done
)

// columnEnds is where the column of ResultCut ends.
const columnEnds = 64 << 10

// CompleteResult completes by claim and keeps the result.
func (m *Memory) CompleteResult(_ context.Context, consumer, id string, claim model.Record, now time.Time, result []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(consumer, id)
	r := m.rows[key]
	if err := m.fence(r, claim); err != nil {
		return err
	}
	if r.state != model.Done {
		r.result, r.keeps = m.kept(result), true
	}
	m.done(key, r, now)
	return nil
}

// kept is what of a result comes back: a copy.
func (m *Memory) kept(result []byte) []byte {
	switch {
	case m.flaw == ResultIsText:
		return []byte(strings.ToValidUTF8(string(result), "\ufffd"))
	case m.flaw == ResultCut:
		result = result[:min(len(result), columnEnds)]
	case m.flaw == ResultNotKept && slices.Contains([]string{"0", "null"}, string(result)):
		return nil
	}
	return slices.Clone(result)
}

// without says whether a record is taken for one that is not done, having no result.
func (m *Memory) without(r *row) bool {
	return m.flaw == NoResultNoDone && r.keeps && len(r.result) == 0
}
