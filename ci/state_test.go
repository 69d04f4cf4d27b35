package ci_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const root = ".."

// allowedState lists the package-level variables that are neither an error value, nor an embedded file, nor an
// assertion, by folder and name, with the reason why each may be there. None is ever written to, and the test holds
// them to it.
func allowedState() map[string]string {
	const (
		table   = "a table, read alone"
		instant = "Go has no constants of type time.Time"
		script  = "a script, hashed once"
	)
	return map[string]string{
		"model.invariants":               table,
		"model.markNames":                table,
		"model.shapes":                   table,
		"model.anytime":                  "a pair of constants; Go has no constants of a struct type",
		"scenarios.epoch":                instant,
		"scenarios.planSeed":             "the seed of a hash that never leaves the process: plans are compared with it",
		"adapters/postgres.firstInstant": instant,
		"adapters/postgres.endOfTime":    instant,
		"adapters/broken.beginScript":    script,
		"adapters/broken.completeScript": script,
		"adapters/broken.pruneScript":    script,
		"adapters/broken.releaseScript":  script,
		"adapters/broken.ttlScript":      script,
		"adapters/broken.bookScript":     script,
	}
}

type source struct {
	name   string // from the root, with slashes
	test   bool
	syntax *ast.File
}

func TestNoPackageKeepsState(t *testing.T) {
	found, used := stateOf(sources(t), allowedState())
	for _, f := range found {
		t.Error(f)
	}
	for name := range allowedState() {
		if !used[name] {
			t.Errorf("allowedState lists %s, which is not there any more", name)
		}
	}
}

func TestStateIsSeenWhereItIs(t *testing.T) {
	for text, want := range map[string]int{
		`var count int`:                                                1,
		`var cache = map[string]int{}`:                                 1,
		`var a, b = 1, 2`:                                              2,
		`func init() { println() }`:                                    1,
		`var errLate = load()`:                                         1,
		`var late = errors.New("late")`:                                1,
		`var table = [2]int{1, 2}`:                                     0,
		`var table = [2]int{}; func f() { table[0] = 1 }`:              1,
		`var table = [2]int{}; func f() { table = [2]int{} }`:          1,
		`var table = [2]int{}; func f() { g(&table) }`:                 1,
		`var table = [2]int{}; func f() { table[1]++ }`:                1,
		`var errLate = errors.New("late")`:                             0,
		`var ErrLate = fmt.Errorf("late: %w", e)`:                      0,
		`var errLate = errors.New("late"); func f() { errLate = nil }`: 1,
		`var _ fmt.Stringer = (*thing)(nil)`:                           0,
		"//go:embed a.lua\nvar script string":                          0,
		"var (\n//go:embed a.lua\nscript string\n)":                    0,
		`func f() { var count int; _ = count }`:                        0,
		`type thing struct{}; func (thing) init() {}`:                  0,
	} {
		syntax, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		found, _ := stateOf([]source{{name: "p/p.go", syntax: syntax}}, map[string]string{"p.table": "a table"})
		if len(found) != want {
			t.Errorf("%s\nfound %q, want %d of them", text, found, want)
		}
	}
}

// stateOf finds init functions, package-level variables that are not allowed, and writes to those that are. Files of
// tests may keep what they share, and may not have an init either.
func stateOf(files []source, allow map[string]string) (found []string, used map[string]bool) {
	used = map[string]bool{}
	kept := map[string]bool{} // allowed ones of all kinds, by folder and name
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					found = append(found, f.name+": func init: what it does belongs where it is asked for")
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR || f.test {
					continue
				}
				for _, s := range d.Specs {
					spec := s.(*ast.ValueSpec)
					for i, n := range spec.Names {
						key := path.Dir(f.name) + "." + n.Name
						_, listed := allow[key]
						if listed {
							used[key] = true
						}
						if listed || embedded(d, spec) || isError(spec, i) {
							kept[key] = true
						} else if n.Name != "_" {
							found = append(found, fmt.Sprintf("%s: var %s: package-level state", f.name, n.Name))
						}
					}
				}
			}
		}
	}
	for _, f := range files {
		if !f.test {
			found = append(found, writes(f, kept)...)
		}
	}
	return found, used
}

func embedded(d *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{d.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// isError: named as one, and made by errors.New or fmt.Errorf.
func isError(spec *ast.ValueSpec, i int) bool {
	name := spec.Names[i].Name
	if !strings.HasPrefix(name, "err") && !strings.HasPrefix(name, "Err") || i >= len(spec.Values) {
		return false
	}
	call, ok := spec.Values[i].(*ast.CallExpr)
	if !ok {
		return false
	}
	made, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := made.X.(*ast.Ident)
	return ok && (from.Name == "errors" && made.Sel.Name == "New" || from.Name == "fmt" && made.Sel.Name == "Errorf")
}

// writes finds assignments to a kept variable, or to a part of it, and where its address is taken. It goes by names:
// a local of the same name that is assigned to is reported too, and wants another name.
func writes(f source, kept map[string]bool) (found []string) {
	check := func(e ast.Expr, what string) {
		if name := rootOf(e); kept[path.Dir(f.name)+"."+name] {
			found = append(found, fmt.Sprintf("%s: var %s: %s", f.name, name, what))
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if n.Tok != token.DEFINE {
					check(e, "is assigned to")
				}
			}
		case *ast.IncDecStmt:
			check(n.X, "is assigned to")
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				check(n.X, "has its address taken")
			}
		}
		return true
	})
	return found
}

func rootOf(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return ""
		}
	}
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		all = append(all, source{filepath.ToSlash(relative), strings.HasSuffix(name, "_test.go"), syntax})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
