package redisttl

import (
	"sync"
	"time"
)

// claims remembers which claims were made through a Store, by key.
type claims struct {
	mu      sync.Mutex
	held    map[string]held
	sweepAt int
}

// held is a claim. began and until are of this process's clock, and decide about nothing but which of two claims of
// one key is the later one, and when a claim is so long over that it need not be remembered.
type held struct {
	token        string
	began, until time.Time
}

const (
	sweepAtLeast = 1024
	overSince    = time.Hour // bounds what a server's clock may run behind
)

// remember keeps a claim that was asked for at began, unless a later one is kept.
func (c *claims) remember(key, token string, began time.Time, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began.Before(c.held[key].began) {
		return
	}
	c.held[key] = held{token, began, began.Add(lease).Add(overSince)}
	if len(c.held) < max(c.sweepAt, sweepAtLeast) {
		return
	}
	for k, h := range c.held {
		if h.until.Before(began) {
			delete(c.held, k)
		}
	}
	c.sweepAt = 2 * len(c.held)
}

// prolong keeps a claim in mind for another lease from now.
func (c *claims) prolong(key, token string, now time.Time, lease time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[key]; h.token == token {
		if until := now.Add(lease).Add(overSince); h.until.Before(until) {
			h.until = until
			c.held[key] = h
		}
	}
}

// token answers the claim of a key, or nothing.
func (c *claims) token(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[key].token
}

// forget drops a claim that is over, unless another one has taken its place.
func (c *claims) forget(key, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[key].token == token {
		delete(c.held, key)
	}
}
