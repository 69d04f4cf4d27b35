package redisttl

import (
	"fmt"
	"os"
	"testing"

	"github.com/effectonce/effectonce/adapters/backend"
)

// realRedis is started by the first test that asks, and shared by all. Miniredis has its own turn in these tests, and
// is no answer here.
var realRedis = backend.Share(backend.RealRedis)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := realRedis.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
