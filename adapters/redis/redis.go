package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

const (
	defaultPartitions = 16
	maxPartitions     = 4096
	defaultPoolSize   = 16
	ioTimeout         = 5 * time.Second
)

// Options of a Store.
type Options struct {
	// Namespace keeps one set of records apart from every other on the same server: 1 to 128 letters, digits and
	// ._-:/@+=,#
	Namespace string
	// Partitions is how many hash slots the namespace is spread over; zero: 16. Every worker of a namespace must
	// give the same number.
	Partitions int

	// Addr is the host:port that Open dials in place of the URL's, such as a worker's own proxy; empty: the URL's.
	Addr string
	// PoolSize bounds the connections of Open, and with it the calls of one Store that are under way at once; zero: 16.
	PoolSize int
	_        struct{}
}

// Store is a [model.Store] on Redis that offers every optional interface of the model: begin again under a nonce,
// fence, commit an effect or keep a result together with DONE, release, extend, bury and replay, and look a record up.
// It is safe for concurrent use.
type Store struct {
	client     goredis.UniversalClient
	owned      bool
	namespace  string
	partitions string
	slots      []slot
	scripts    scripts
}

// New makes a Store over a client that stays the caller's to close. It does no I/O: call [Store.Warm] before the first
// message. The client must not retry ([ErrRetries]), and must be one server or a cluster read from its masters; a
// Ring moves keys when a shard is away, and so forgets claims.
//
// The client should have ContextTimeoutEnabled set, or a call outlives its context's deadline until ReadTimeout.
func New(client goredis.UniversalClient, o Options) (*Store, error) {
	if err := CheckClient(client); err != nil {
		return nil, fmt.Errorf("redis: new: %w", err)
	}
	if err := checkNamespace(o.Namespace); err != nil {
		return nil, fmt.Errorf("redis: new: %w", err)
	}
	if o.Partitions == 0 {
		o.Partitions = defaultPartitions
	}
	if o.Partitions < 0 || o.Partitions > maxPartitions {
		return nil, fmt.Errorf("redis: new: Partitions %d is not between 1 and %d", o.Partitions, maxPartitions)
	}
	return &Store{
		client:     client,
		namespace:  o.Namespace,
		partitions: strconv.Itoa(o.Partitions),
		slots:      newSlots(o.Namespace, o.Partitions),
		scripts:    newScripts(),
	}, nil
}

// Open makes a Store over a client of its own, with settings for one worker, and warms it. url is redis://, rediss://
// or unix:// with the options of go-redis; a max_retries in it is refused unless it turns retries off. The client's
// name is the namespace, which is how [Settled] finds it. No error that Open or the Store answers holds the password.
//
// A deadline in a call's context ends the call when it passes. A cancellation without one ends the wait for a
// connection, but the wait for an answer only at the read timeout: 5 s, unless the URL says otherwise. Close ends the
// Store and whatever waits in it.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	settings, err := settingsFor(url, o)
	if err != nil {
		return nil, fmt.Errorf("redis: open: %w", err)
	}
	client := goredis.NewClient(settings)
	s, err := New(client, o)
	if err == nil {
		s.owned = true
	}
	return Opened(ctx, client, s, err)
}

// Close ends a Store made by Open; for one made by New it does nothing.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return named("close", s.client.Close())
}

// Warm writes down the number of partitions, or refuses to go on with another than was written, and loads the scripts,
// so that the first call costs what every call costs. It may be called again, by any number of workers.
func (s *Store) Warm(ctx context.Context) error {
	layout := layoutKey(s.namespace)
	if _, err := s.send(ctx, 1, "setnx", layout, s.partitions); err != nil {
		return failed("warm", err)
	}
	reply, err := s.send(ctx, 1, "get", layout)
	if err != nil {
		return failed("warm", err)
	}
	if reply != s.partitions {
		return fmt.Errorf("redis: warm: namespace %s has %v partitions, not %s", s.namespace, reply, s.partitions)
	}
	for _, sc := range s.scripts.all() {
		if err := sc.Load(ctx, s.client); err != nil {
			return failed("warm", err)
		}
	}
	return nil
}

// Contract states the facts about this store: tokens in increasing order, instants to the microsecond, the callers'
// clock. A server that may lose what it answered adds LosesOnCrash: that is a fact of the deployment.
func Contract() model.Contract {
	return model.Contract{Precision: time.Microsecond, OrderedToken: true}
}
