package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// members lists the server's live processes: those that work in its folder, as its own user sees them (see the
// watcher for why). The parent, if alive, comes first.
func (p *process) members(ctx context.Context) ([]int, error) {
	found, err := shell(ctx, p.cred, oursScript+`ours; echo $pids`, p.dir).Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the server's processes: %w", err)
	}
	var pids []int
	for _, field := range strings.Fields(string(found)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("looking for the server's processes: %w", err)
		}
		pids = append(pids, pid)
	}
	if p.cmd != nil {
		if i := slices.Index(pids, p.cmd.Process.Pid); i > 0 {
			pids[0], pids[i] = pids[i], pids[0]
		}
	}
	return pids, nil
}

// stopped tells whether a process stands still (SIGSTOP has been acted on, not only sent).
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone, which is as still as can be
	}
	// The state follows the command's name, which is in parentheses and may hold some itself.
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	fields := bytes.Fields(rest)
	return len(fields) > 0 && (fields[0][0] == 'T' || fields[0][0] == 'Z')
}

// each signals every member, again and again, until done holds in two passes in a row: a process may fork while
// the list is read.
func (p *process) each(ctx context.Context, sig syscall.Signal, done func(pids []int) bool) error {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	quiet := 0
	for {
		pids, err := p.members(ctx)
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		if done(pids) {
			if quiet++; quiet == 2 {
				return nil
			}
		} else {
			quiet = 0
			for _, pid := range pids {
				_ = syscall.Kill(pid, sig) // it may be gone by now; the next pass tells
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v sent to processes %v, which did not follow: %w", sig, pids, ctx.Err())
		case <-poll.C:
		}
	}
}

func (p *process) killAll(ctx context.Context) error {
	if err := p.each(ctx, syscall.SIGKILL, func(pids []int) bool { return len(pids) == 0 }); err != nil {
		return err
	}
	if p.exited == nil {
		return nil
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server was killed but not reaped: %w", ctx.Err())
	}
}

var errClosed = errors.New("the server was closed")

// guarded runs one fault under the lock.
func (p *process) guarded(what string, fault func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errClosed
	if !p.closed {
		err = fault()
	}
	if err != nil {
		return fmt.Errorf("backend: %s: %s: %w", p.name, what, err)
	}
	return nil
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill is documented at Server.
func (p *process) Kill(ctx context.Context) error {
	return p.guarded("kill", func() error { return p.killAll(ctx) })
}

// Restart is documented at Server.
func (p *process) Restart(ctx context.Context) error {
	return p.guarded("restart", func() error {
		if p.running() {
			return errors.New("it is still running: kill it first")
		}
		return p.start(ctx, p.port)
	})
}

// Pause is documented at Server.
func (p *process) Pause(ctx context.Context) error {
	return p.guarded("pause", func() error {
		if !p.running() {
			return errors.New("it is not running")
		}
		return p.each(ctx, syscall.SIGSTOP, func(pids []int) bool {
			return !slices.ContainsFunc(pids, func(pid int) bool { return !stopped(pid) })
		})
	})
}

// Resume is documented at Server.
func (p *process) Resume(ctx context.Context) error {
	return p.guarded("resume", func() error {
		return p.each(ctx, syscall.SIGCONT, func(pids []int) bool { return !slices.ContainsFunc(pids, stopped) })
	})
}
