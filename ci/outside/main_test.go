package outside_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/effectonce/effectonce/adapters/backend"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgresServer.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// postgresServer is started by the first test that asks for it.
var postgresServer = backend.Share(backend.Postgres)
