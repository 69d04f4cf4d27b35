package backend

import (
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
// first). The folder is private and its name random, so whatever works in it is ours. Zombies have no working
// directory and are nobody's business here.
//
// Postgres is first asked to stop at once (SIGQUIT), since only it removes its System V segment; a kill leaks
// one each time, and the machine has room for 4,096. Children of an initdb whose parent is gone end by
// themselves for the same reason. What does not follow within two seconds is killed. A segment that is left then,
// or since a Kill, is removed by key and id, where the machine has ipcrm. A second empty pass is demanded, because a process may fork and end while the first one reads.
const watcherScript = `
trap '' HUP INT QUIT TERM PIPE
dir=$1 data=$1/data
while read -r _; do :; done

ours() {
	pids=
	for p in /proc/[0-9]*; do
		if [ "$p/cwd" -ef "$dir" ] || [ "$p/cwd" -ef "$data" ]; then pids="$pids ${p#/proc/}"; fi
	done
	[ -n "$pids" ]
}
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
		if [ "$k" = "$key" ] && [ "$i" = "$id" ] && [ "$attached" = 0 ]; then ipcrm -m "$id"; fi
	done < /proc/sysvipc/shm
fi
n=0
while [ $n -lt 50 ] && [ -e "$dir" ]; do n=$((n + 1)); rm -rf "$dir" || pause; done
`

// watcherPatience is more than the script ever takes: two seconds of asking, the kills, the folder.
const watcherPatience = 20 * time.Second

type watcher struct {
	pipe *os.File // its write end; held by nobody else, closed on exec
	pid  int
	done chan struct{}
}

// startWatcher starts a watcher over a folder that need not exist yet: it is started first, so that there is no
// moment in which something is there and nobody watches.
func startWatcher(dir string) (*watcher, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", watcherScript, "effectonce-watcher", dir)
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	// A session of its own: Ctrl-C and a closed terminal end the program, never the one who cleans up after it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("watcher: %w", err)
	}
	watch := &watcher{pipe: w, pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		defer close(watch.done)
		_ = cmd.Wait() // its exit status says nothing that looking at the folder does not say better
	}()
	return watch, nil
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
