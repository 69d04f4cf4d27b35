package redisttl

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/adapters/redis"
	"github.com/effectonce/effectonce/model"
)

// maxKey bounds consumer and id together, in bytes: a longer one is a mistake, and would go out with every call.
const maxKey = 1 << 20

// Options of a Store.
type Options struct {
	// Namespace keeps one set of records apart from every other on the same server: 1 to 128 letters, digits and
	// ._-:/@+=,#
	Namespace string
	// Window is how long DONE is remembered, counted from completion; zero: [model.DefaultWindow]. At least 1ms, and
	// longer than the broker's longest redelivery, or a message is handled again.
	Window time.Duration

	// Addr is the host:port that Open dials in place of the URL's, such as a worker's own proxy; empty: the URL's.
	Addr string
	// PoolSize bounds the connections of Open; zero: 16.
	PoolSize int
	_        struct{}
}

// Store is a [model.Store] on keys that expire, which can also fence, extend, release, and look a record up. It is
// safe for concurrent use. It remembers the tokens of the claims that were made through it, for [Store.Complete].
type Store struct {
	client  goredis.UniversalClient
	owned   bool
	prefix  string
	window  string // ms
	scripts scripts
	claims  claims
}

var (
	//go:embed complete.lua
	completeSource string
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string
)

type scripts struct{ complete, release, extend redis.Script }

// New makes a Store over a client that stays the caller's to close. It does no I/O; [Store.Warm] spares the first calls
// a round trip. What [redis.New] demands of a client is demanded here.
func New(client goredis.UniversalClient, o Options) (*Store, error) {
	if err := redis.CheckClient(client); err != nil {
		return nil, fmt.Errorf("redisttl: new: %w", err)
	}
	prefix, err := redis.Prefix(o.Namespace)
	if err != nil {
		return nil, fmt.Errorf("redisttl: new: %w", err)
	}
	if o.Window == 0 {
		o.Window = model.DefaultWindow
	}
	if o.Window < time.Millisecond {
		return nil, fmt.Errorf("redisttl: new: Window %v is shorter than 1ms", o.Window)
	}
	return &Store{
		client: client,
		prefix: prefix + "t:",
		window: milliseconds(o.Window),
		scripts: scripts{
			complete: redis.NewScript(completeSource),
			release:  redis.NewScript(releaseSource),
			extend:   redis.NewScript(extendSource),
		},
		claims: claims{held: make(map[string]held)},
	}, nil
}

// Open makes a Store over a client of its own, as [redis.NewClient] makes it, and warms it. [redis.Drop] and
// [redis.Settled] know its namespace.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	client, err := redis.NewClient(url, redis.Options{Namespace: o.Namespace, Addr: o.Addr, PoolSize: o.PoolSize})
	if err != nil {
		return nil, fmt.Errorf("redisttl: open: %w", err)
	}
	s, err := New(client, o)
	if err == nil {
		s.owned = true
	}
	return redis.Opened(ctx, client, s, err)
}

// Close ends a Store made by Open; for one made by New it does nothing.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return named("close", s.client.Close())
}

// Warm loads the scripts, so that the first call costs what every call costs. It may be called again.
func (s *Store) Warm(ctx context.Context) error {
	for _, script := range []redis.Script{s.scripts.complete, s.scripts.release, s.scripts.extend} {
		if err := script.Load(ctx, s.client); err != nil {
			return failed("warm", err)
		}
	}
	return nil
}

// Contract states the facts about a Store with this window (zero: [model.DefaultWindow]) behind a broker with this
// longest redelivery (zero: [model.DefaultRedelivery]). A server that may lose what it answered adds LosesOnCrash:
// that is a fact of the deployment.
func Contract(window, redelivery time.Duration) model.Contract {
	return model.Contract{
		Clock:         model.ServerClock,
		Precision:     time.Millisecond,
		MinLease:      time.Millisecond,
		Window:        window,
		Redelivery:    redelivery,
		Retention:     model.ByItself,
		LeaseIsRecord: true,
		NoTimes:       true,
		AcceptsKey:    AcceptsKey,
	}
}

// AcceptsKey says why a Store refuses a key: a part is empty, or the two together are longer than 1 MiB.
func AcceptsKey(consumer, messageID string) error {
	switch {
	case consumer == "":
		return errors.New("the consumer is empty")
	case messageID == "":
		return errors.New("the message id is empty")
	case len(consumer)+len(messageID) > maxKey:
		return errors.New("the consumer and the message id are longer than 1 MiB together")
	}
	return nil
}

// key names a message on the server.
func (s *Store) key(consumer, messageID string) string {
	return s.prefix + strconv.Itoa(len(consumer)) + ":" + consumer + messageID
}

// admit checks what every call on one message is given, before any I/O. now is ignored, but a zero one is a mistake.
func admit(ctx context.Context, op, consumer, messageID string, now time.Time) error {
	if err := admitKey(ctx, op, consumer, messageID); err != nil {
		return err
	}
	if now.IsZero() {
		return refused(op, "now is zero")
	}
	return nil
}

func admitKey(ctx context.Context, op, consumer, messageID string) error {
	if err := alive(ctx, op); err != nil {
		return err
	}
	if err := AcceptsKey(consumer, messageID); err != nil {
		return refused(op, err.Error())
	}
	return nil
}

func admitLease(op string, lease time.Duration) error {
	if lease < time.Millisecond {
		return refused(op, "the lease "+lease.String()+" is shorter than 1ms")
	}
	return nil
}

// milliseconds rounds up: what was promised lasts.
func milliseconds(d time.Duration) string {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return strconv.FormatInt(ms, 10)
}

func refused(op, why string) error {
	return fmt.Errorf("redisttl: %s: %s: %w", op, why, model.ErrRefused)
}

func named(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redisttl: %s: %w", op, err)
}

func alive(ctx context.Context, op string) error {
	return model.NoEffect(named(op, ctx.Err()))
}

// failed names an error and adds the proof that nothing changed, where there is one.
func failed(op string, err error) error {
	if redis.Outcome(err) == model.NotApplied {
		return model.NoEffect(named(op, err))
	}
	return named(op, err)
}

// parse reads what is kept under a key.
func parse(text string) (model.Record, error) {
	kind, rest, _ := strings.Cut(text, ":")
	r := model.Record{Attempts: 1, Token: rest}
	switch kind {
	case "p":
		r.State = model.Processing
	case "d":
		r.State = model.Done
	case "r":
		r.State = model.Processing
		r.Token, r.Reason, _ = strings.Cut(rest, ":")
	default:
		return model.Record{}, errors.New("the key holds what no Store wrote")
	}
	return r, nil
}
