package broken_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/scenarios"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(postgresServer.Close(), redisServer.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The servers, each started by the first test that asks for it, and shared by all.
var (
	postgresServer = backend.Share(backend.Postgres)
	redisServer    = backend.Share(backend.Redis)
)

// brief is the budget of what should pass: the many that should not need the time.
var brief = scenarios.Budget(4 * time.Second)
