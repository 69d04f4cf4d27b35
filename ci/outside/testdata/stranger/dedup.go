// Package dedup is a message-dedup store in memory.
package dedup

import (
	"context"
	"errors"
	"sync"
	"time"
)

type Record struct {
	State      string // PROCESSING or DONE
	Attempts   int
	LeaseUntil time.Time
	UpdatedAt  time.Time
}

type key struct{ consumer, messageID string }

type Store struct {
	mu      sync.Mutex
	records map[key]Record
}

func New() *Store { return &Store{records: map[key]Record{}} }

func (s *Store) Begin(_ context.Context, consumer, messageID string, now time.Time, lease time.Duration) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{consumer, messageID}
	r := s.records[k]
	if r.State == "DONE" || r.State == "PROCESSING" && now.Before(r.LeaseUntil) {
		return r, false, nil
	}
	r = Record{"PROCESSING", r.Attempts + 1, now.Add(lease), now}
	s.records[k] = r
	return r, true, nil
}

func (s *Store) Complete(_ context.Context, consumer, messageID string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{consumer, messageID}
	if _, known := s.records[k]; !known {
		return errors.New("dedup: unknown message")
	}
	s.records[k] = Record{"DONE", s.records[k].Attempts, time.Time{}, now}
	return nil
}

func (s *Store) Prune(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removed := 0
	for k, r := range s.records {
		if r.State == "DONE" && r.UpdatedAt.Before(before) {
			delete(s.records, k)
			removed++
		}
	}
	return removed, nil
}
