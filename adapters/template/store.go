// Package template is a folder to copy: a message-dedup store in the shape that most teams have, and its whole test.
//
//  1. Copy the folder into your module, which requires github.com/effectonce/effectonce (the README says how), and
//     change the package's name in both files. Nothing else names it.
//  2. Run go mod tidy, then go test -race . in it. It passes.
//  3. Make the edit that Complete describes, behind "TO SEE IT FAIL", and run the test again. It prints a history that
//     nothing explains, and the command that replays it. Take the edit back.
//  4. Put your own store in the place of this file. In store_test.go, let Open make it, record translate your record,
//     and the Contract state what is true of it.
//
// The store is right, and forgets everything with the process. It is here to be replaced: adapters/memory is one that
// can be used.
package template

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Row is a record as this store keeps it. The suite never sees it: record, in the test, translates it.
type Row struct {
	Status  Status
	Tries   int
	Until   time.Time // the end of the lease; zero for a message that is done
	Changed time.Time
}

// Status is what a message has come to.
type Status int

// The statuses. A message without a row has none.
const (
	Unknown Status = iota
	InWork
	Done
)

// key is a pair, never a joined string: "a:b" with "c" is another message than "a" with "b:c".
type key struct{ consumer, messageID string }

// Store is a table behind a mutex, which makes each call atomic. On a server a transaction or a script does that.
type Store struct {
	mu   sync.Mutex
	rows map[key]Row
}

// New makes an empty store.
func New() *Store { return &Store{rows: map[key]Row{}} }

// Begin claims a message until now+lease, and answers its row and whether the caller has it now. Nobody has it while
// it is done, or in work within a lease; at the very end of the lease it can be claimed again.
func (s *Store) Begin(_ context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Row, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{consumer, messageID}
	row := s.rows[k]
	if row.Status == Done || row.Status == InWork && now.Before(row.Until) {
		return row, false, nil
	}
	row = Row{Status: InWork, Tries: row.Tries + 1, Until: now.Add(lease), Changed: now}
	s.rows[k] = row
	return row, true, nil
}

// Complete makes a message done, so that a redelivery is refused until Prune forgets it.
func (s *Store) Complete(_ context.Context, consumer, messageID string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{consumer, messageID}
	if _, known := s.rows[k]; !known {
		return fmt.Errorf("template: complete: no message %q of %q", messageID, consumer)
	}
	s.rows[k] = Row{Status: Done, Tries: s.rows[k].Tries, Changed: now}
	// TO SEE IT FAIL, with DoneStaysDone, put this in the place of the line above: delete(s.rows, k)
	return nil
}

// Prune forgets what was done before an instant, and answers how many that were. What is in work stays, however old.
func (s *Store) Prune(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	forgotten := 0
	for k, row := range s.rows {
		if row.Status == Done && row.Changed.Before(before) {
			delete(s.rows, k)
			forgotten++
		}
	}
	return forgotten, nil
}
