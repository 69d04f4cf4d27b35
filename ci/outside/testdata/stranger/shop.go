package dedup

import (
	"context"
	"sync"
	"time"
)

// Booking is what a message comes to: money on an account.
type Booking struct {
	ID, Account string
	Amount      int64
	Shop, Order string
}

// Database is the shop's: its bookings, and which orders were booked.
type Database struct {
	mu       sync.Mutex
	done     map[key]time.Time
	Bookings []Booking
}

func NewDatabase() *Database { return &Database{done: map[key]time.Time{}} }

// Book writes the mark and the booking in one transaction; false: the order was booked before.
func (d *Database) Book(_ context.Context, shop, order string, now time.Time, b Booking) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, booked := d.done[key{shop, order}]; booked {
		return false, nil
	}
	d.done[key{shop, order}] = now
	d.Bookings = append(d.Bookings, b)
	return true, nil
}

// Prune forgets the orders that were booked before an instant.
func (d *Database) Prune(_ context.Context, before time.Time) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for k, at := range d.done {
		if at.Before(before) {
			delete(d.done, k)
			n++
		}
	}
	return n, nil
}

// Shop is a consumer of orders, one an instance of the service.
type Shop struct {
	DB  *Database
	Now func() time.Time
}

// Handle is what the broker's client calls; false: it is a duplicate.
func (s *Shop) Handle(ctx context.Context, shop, order string, b Booking) (bool, error) {
	return s.DB.Book(ctx, shop, order, s.Now(), b)
}
