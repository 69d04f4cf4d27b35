package scenarios

import (
	"sync"

	"github.com/effectonce/effectonce/model"
)

// byNamespace holds one in-process store per namespace.
type byNamespace struct {
	mu     sync.Mutex
	open   func() model.Store
	stores map[string]model.Store
}

func newByNamespace(open func() model.Store) *byNamespace {
	return &byNamespace{open: open, stores: map[string]model.Store{}}
}

func (b *byNamespace) get(namespace string) model.Store {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.stores[namespace]
	if !known {
		s = b.open()
		b.stores[namespace] = s
	}
	return s
}
