// Package broken is the zoo: stores with one flaw each, of the kinds that teams have shipped. A kit that claims to
// find such bugs has to find these. Beside each flaw stands its nearest right relative, which must not be accused.
//
// Nothing outside of tests imports this package, and no part of the kit knows a flaw by name.
package broken

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Flaw is what is wrong with a [Memory]. The zero Flaw is nothing: the right relative.
type Flaw string

// The flaws, each one line away from right.
const (
	None                Flaw = ""
	DoneForgotten       Flaw = "done-forgotten"         // completing deletes the record
	PruneTakesClaims    Flaw = "prune-takes-claims"     // prune goes by age alone
	PruneByClaimTime    Flaw = "prune-by-claim-time"    // the window is counted from the claim
	NeverPruned         Flaw = "never-pruned"           // prune looks for a state that nobody writes
	LeaseOfTheWindow    Flaw = "lease-of-the-window"    // one TTL for claim and record
	LeaseOfAMillisecond Flaw = "lease-of-a-millisecond" // the unit of the lease is off by a thousand
	TakeoverTooLate     Flaw = "takeover-too-late"      // > where >= belongs
	TakeoverTooEarly    Flaw = "takeover-too-early"     // whole seconds, rounded down
	AttemptsNotCounted  Flaw = "attempts-not-counted"   // a takeover starts again at 1
	DoneTakenOver       Flaw = "done-taken-over"        // the lease outlives completion
	LateOwnerAccepted   Flaw = "late-owner-accepted"    // completion by key, claim ignored
	FencedByAttempts    Flaw = "fenced-by-attempts"     // the token starts again after prune
	KeysJoined          Flaw = "keys-joined"            // consumer and id joined by a separator
	KeysFolded          Flaw = "keys-folded"            // upper and lower case are one
	KeysCut             Flaw = "keys-cut"               // ids are cut to the column's width
	ClaimsAlways        Flaw = "claims-always"          // the default that says yes
	EffectTwice         Flaw = "effect-twice"           // the effect is written before its claim is checked
	WallTime            Flaw = "wall-time"              // instants are kept without their zone
	ChecksThenActs      Flaw = "checks-then-acts"       // looks a message up, and claims it in a second step
	ChecksThenLocks     Flaw = "checks-then-locks"      // the same, and the gap is a few nanoseconds
	TakesOverBlindly    Flaw = "takes-over-blindly"     // judges a snapshot, and overwrites what came since
	LocksTwice          Flaw = "locks-twice"            // the error path takes the lock that it holds
	MachineClock        Flaw = "machine-clock"          // the machine's clock judges the caller's lease
	PruneAtTheCutOff    Flaw = "prune-at-the-cut-off"   // <= where < belongs
	PruneTakesTheDead   Flaw = "prune-takes-the-dead"   // prune goes by "not PROCESSING"
	PruneCountsAll      Flaw = "prune-counts-all"       // the count is of what was looked at
	MarkOutlivesRecord  Flaw = "mark-outlives-record"   // prune clears one of two structures
	ReadsFromCache      Flaw = "reads-from-cache"       // what was read once is read so for ever
	DoneFromCache       Flaw = "done-from-cache"        // what was read as DONE once is read so for ever
	LeaseByTheWall      Flaw = "lease-by-the-wall"      // the lease is added to a city's wall time
)

// Memory is a home-made store in process, of the common make: a map and a mutex. Its zero value is not ready; see
// NewMemory. It is safe for concurrent use.
type Memory struct {
	// PruneLimit is how many records one Prune removes at most; zero: all. Set it before the first call.
	PruneLimit int

	flaw    Flaw
	mu      sync.Mutex
	rows    map[string]*row
	last    int // token of the latest claim
	applied []model.Applied

	marks map[string]model.Record // what is DONE, for the flaw that keeps it twice
	cache map[string]model.Record // what Lookup has read, for the flaw that trusts it
	city  *time.Location          // where the flaw with a wall clock lives
}

