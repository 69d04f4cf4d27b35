package redis

import (
	"context"
	"errors"
	"fmt"
	"net"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

// ErrRetries refuses a client that repeats a command by itself. A reply that is lost after the script ran makes the
// repeated Begin answer "not claimed" to the very caller that owns the claim, without an error.
var ErrRetries = errors.New("the client retries commands, so a lost reply would make the repeated call " +
	`answer "not claimed" to the owner of the claim: set MaxRetries to -1`)

// refusals are the answers by which a server says that it did not run a script, or stopped it before its first
// write: none of them can come after a write of the same script.
func refusals() []string {
	return []string{
		"NOSCRIPT", "LOADING", "BUSY", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN",
		"CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "NOAUTH", "WRONGPASS",
	}
}

func refused(op, why string) error {
	return fmt.Errorf("redis: %s: %s: %w", op, why, model.ErrRefused)
}

func named(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis: %s: %w", op, err)
}

func alive(ctx context.Context, op string) error {
	return model.NoEffect(named(op, ctx.Err()))
}

// failed names an error and adds the proof that nothing changed, where there is one.
func failed(op string, err error) error {
	if neverSent(err) {
		return model.NoEffect(named(op, err))
	}
	return named(op, err)
}

func neverSent(err error) bool {
	var dialed *dialError // from Open
	if errors.As(err, &dialed) {
		return true
	}
	var netErr *net.OpError // from a client given to New
	if errors.As(err, &netErr) && netErr.Op == "dial" {
		return true
	}
	// These three come from the pool, before a command has a connection to go out on.
	if errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) || errors.Is(err, goredis.ErrClosed) {
		return true
	}
	for _, prefix := range refusals() {
		if goredis.HasErrorPrefix(err, prefix+" ") {
			return true
		}
	}
	return false
}
