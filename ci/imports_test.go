package ci_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/effectonce/effectonce"

// listed is what go list says of one package, its test files left out.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// room is one row of the import table: which packages outside the standard library a package may import by itself.
// An entry that ends in "/..." stands for everything below it too.
type room struct {
	path string // below the module
	may  []string
}

func table() []room {
	const (
		pgx       = "github.com/jackc/pgx/v5/..."
		goRedis   = "github.com/redis/go-redis/v9/..."
		toxiproxy = "github.com/Shopify/toxiproxy/v2/..."
	)
	own := func(rooms ...string) []string {
		for i := range rooms {
			rooms[i] = module + "/" + rooms[i]
		}
		return rooms
	}
	return []room{
		{"model", nil},
		{"checker", append(own("model"), "github.com/anishathalye/porcupine")},
		// The protocol packages that bring no driver are named one by one.
		{"chaos/...", append(own("model", "chaos/..."), toxiproxy, "github.com/jackc/pgx/v5/pgproto3")},
		{"adapters", own("model")},
		{"adapters/memory", own("model")},
		{"adapters/template", nil}, // a copy of it imports what its own store needs, and that is nothing
		{"adapters/consume", own("model")},
		{"adapters/postgres", append(own("model"), pgx)},
		{"adapters/redis", append(own("model"), goRedis)},
		{"adapters/redisttl", append(own("model", "adapters/redis"), goRedis)},
		{"adapters/backend/...", append(own("adapters/backend"), pgx, goRedis, "github.com/alicebob/miniredis/v2", "github.com/testcontainers/...")},
		{"adapters/broken/...", append(own("model", "adapters", "adapters/broken/..."), pgx, goRedis)},
		{"scenarios", append(own("model", "checker", "chaos/...", "adapters"), "pgregory.net/rapid")},
		{"ci/...", own("model", "checker", "ci/...")},
	}
}

// drivers are what a user who plugs in a store must not be made to compile.
func drivers() []string {
	return []string{
		"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgxpool",
		"github.com/redis/...", "github.com/alicebob/...", "github.com/testcontainers/...", "github.com/docker/...",
	}
}

func TestEachRoomImportsOnlyWhatItsRowAllows(t *testing.T) {
	packages := list(t)
	for path, p := range packages {
		if !inModule(path) {
			continue
		}
		if err := allowed(p, packages, table()); err != nil {
			t.Error(err)
		}
	}
	if packages[module+"/scenarios"].ImportPath == "" {
		t.Error("go list does not know scenarios: nothing was checked")
	}
}

func TestTheTableRefusesAStrangeImportAndAStrangeRoom(t *testing.T) {
	std := map[string]listed{"fmt": {ImportPath: "fmt", Standard: true}}
	for _, c := range []struct {
		p    listed
		want string
	}{
		{listed{ImportPath: module + "/model", Imports: []string{"fmt"}}, ""},
		{listed{ImportPath: module + "/model", Imports: []string{module + "/checker"}}, "imports"},
		{listed{ImportPath: module + "/checker", Imports: []string{module + "/chaos"}}, "imports"},
		{listed{ImportPath: module + "/scenarios", Imports: []string{module + "/adapters/memory"}}, "imports"},
		{listed{ImportPath: module + "/chaos", Imports: []string{"github.com/jackc/pgx/v5/pgconn"}}, "imports"},
		{listed{ImportPath: module + "/cellar"}, "no row"},
	} {
		err := allowed(c.p, std, table())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s importing %v: %v, want %q", c.p.ImportPath, c.p.Imports, err, c.want)
		}
	}
}

func TestWhoPlugsInAStoreCompilesNoDriver(t *testing.T) {
	packages := list(t)
	for _, room := range []string{"model", "checker", "chaos", "adapters", "scenarios"} {
		p := packages[module+"/"+room]
		if len(p.Deps) == 0 {
			t.Errorf("go list tells no dependencies of %s", room)
		}
		for _, d := range p.Deps {
			if slices.ContainsFunc(drivers(), func(pattern string) bool { return matches(pattern, d) }) {
				t.Errorf("%s depends on %s", room, d)
			}
		}
	}
	if !slices.Contains(packages[module+"/adapters/postgres"].Deps, "github.com/jackc/pgx/v5") {
		t.Error("adapters/postgres is not seen to depend on pgx: this test would see nothing")
	}
}

func TestOnlyScenariosKnowsTesting(t *testing.T) {
	for path, p := range list(t) {
		if !inModule(path) || path == module+"/scenarios" {
			continue
		}
		for _, i := range p.Imports {
			if i == "testing" || strings.HasPrefix(i, "testing/") {
				t.Errorf("%s imports %s outside its tests", path, i)
			}
		}
	}
}

func TestToxiproxyStaysBehindOneFile(t *testing.T) {
	var behind []string
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, i := range f.syntax.Imports {
			if strings.HasPrefix(i.Path.Value, `"github.com/Shopify/toxiproxy`) {
				behind = append(behind, f.name)
				break
			}
		}
	}
	if len(behind) != 1 || !strings.HasPrefix(behind[0], "chaos/") {
		t.Errorf("toxiproxy is imported by %v, want exactly one file of chaos", behind)
	}
}

func TestNothingShippedImportsTheZoo(t *testing.T) {
	zoo := module + "/adapters/broken"
	for path, p := range list(t) {
		if !inModule(path) || path == zoo || strings.HasPrefix(path, zoo+"/") {
			continue
		}
		if slices.ContainsFunc(p.Deps, func(d string) bool { return d == zoo || strings.HasPrefix(d, zoo+"/") }) {
			t.Errorf("%s depends on the zoo outside its tests", path)
		}
	}
}

func inModule(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func matches(pattern, path string) bool {
	if below, tree := strings.CutSuffix(pattern, "/..."); tree {
		return path == below || strings.HasPrefix(path, below+"/")
	}
	return path == pattern
}

// allowed holds one package to its row: the one that names it, else the longest tree it lies in.
func allowed(p listed, packages map[string]listed, rows []room) error {
	var row *room
	for i := range rows {
		if matches(module+"/"+rows[i].path, p.ImportPath) && (row == nil || len(rows[i].path) > len(row.path)) {
			row = &rows[i]
		}
	}
	if row == nil {
		return fmt.Errorf("%s has no row in the import table", p.ImportPath)
	}
	var err error
	for _, i := range p.Imports {
		if packages[i].Standard || slices.ContainsFunc(row.may, func(pattern string) bool { return matches(pattern, i) }) {
			continue
		}
		err = errors.Join(err, fmt.Errorf("%s imports %s, which its row in the import table does not allow", p.ImportPath, i))
	}
	return err
}

func list(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	cmd.Dir = root
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaints.String())
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}