type row struct {
	state          model.State
	attempts       int
	token          string
	claimed, until time.Time
	updated        time.Time

	nonce    string // of the delivery that claimed, if it said so
	released bool
	reason   string
	result   []byte
	keeps    bool // it was completed with a result, if an empty one
}

// NewMemory makes a store with one flaw, or none.
func NewMemory(flaw Flaw) *Memory {
	m := &Memory{flaw: flaw, rows: map[string]*row{}, marks: map[string]model.Record{}, cache: map[string]model.Record{}, city: time.UTC}
	if flaw == LeaseByTheWall {
		if city, err := time.LoadLocation("Europe/Berlin"); err == nil {
			m.city = city
		}
	}
	return m
}

// Contract is what the store's maker believes of it.
func (m *Memory) Contract() model.Contract { return model.Contract{} }

func (m *Memory) key(consumer, id string) string {
	switch m.flaw {
	case KeysJoined:
		return consumer + ":" + id
	case KeysFolded:
		id = strings.ToLower(id)
	case KeysCut:
		id = id[:min(len(id), 255)]
	}
	return strconv.Itoa(len(consumer)) + ":" + consumer + id
}

func (m *Memory) lease(now time.Time, lease time.Duration) time.Time {
	switch m.flaw {
	case LeaseOfTheWindow:
		lease = model.DefaultWindow
	case LeaseOfAMillisecond:
		lease /= 1000
	case LeaseByTheWall:
		const layout = "2006-01-02 15:04:05.999999999"
		wall, _ := time.Parse(layout, now.In(m.city).Format(layout))
		until, _ := time.ParseInLocation(layout, wall.Add(lease).Format(layout), m.city)
		return until
	}
	return now.Add(lease)
}

func (m *Memory) over(r *row, now time.Time) bool {
	switch m.flaw {
	case TakeoverTooLate:
		return now.After(r.until)
	case TakeoverTooEarly:
		return now.Unix() >= r.until.Unix()
	case WallTime:
		const layout = "2006-01-02 15:04:05.999999999"
		until, _ := time.Parse(layout, r.until.Format(layout)) // as a column without zone gives it back
		wall, _ := time.Parse(layout, now.Format(layout))
		return !wall.Before(until)
	case MachineClock:
		return !time.Now().Before(r.until)
	}
	return !now.Before(r.until)
}

// Begin claims.
func (m *Memory) Begin(_ context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	return m.begin(consumer, id, "", now, lease)
}

func (m *Memory) begin(consumer, id, nonce string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(consumer, id)
	r := m.rows[key]
	if m.flaw == ChecksThenActs || m.flaw == ChecksThenLocks || m.flaw == TakesOverBlindly && r != nil && r.state == model.Processing && m.over(r, now) {
		if r != nil {
			snapshot := *r
			r = &snapshot
		}
		m.mu.Unlock() // here others come in between
		if m.flaw != ChecksThenLocks {
			runtime.Gosched()
		}
		m.mu.Lock()
		if r != nil {
			m.rows[key] = r
		}
	}
	switch {
	case r == nil && m.marks[key].State == model.Done:
		return m.marks[key], false, nil
	case r == nil:
		r = &row{attempts: 1}
		m.rows[key] = r
	case m.flaw == ClaimsAlways:
	case r.state == model.Done && !(m.flaw == DoneTakenOver && m.over(r, now)) && !m.without(r):
		return r.record(), false, nil
	case r.state == model.Dead && m.flaw != BuriedTakenOver:
		return r.record(), false, nil
	case r.state == model.Processing && !m.over(r, now):
		return r.record(), m.asks(r, nonce), nil
	case m.flaw != AttemptsNotCounted:
		r.attempts++
	}
	m.last++
	r.state, r.token = model.Processing, strconv.Itoa(m.last)
	if m.flaw == FencedByAttempts {
		r.token = strconv.Itoa(r.attempts)
	}
	r.claimed, r.updated, r.until = now, now, m.lease(now, lease)
	r.nonce, r.released, r.reason, r.result, r.keeps = nonce, false, "", nil, false
	return r.record(), true, nil
}

