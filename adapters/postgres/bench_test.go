package postgres_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/postgres"
)

// BenchmarkBeginComplete measures pairs of claim and completion on fresh messages, on a warm handle, and reports
// pairs per second. Compare with the very same statements under pgbench in the same minute; the script says how.
func BenchmarkBeginComplete(b *testing.B) {
	for _, server := range []*sharedServer{relaxed, durable} {
		fsync := map[bool]string{false: "off", true: "on"}[server.fsync]
		b.Run("fsync="+fsync, func(b *testing.B) {
			hasFsync(b, server, fsync)
			for _, clients := range []int{1, 8} {
				b.Run("clients="+strconv.Itoa(clients), func(b *testing.B) { benchPairs(b, server, clients) })
			}
		})
	}
}

// hasFsync skips on a server that was lent with the other setting: its figures must not come under a wrong name.
func hasFsync(b *testing.B, server *sharedServer, want string) {
	b.Helper()
	server.Need(b)
	var has string
	must(b, server.raw.QueryRow(b.Context(), "show fsync").Scan(&has))
	if has != want {
		b.Skipf("the server runs with fsync %s", has)
	}
}

func benchPairs(b *testing.B, server *sharedServer, clients int) {
	namespace, dsn, ctx := server.namespace(b), server.Need(b).DSN(), b.Context()
	s, err := postgres.Open(ctx, dsn, postgres.OpenOptions{Options: postgres.Options{Schema: namespace}, Conns: clients})
	must(b, err)
	defer s.Close()
	must(b, s.Warm(ctx))
	var next atomic.Int64
	var failures atomic.Pointer[error]
	var workers sync.WaitGroup
	b.ResetTimer()
	for range clients {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				id := strconv.FormatInt(rand.Int64N(9e18), 10)
				_, _, err := s.Begin(ctx, "bench", id, t0, time.Minute)
				if err == nil {
					err = s.Complete(ctx, "bench", id, t0)
				}
				if err != nil {
					failures.Store(&err)
					return
				}
			}
		})
	}
	workers.Wait()
	b.StopTimer()
	if err := failures.Load(); err != nil {
		b.Fatal(*err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// The comparison is only worth something while both sides run the same statements.
func TestThePgbenchScriptRunsTheStoresStatements(t *testing.T) {
	text, err := os.ReadFile("testdata/begin_complete.pgbench")
	must(t, err)
	var script []string
	for _, statement := range strings.Split(uncommented(string(text)), ";") {
		if statement = normal(statement); statement != "" {
			script = append(script, statement)
		}
	}
	variables := strings.NewReplacer("$1", ":consumer", "$2", ":id", "$3", ":now", "$4", ":until", "$5::text", "null::text")
	reread := strings.NewReplacer("$1", ":consumer", "$2", ":id", "$3", ":now", "$4::text", "null::text")
	for i, statement := range postgres.PairStatements(postgres.Options{}) {
		names := variables
		if i == 2 {
			names = reread
		}
		if want := normal(names.Replace(statement)); i >= len(script) || script[i] != want {
			t.Fatalf("statement %d of the script is not\n%s", i, want)
		}
	}
}

// uncommented drops pgbench's own lines: comments and meta commands.
func uncommented(script string) string {
	var kept []string
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, `\`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func normal(statement string) string {
	return strings.TrimSpace(regexp.MustCompile(`\s+`).ReplaceAllString(statement, " "))
}
