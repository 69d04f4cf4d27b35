package scenarios_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce/adapters/backend"
	"github.com/effectonce/effectonce/scenarios"
)

// The flags exist in this test binary alone, each the twin of an environment variable.
func TestMain(m *testing.M) {
	values := map[string]*string{}
	for _, s := range scenarios.Settings() {
		values[s.Name] = flag.String("effectonce."+strings.ToLower(s.Name), "", s.Help)
	}
	flag.Parse()
	for name, value := range values {
		if *value != "" {
			os.Setenv("EFFECTONCE_"+name, *value)
		}
	}
	code := m.Run()
	if err := servers.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// servers are started when the first test asks, and shared by all.
var servers serverRoom

type serverRoom struct {
	mu     sync.Mutex
	opened map[string]*backend.Server
	failed map[string]error
}

const startAtMost = time.Minute

func (r *serverRoom) get(name string, open func(context.Context, backend.Options) (*backend.Server, error)) (*backend.Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.opened[name]; s != nil || r.failed[name] != nil {
		return s, r.failed[name]
	}
	if r.opened == nil {
		r.opened, r.failed = map[string]*backend.Server{}, map[string]error{}
	}
	options, err := backend.FromEnv()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startAtMost)
		defer cancel()
		r.opened[name], err = open(ctx, options)
	}
	r.failed[name] = err
	return r.opened[name], err
}

func (r *serverRoom) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, s := range r.opened {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// server gives a test its server, or skips with what to install.
func server(t testing.TB, name string, open func(context.Context, backend.Options) (*backend.Server, error)) *backend.Server {
	t.Helper()
	s, err := servers.get(name, open)
	var absent *backend.Absent
	switch {
	case errors.As(err, &absent) && !absent.Required:
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Log(s)
	return s
}
