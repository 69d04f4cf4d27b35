package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// The watcher is what stops a private server on the ways out that run no defer: os.Exit, a signal, a panic in
// another goroutine, go test's time-out, kill -9. It is a process of its own that reads a pipe whose write end
// this program alone holds; the kernel closes that end however the program ends, and end of file is the signal
// to end the server and remove its folder. An orderly Close takes the same road, so that it is walked every day.
//
// It is a shell script, not this binary started again: a user's test binary has a main of its own, and nothing
// here may depend on what that does first.
//
// The server's processes are known by their working directory. A process group would not do (each Postgres
// backend is a session of its own) and neither would the parent chain (it breaks when the postmaster dies
// first; a subreaper would mend that, but its orphans would be children of a program that did not ask for them).
// The folder is private and its name random, so whatever works in it is ours. Zombies have no working directory
// and are nobody's business here.
//
// Whoever looks does so as the server's own user. The kernel tells where a process works to the same user and group,
// or to CAP_SYS_PTRACE, which root in a container has not: there root would see no process of another user and take
// the server for gone. (A process that was made undumpable would hide from its own user too; none of these is.) So
// the watcher is two processes: the first ends the server, as the server's user, and says so to the second, which
// removes the folder, as this program's user, since the folder's parent may be closed to the other. If the first was
// killed before it could say so, the folder stays: it is by the folder that Close finds what the first one left.

// oursScript finds the server's processes.
const oursScript = `
dir=$1 data=$1/data
ours() {
	pids=
	for p in /proc/[0-9]*; do
		if [ "$p/cwd" -ef "$dir" ] || [ "$p/cwd" -ef "$data" ]; then pids="$pids ${p#/proc/}"; fi
	done
	[ -n "$pids" ]
}
`

// endScript is the watcher's first half.
//
// Postgres is first asked to stop at once (SIGQUIT), since only it removes its System V segment; a kill leaks
// one each time, and the machine has room for 4,096. Children of an initdb whose parent is gone end by
// themselves for the same reason. What does not follow within two seconds is killed. A segment that is left then,
// or since a Kill, is removed by key and id, where the machine has ipcrm. A second empty pass is demanded, because a
// process may fork and end while the first one reads.
const endScript = oursScript + `
trap '' HUP INT QUIT TERM PIPE
while read -r _; do :; done

pause() { sleep 0.02 2>/dev/null || sleep 1; }

postmaster= key= id= n=0
if [ -r "$data/postmaster.pid" ]; then
	while read -r line; do
		n=$((n + 1))
		if [ $n = 1 ]; then postmaster=$line; fi
		if [ $n = 7 ]; then key=${line%% *} id=${line##* }; fi
	done < "$data/postmaster.pid"
fi
if ours; then
	for pid in $pids; do
		if [ "/proc/$pid/cwd" -ef "$dir" ]; then kill -KILL "$pid"; fi
		if [ "$pid" = "$postmaster" ]; then kill -QUIT "$pid"; fi
	done
	kill -CONT $pids
	n=0
	while [ $n -lt 100 ] && ours; do n=$((n + 1)); pause; done
fi
n=0 empty=0
while [ $n -lt 500 ] && [ $empty -lt 2 ]; do
	n=$((n + 1))
	if ours; then empty=0; kill -KILL $pids; pause; else empty=$((empty + 1)); fi
done
if [ -n "$id" ] && [ -r "$data/postmaster.pid" ]; then
	while read -r k i _ _ _ _ attached _; do
		if [ "$k" = "$key" ] && [ "$i" = "$id" ] && [ "$attached" = 0 ]; then ipcrm -m "$id" >&2; fi
	done < /proc/sysvipc/shm
fi
echo ended
`

// removeScript is the watcher's second half.
const removeScript = `
trap '' HUP INT QUIT TERM PIPE
dir=$1
read -r word
if [ "$word" != ended ]; then exit 1; fi
n=0
while [ $n -lt 50 ] && [ -e "$dir" ]; do n=$((n + 1)); rm -rf "$dir" || sleep 0.02 2>/dev/null || sleep 1; done
`

// watcherPatience is more than the scripts ever take: two seconds of asking, the kills, the folder.
const watcherPatience = 20 * time.Second

type watcher struct {
	pipe *os.File // its write end; held by nobody else, closed on exec
	pids [2]int   // who ends the server, who removes its folder
	done chan struct{}
}

// shell makes a shell that works on a folder as this user; nil: as this program's.
func shell(ctx context.Context, cred *syscall.Credential, text, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text, "effectonce-watcher", dir)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	// A session of its own: Ctrl-C and a closed terminal end the program, never the one who cleans up after it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: cred}
	return cmd
}

// startWatcher starts a watcher over a folder that need not exist yet: it is started first, so that there is no
// moment in which something is there and nobody watches. The server will run as cred.
func startWatcher(dir string, cred *syscall.Credential) (*watcher, error) {
	programEnded, held, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	defer programEnded.Close()
	serverEnded, word, err := os.Pipe()
	if err != nil {
		held.Close()
		return nil, fmt.Errorf("watcher: %w", err)
	}
	defer word.Close()
	defer serverEnded.Close()
	ctx := context.Background() // it outlives everything
	end, remove := shell(ctx, cred, endScript, dir), shell(ctx, nil, removeScript, dir)
	end.Stdin, end.Stdout, remove.Stdin = programEnded, word, serverEnded
	if err := remove.Start(); err != nil {
		held.Close()
		return nil, fmt.Errorf("watcher: %w", err)
	}
	if err := end.Start(); err != nil {
		held.Close()
		word.Close()
		_ = remove.Wait() // nobody will say the word to it now
		return nil, fmt.Errorf("watcher: %w", err)
	}
	w := &watcher{pipe: held, pids: [2]int{end.Process.Pid, remove.Process.Pid}, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		_ = end.Wait() // their exit statuses say nothing that looking at the folder does not say better
		_ = remove.Wait()
	}()
	return w, nil
}

// finish lets the watcher do its work and waits until it is gone.
func (w *watcher) finish() error {
	if err := w.pipe.Close(); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	select {
	case <-w.done:
		return nil
	case <-time.After(watcherPatience):
		return errors.New("watcher: still at work after " + watcherPatience.String())
	}
}
