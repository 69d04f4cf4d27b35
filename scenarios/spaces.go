package scenarios

import (
	"context"
	"sync"

	"github.com/effectonce/effectonce/model"
)

// Spaces keeps one value for each namespace, for what lives in this process: a store, the consumers' database, the
// ledger beside them. It is safe for concurrent use.
type Spaces[S any] struct {
	open func() S
	mu   sync.Mutex
	of   map[string]S
}

// PerNamespace makes Spaces whose values are made by open when they are first asked for.
func PerNamespace[S any](open func() S) *Spaces[S] {
	return &Spaces[S]{open: open, of: map[string]S{}}
}

// Get is the value of one namespace: the same for every worker in it.
func (s *Spaces[S]) Get(namespace string) S {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, known := s.of[namespace]
	if !known {
		value = s.open()
		s.of[namespace] = value
	}
	return value
}

// Drop forgets a namespace: a Harness's Drop.
func (s *Spaces[S]) Drop(_ context.Context, namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, namespace)
	return nil
}

// Shared is Open for a store that lives in this process: one store per namespace, made by open and used by every
// worker. What it keeps is not dropped before the test ends; see [PerNamespace].
func Shared[S model.Store](open func() S) func(context.Context, Env) (model.Store, error) {
	stores := PerNamespace(open)
	return func(_ context.Context, env Env) (model.Store, error) { return stores.Get(env.Namespace), nil }
}