var errUnknownMessage = errors.New("unknown message")

// Complete completes by key.
func (m *Memory) Complete(_ context.Context, consumer, id string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(consumer, id)
	r := m.rows[key]
	if r == nil {
		if m.flaw == LocksTwice {
			m.mu.Lock()
		}
		return errUnknownMessage
	}
	if r.state == model.Dead {
		return model.ErrFenced
	}
	m.done(key, r, now)
	return nil
}

func (m *Memory) done(key string, r *row, now time.Time) {
	if m.flaw == DoneForgotten {
		delete(m.rows, key)
		return
	}
	if r.state != model.Done {
		r.state, r.updated = model.Done, now
	}
	if m.flaw == MarkOutlivesRecord {
		m.marks[key] = r.record()
	}
}

// CompleteClaim completes by claim.
func (m *Memory) CompleteClaim(_ context.Context, consumer, id string, claim model.Record, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(consumer, id)
	r := m.rows[key]
	if err := m.fence(r, claim); err != nil {
		return err
	}
	m.done(key, r, now)
	return nil
}

func (m *Memory) fence(r *row, claim model.Record) error {
	switch {
	case r == nil:
		return model.ErrNotFound
	case m.flaw == LateOwnerAccepted:
		return nil
	case r.token != claim.Token, r.state == model.Dead:
		return model.ErrFenced
	}
	return nil
}

// CommitEffect writes the effect together with DONE.
func (m *Memory) CommitEffect(_ context.Context, consumer, id string, claim model.Record, now time.Time, effect model.Effect) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(consumer, id)
	r := m.rows[key]
	write := func() {
		m.applied = append(m.applied, model.Applied{Consumer: consumer, MessageID: id, Effect: effect})
	}
	if m.flaw == EffectTwice {
		write()
		if err := m.fence(r, claim); err != nil {
			return err
		}
		m.done(key, r, now)
		return nil
	}
	if err := m.fence(r, claim); err != nil {
		return err
	}
	if r.state != model.Done {
		write()
	}
	m.done(key, r, now)
	return nil
}

// Prune forgets.
func (m *Memory) Prune(_ context.Context, before time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	removed := 0
	if m.flaw == PruneCountsAll {
		removed = len(m.rows)
	}
	for key, r := range m.rows {
		old := r.state == model.Done && r.updated.Before(before)
		switch m.flaw {
		case PruneTakesClaims:
			old = r.updated.Before(before)
		case PruneByClaimTime:
			old = r.state == model.Done && r.claimed.Before(before)
		case NeverPruned:
			old = r.state == "COMPLETED"
		case PruneAtTheCutOff:
			old = r.state == model.Done && !r.updated.After(before)
		case PruneTakesTheDead:
			old = r.state != model.Processing && r.updated.Before(before)
		}
		if old && (m.PruneLimit == 0 || removed < m.PruneLimit) {
			delete(m.rows, key)
			removed++
		}
	}
	return removed, nil
}

// Lookup reads.
func (m *Memory) Lookup(_ context.Context, consumer, id string) (model.Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(consumer, id)
	if told, cached := m.cache[key]; cached {
		return told, true, nil
	}
	r := m.rows[key]
	if r == nil {
		return model.Record{}, false, nil
	}
	if m.flaw == ReadsFromCache || m.flaw == DoneFromCache && r.state == model.Done {
		m.cache[key] = r.record()
	}
	return r.record(), true, nil
}

// Effects counts the effects.
func (m *Memory) Effects() []model.Applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]model.Applied(nil), m.applied...)
}

func (r *row) record() model.Record {
	told := model.Record{
		State: r.state, Attempts: r.attempts, UpdatedAt: r.updated, Token: r.token, Reason: r.reason, Result: r.result,
	}
	if r.state == model.Processing {
		told.LeaseUntil = r.until
	}
	return told
}
