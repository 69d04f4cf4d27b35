package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests start this test binary again as a child that gets servers and ends in some way, and look at what is
// left of it.

const (
	childEnv = "EFFECTONCE_TEST_CHILD" // the way in which the child ends
	patience = 20 * time.Second
)

// sighting is what a child tells of one server.
type sighting struct {
	Folder   string
	Watchers []member
	Port     int
	Members  []member // the server and its descendants
}

// member is one process, by what anybody may read of it: its number may be given to another one later, but not with
// the same start.
type member struct {
	Pid   int
	Start string
}

func (m member) String() string { return strconv.Itoa(m.Pid) }

// memberOf looks a process up; one that is gone has no start, and neither has one that has given up its memory and
// with that does nothing any more: a zombie, or what will be one in a moment.
func memberOf(pid int) member {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return member{Pid: pid}
	}
	// The command's name is in parentheses and may hold some itself; behind it, the first field is the third.
	const startTime, memory = 22 - 3, 23 - 3
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= memory || fields[memory] == "0" {
		return member{Pid: pid}
	}
	return member{Pid: pid, Start: fields[startTime]}
}

func membersOf(pids ...int) []member {
	var found []member
	for _, pid := range pids {
		if m := memberOf(pid); m.Start != "" {
			found = append(found, m)
		}
	}
	return found
}

// alive tells whether this very process exists.
func (m member) alive() bool { return m.Start != "" && memberOf(m.Pid) == m }

func TestMain(m *testing.M) {
	switch how := os.Getenv(childEnv); how {
	case "":
	case "timeout":
		childServers() // before the clock of -test.timeout starts: a loaded machine may take long to start them
	default:
		child(how)
	}
	os.Exit(m.Run())
}

// child gets both servers, tells of them, and ends.
func child(how string) {
	pg, red := childServers()
	switch how {
	case "close":
		if err := errors.Join(pg.Close(), red.Close()); err != nil {
			panic(err)
		}
		os.Exit(0)
	case "exit":
		os.Exit(3)
	case "panic":
		go func() { panic("in another goroutine") }()
	case "faults":
		for _, s := range []*Server{pg, red} {
			for _, fault := range []func(context.Context) error{s.Pause, s.Resume, s.Kill, s.Restart} {
				if err := fault(context.Background()); err != nil {
					panic(err)
				}
			}
		}
		fmt.Println("done")
	case "pause":
		if err := errors.Join(pg.Pause(context.Background()), red.Pause(context.Background())); err != nil {
			panic(err)
		}
		fmt.Println("done")
	}
	select {} // until a signal
}

func childServers() (pg, red *Server) {
	pg, err := Postgres(context.Background(), Options{Force: KindProcess})
	if err != nil {
		panic(err)
	}
	red, err = Redis(context.Background(), Options{Force: KindProcess})
	if err != nil {
		panic(err)
	}
	line, err := json.Marshal([]sighting{see(pg), see(red)})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
	return pg, red
}

func see(s *Server) sighting {
	p := s.private
	return sighting{Folder: p.dir, Watchers: membersOf(p.watch.pids[:]...), Port: p.port, Members: running(p)}
}

// running are the server's processes, as Kill and Pause find them.
func running(p *process) []member {
	pids, err := p.members(context.Background())
	if err != nil {
		panic(err)
	}
	return membersOf(pids...)
}

// TestHang is the child that go test's own time-out ends.
func TestHang(t *testing.T) {
	if os.Getenv(childEnv) != "timeout" {
		t.Skip("it is run by TestNothingIsLeft as a child")
	}
	select {}
}

func needBoth(t *testing.T) {
	t.Helper()
	if findPostgres(Options{}.searchPath(), Options{}.debianPostgres()) == "" {
		t.Skip(postgresRemedy)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(redisRemedy)
	}
}

// tempParent is a folder for a child's temporary files that an unprivileged user may enter, unlike t.TempDir
// where somebody set a strict umask.
func tempParent(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(enterable(os.TempDir(), "/tmp"), "effectonce-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startChild(t *testing.T, start func(*exec.Cmd) error, how string, args ...string) (cmd *exec.Cmd, out *bufio.Reader, tmp string) {
	t.Helper()
	tmp = tempParent(t)
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+how, "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a job of its own, as a shell would start it
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // for a test that failed half way
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(pipe), tmp
}

// way is one way in which a program ends.
type way struct {
	how   string
	args  []string
	do    func(pid int) error
	start func(*exec.Cmd) error
}

func TestNothingIsLeft(t *testing.T) {
	needBoth(t)
	for _, end := range []way{
		{how: "close"},
		{how: "exit"},
		{how: "panic"},
		{how: "timeout", args: []string{"-test.run=^TestHang$", "-test.timeout=1s"}},
		{how: "SIGKILL", do: func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }},
		{how: "SIGTERM", do: func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }},
		// As Ctrl-C sends it: to the whole job.
		{how: "SIGINT", do: func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) }},
		// A paused server follows no request to stop; it has to be killed.
		{how: "pause", do: func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }},
	} {
		t.Run(end.how, func(t *testing.T) {
			t.Parallel()
			end.start = (*exec.Cmd).Start
			nothingIsLeft(t, end)
		})
	}
}

