package scenarios_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/scenarios"
)

// The flags exist in this test binary alone, each the twin of an environment variable.
func TestMain(m *testing.M) {
	values := map[string]*string{}
	for _, s := range scenarios.Settings() {
		values[s.Name] = flag.String("effectonce."+strings.ToLower(s.Name), "", s.Help)
	}
	flag.Parse()
	for name, value := range values {
		if *value != "" {
			os.Setenv("EFFECTONCE_"+name, *value)
		}
	}
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
