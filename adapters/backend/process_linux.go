package backend

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	pollEvery    = 5 * time.Millisecond
	portAttempts = 5
)

var errPortTaken = errors.New("the chosen port was taken meanwhile")

// process is one private server: its folder, its watcher, and the running process, if any.
type process struct {
	name  string
	dir   string // holds data, if the server has any, and the log
	cred  *syscall.Credential
	watch *watcher

	argv func(port int) []string
	// ready is one attempt to talk to the server; nil means that it answers and is ours: another server may
	// sit on the port by now.
	ready func(ctx context.Context, port, pid int) error

	mu     sync.Mutex // held over each whole start, kill, pause, resume, close
	port   int
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd was waited for
	closed bool
}

// newProcess makes the private folder of a server, watched from before it exists.
func newProcess(name string, users ...string) (*process, error) {
	cred, err := unprivileged(users)
	if err != nil {
		return nil, err
	}
	parent := os.TempDir()
	if cred != nil {
		parent = enterable(parent, "/tmp", "/var/tmp")
	}
	p := &process{name: name, cred: cred, dir: filepath.Join(parent, "effectonce-"+name+"-"+rand.Text())}
	if p.watch, err = startWatcher(p.dir, cred); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, errors.Join(err, p.shut())
	}
	if cred != nil {
		if err := os.Chown(p.dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, errors.Join(err, p.shut())
		}
	}
	return p, nil
}

// unprivileged picks the first user that exists, or nobody; nil unless this program is root. Postgres refuses to
// run as root, and nothing that tests start needs to.
func unprivileged(names []string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range append(slices.Clone(names), "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("running as root, and none of the users %v, nobody exists to run the server as", names)
}

// enterable is the first folder that every user may enter, all the way down; the first of all if none is.
func enterable(dirs ...string) string {
	for _, dir := range dirs {
		ok := true
		for d := filepath.Clean(dir); ok; d = filepath.Dir(d) {
			info, err := os.Stat(d)
			ok = err == nil && info.Mode().Perm()&0o001 != 0
			if d == filepath.Dir(d) {
				break
			}
		}
		if ok {
			return dir
		}
	}
	return dirs[0]
}

// command makes a child that writes to a fresh log, in a session of its own (Ctrl-C is for the program, which
// decides what becomes of its servers) and without this program's PG* variables.
func (p *process) command(ctx context.Context, argv []string) (*exec.Cmd, error) {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + filepath.Dir(argv[0]) + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + p.dir}
	if libs := os.Getenv("LD_LIBRARY_PATH"); libs != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+libs)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.cred}
	return cmd, nil
}

func (p *process) log() string { return filepath.Join(p.dir, "log") }

// run runs a command to its end.
func (p *process) run(ctx context.Context, argv ...string) error {
	cmd, err := p.command(ctx, argv)
	if err != nil {
		return err
	}
	defer cmd.Stdout.(io.Closer).Close()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w%s", filepath.Base(argv[0]), errors.Join(err, ctx.Err()), p.tail())
	}
	return nil
}

// launch starts the server on a free port, and on another one if somebody was quicker.
func (p *process) launch(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for range portAttempts {
		port, portErr := freePort()
		if portErr != nil {
			return portErr
		}
		if err = p.start(ctx, port); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return fmt.Errorf("%d ports tried: %w", portAttempts, err)
}

// start starts the server and returns when it answers. The caller holds mu.
func (p *process) start(ctx context.Context, port int) error {
	cmd, err := p.command(context.WithoutCancel(ctx), p.argv(port)) // it outlives the start's deadline
	if err != nil {
		return err
	}
	defer cmd.Stdout.(io.Closer).Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.cmd, p.exited, p.port = cmd, exited, port
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in its log
	}()

	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-exited:
			err := fmt.Errorf("%s ended at once (%v)%s", filepath.Base(cmd.Path), cmd.ProcessState, p.tail())
			if bytes.Contains([]byte(err.Error()), []byte("ddress already in use")) {
				err = fmt.Errorf("%w: %w", errPortTaken, err)
			}
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w (last attempt: %w)%s", filepath.Base(cmd.Path), ctx.Err(), last, p.tail())
		case <-poll.C:
			attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
			last = p.ready(attempt, port, cmd.Process.Pid)
			cancel()
			if last == nil {
				return nil
			}
		}
	}
}

// tail is the end of the log, as the end of an error text.
func (p *process) tail() string {
	const most = 2048
	log, err := os.ReadFile(p.log())
	if err != nil || len(bytes.TrimSpace(log)) == 0 {
		return "; its log is empty"
	}
	return "; the end of its log:\n" + string(bytes.TrimSpace(log[max(0, len(log)-most):]))
}

// close ends everything and removes the folder. The watcher does the work; what it left, having been killed
// itself, is done here.
func (p *process) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shut()
}

// shut is close for a caller who holds mu, or is alone.
func (p *process) shut() error {
	if p.closed {
		return nil
	}
	p.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := errors.Join(p.watch.finish(), p.killAll(ctx), os.RemoveAll(p.dir))
	if err != nil {
		return fmt.Errorf("backend: %s: close: %w", p.name, err)
	}
	return nil
}

// server describes a launched process.
func (p *process) server(url, description string) *Server {
	return &Server{
		Name: p.name, Kind: KindProcess, Addr: fmt.Sprintf("127.0.0.1:%d", p.port), Description: description,
		Kill: p.Kill, Restart: p.Restart, Pause: p.Pause, Resume: p.Resume,
		dsn: url, private: p, close: p.close,
	}
}