// Root in a container may kill a process of another user, but not see where it works: Docker takes CAP_SYS_PTRACE
// away.
func TestNothingIsLeftByARootThatMayNotTrace(t *testing.T) {
	needBoth(t)
	if os.Geteuid() != 0 {
		t.Skip("only root runs its servers as another user")
	}
	for _, end := range []way{
		{how: "SIGKILL", do: func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }},
		{how: "faults", do: func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }},
	} {
		t.Run(end.how, func(t *testing.T) {
			t.Parallel()
			end.start = startWithoutTracing
			nothingIsLeft(t, end)
		})
	}
}

// startWithoutTracing starts a program whose bounding set, and so whatever it starts, lacks CAP_SYS_PTRACE. A
// thread's set is inherited and never grows again, so the thread is given up: a goroutine that ends locked takes its
// thread along.
func startWithoutTracing(cmd *exec.Cmd) error {
	const capSysPtrace = 19
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_CAPBSET_DROP, capSysPtrace, 0); errno != 0 {
			started <- fmt.Errorf("drop CAP_SYS_PTRACE: %w", errno)
			return
		}
		started <- cmd.Start()
	}()
	return <-started
}

func nothingIsLeft(t *testing.T, end way) {
	t.Helper()
	cmd, out, tmp := startChild(t, end.start, end.how, end.args...)
	line, err := out.ReadBytes('\n')
	var seen []sighting
	if err != nil || json.Unmarshal(line, &seen) != nil || len(seen) != 2 {
		t.Fatalf("the child told %q, %v", line, err)
	}
	if len(seen[0].Members) < 3 || len(seen[1].Members) != 1 || len(seen[0].Watchers) != 2 {
		t.Fatalf("too few processes to prove anything: %+v", seen)
	}
	if end.how == "pause" || end.how == "faults" {
		if line, err := out.ReadString('\n'); err != nil {
			t.Fatalf("the child told %q, %v", line, err)
		}
	}
	if end.do != nil {
		if err := end.do(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	select {
	case err := <-waited:
		t.Logf("the child ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the child did not end")
	}
	for _, s := range seen {
		expectGone(t, s)
	}
	t.Logf("nothing left %v after the signal", time.Since(start))
	if rest, err := os.ReadDir(tmp); err != nil || len(rest) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", rest, err)
	}
}

func expectGone(t *testing.T, s sighting) {
	t.Helper()
	for _, m := range slices.Concat(s.Members, s.Watchers) {
		eventually(t, fmt.Sprintf("process %v of %s is gone", m, s.Folder), func() bool { return !m.alive() })
	}
	eventually(t, s.Folder+" is gone", func() bool {
		_, err := os.Lstat(s.Folder)
		return errors.Is(err, os.ErrNotExist)
	})
	eventually(t, fmt.Sprintf("port %d is free", s.Port), func() bool {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
		if err == nil {
			l.Close()
		}
		return err == nil
	})
	if id := segmentOf(t, s.Members[0].Pid); id != "" {
		t.Errorf("System V segment %s of process %v is left", id, s.Members[0])
	}
}

// segmentOf finds a System V shared memory segment that a process made.
func segmentOf(t *testing.T, pid int) string {
	t.Helper()
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Logf("segments not looked at: %v", err)
		return ""
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // key shmid perms size cpid lpid nattch ...
		if len(f) > 6 && f[4] == strconv.Itoa(pid) {
			return f[1]
		}
	}
	return ""
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestAnInitdbThatIsInterruptedLeavesNothing(t *testing.T) {
	needBoth(t)
	for _, file := range []string{"data", "data/global", "data/base/1/PG_VERSION", "data/postmaster.pid"} {
		t.Run(strings.ReplaceAll(file, "/", "_"), func(t *testing.T) {
			cmd, _, tmp := startChild(t, (*exec.Cmd).Start, "interrupted")
			var folder string
			eventually(t, file+" exists", func() bool {
				found, err := filepath.Glob(filepath.Join(tmp, "effectonce-postgres-*", file))
				if err == nil && len(found) == 1 {
					folder = strings.TrimSuffix(found[0], "/"+file)
				}
				return folder != ""
			})
			cred, err := unprivileged([]string{"postgres"})
			if err != nil {
				t.Fatal(err)
			}
			members := running(&process{dir: folder, cred: cred})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			eventually(t, "the folder is gone", func() bool {
				rest, err := os.ReadDir(tmp)
				return err == nil && len(rest) == 0
			})
			for _, m := range members {
				eventually(t, fmt.Sprintf("process %v is gone", m), func() bool { return !m.alive() })
				if id := segmentOf(t, m.Pid); id != "" {
					t.Errorf("System V segment %s of process %v is left", id, m)
				}
			}
		})
	}
}

func TestCloseDoesTheWorkOfAWatcherThatWasKilled(t *testing.T) {
	needBoth(t)
	for name, half := range map[string]int{"which ends the server": 0, "which removes the folder": 1} {
		t.Run(name, func(t *testing.T) {
			s, err := Redis(t.Context(), Options{Force: KindProcess})
			if err != nil {
				t.Fatal(err)
			}
			seen := see(s)
			if err := syscall.Kill(s.private.watch.pids[half], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			expectGone(t, seen)
		})
	}
}
