package ci_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// machinePaths begin the folders of one machine. They are put together here, so that this file holds none.
func machinePaths() []string {
	var all []string
	for _, folder := range []string{"work", "root", "home", "Users"} {
		all = append(all, "/"+folder+"/")
	}
	return all
}

// TestNoTrackedFileNamesAFolderOfOneMachine also looks into what is new and not ignored: it is tracked next.
func TestNoTrackedFileNamesAFolderOfOneMachine(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git cannot list the tracked files here (%v): this is no clone, or git is not installed", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(names) < 10 {
		t.Fatalf("git lists %d files: nothing was checked", len(names))
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for _, found := range pathsIn(text) {
			t.Errorf("%s: %s", name, found)
		}
	}
}

func TestAMachinePathIsSeenWhereItIs(t *testing.T) {
	for text, want := range map[string]int{
		"cd " + "/" + "work/main":                      1,
		"at " + "/" + "root/go, and " + "/" + "home/x": 2,
		"docs/work/of.md and network/work/x":           0,
		"https://example.com/home/page":                0,
		"":                                             0,
	} {
		if found := pathsIn([]byte(text)); len(found) != want {
			t.Errorf("%q: found %q, want %d", text, found, want)
		}
	}
}

// pathsIn finds machine paths that stand at the begin of a path: not after a letter, a digit or a dot, which make
// them the middle of a longer one.
func pathsIn(text []byte) (found []string) {
	for _, p := range machinePaths() {
		for at := 0; ; {
			i := bytes.Index(text[at:], []byte(p))
			if i < 0 {
				break
			}
			at += i
			if at == 0 || !inPath(text[at-1]) {
				line := bytes.Count(text[:at], []byte("\n")) + 1
				end := min(len(text), at+40)
				found = append(found, string(bytes.Fields(text[at:end])[0])+" in line "+strconv.Itoa(line))
			}
			at += len(p)
		}
	}
	return found
}

func inPath(c byte) bool {
	return c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
