package backend

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sharedStart bounds the start of a shared server: on a machine that tests many packages at once it takes long.
const sharedStart = time.Minute

var errSharedClosed = errors.New("backend: the shared server was closed")

// Shared is one server for many tests: started when the first asks, and ended by Close, which TestMain calls when all
// have run. All its functions may be called from several goroutines.
//
//	var redis = backend.Share(backend.RealRedis)
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		if err := redis.Close(); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			code = 1
//		}
//		os.Exit(code)
//	}
//
//	func TestPing(t *testing.T) {
//		url := redis.Need(t).DSN()
//		...
//	}
type Shared struct {
	open func(context.Context, Options) (*Server, error)

	mu     sync.Mutex // held over the start too: whoever asks meanwhile waits for its outcome
	asked  bool
	closed bool
	server *Server
	err    error
}

// Share makes a Shared that open will start, with the environment's Options: [Postgres], [Redis], [RealRedis], or a
// function around one of these that changes the Options. It does nothing yet.
func Share(open func(context.Context, Options) (*Server, error)) *Shared { return &Shared{open: open} }

// Get answers the server. It is started once: an error stands for whoever asks later, too, and is as those of
// [Postgres], [Redis] and [FromEnv] are. The start takes no context, since it is not for the first asker alone.
func (s *Shared) Get() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errSharedClosed
	}
	if !s.asked {
		s.asked = true
		s.server, s.err = s.start()
	}
	return s.server, s.err
}

func (s *Shared) start() (*Server, error) {
	o, err := FromEnv()
	if err != nil {
		return nil, err
	}
	o.StartTimeout = sharedStart
	return s.open(context.Background(), o)
}

// TB is what Need needs of a testing.TB.
type TB interface {
	Helper()
	Log(args ...any)
	Skip(args ...any)
	Fatal(args ...any)
}

// Need gives a test the server, and says in its log which it is. Where the server is absent the test is skipped with
// what to install, unless the server is required: then it fails, as with every other error.
func (s *Shared) Need(t TB) *Server {
	t.Helper()
	server, err := s.Get()
	var absent *Absent
	switch {
	case errors.As(err, &absent) && !absent.Required:
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Log(server)
	return server
}

// Close ends the server if it was started, as [Server.Close] does. Nothing is started any more.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
