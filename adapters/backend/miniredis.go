package backend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// imitatedRedis starts miniredis. Its clock stands still and moves by Advance alone, for TIME and for what
// expires alike: of itself miniredis lets TIME run and TTLs stand, and a store that looks at both would see two
// clocks.
func imitatedRedis(reason string) (*Server, error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("backend: miniredis: start: %w", err)
	}
	var mu sync.Mutex
	now := time.Now()
	m.SetTime(now)
	return &Server{
		Name: NameRedis, Kind: KindMiniredis, Addr: m.Addr(), dsn: "redis://" + m.Addr() + "/0",
		Description: fmt.Sprintf("miniredis in process at %s, no real Redis (%s)", m.Addr(), reason),
		Advance: func(_ context.Context, d time.Duration) error {
			if d < 0 {
				return fmt.Errorf("backend: miniredis: advance by %v: the clock only moves forward", d)
			}
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(d)
			m.SetTime(now)
			m.FastForward(d)
			return nil
		},
		close: func() error { m.Close(); return nil },
	}, nil
}

// Miniredis starts an imitated Redis in this process, whatever else there is: its clock moves by Advance alone. It is
// a convenience, and never the evidence that a store works on Redis.
func Miniredis(_ context.Context) (*Server, error) { return imitatedRedis("asked for") }
