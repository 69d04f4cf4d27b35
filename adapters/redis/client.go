package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/effectonce/effectonce/model"
)

// What follows is what a store on Redis stands on, this one or a store of your own: a client that repeats nothing,
// commands that go out once, and what an error proves. [Drop], [Settled] and [Control] serve such a store too, if
// its keys open with [Prefix] and its client is named after the namespace.

// NewClient makes a client of its own for one store, with the settings that a dedup store needs: no retries, deadlines
// honoured, the namespace as its name. The caller closes it. It does no I/O. Partitions is not asked for.
func NewClient(url string, o Options) (*goredis.Client, error) {
	settings, err := settingsFor(url, o)
	if err != nil {
		return nil, fmt.Errorf("redis: client: %w", err)
	}
	return goredis.NewClient(settings), nil
}

// Opened is how the opening of a store ends that has a client of its own: the store is warmed, for its first call to
// cost what every call costs. If that fails, or the store was not made because of err, the client is closed, and the
// error is either's.
func Opened[S interface{ Warm(context.Context) error }](ctx context.Context, client *goredis.Client, s S, err error) (S, error) {
	if err == nil {
		err = s.Warm(ctx)
	}
	if err != nil {
		var none S
		return none, errors.Join(err, client.Close())
	}
	return s, nil
}

// CheckClient says why a client cannot carry a dedup store: it retries ([ErrRetries]), reads from replicas, or is
// neither one server's nor a cluster's.
func CheckClient(client goredis.UniversalClient) error {
	retries := 0
	switch c := client.(type) {
	case *goredis.Client:
		retries = c.Options().MaxRetries
	case *goredis.ClusterClient:
		if c.Options().ReadOnly {
			return errors.New("the cluster client reads from replicas, which lag behind: unset ReadOnly, RouteByLatency and RouteRandomly")
		}
		retries = c.Options().MaxRetries
	default:
		return fmt.Errorf("%T is neither *redis.Client nor *redis.ClusterClient, and what it repeats is unknown", client)
	}
	if retries > 0 {
		return ErrRetries
	}
	return nil
}

// Prefix opens every key of a namespace and no key of another. A namespace is 1 to 128 letters, digits and
// ._-:/@+=,#
func Prefix(namespace string) (string, error) {
	if err := checkNamespace(namespace); err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	return namespacePrefix(namespace), nil
}

// Outcome says what is known of a call that ended in err: [model.OutcomeOf], and beyond it the errors of driver and
// server that prove that nothing was sent or run. It fits a harness's Outcome.
func Outcome(err error) model.Outcome {
	if err != nil && neverSent(err) {
		return model.NotApplied
	}
	return model.OutcomeOf(err)
}

// Script is a Lua script that is sent by its hash.
type Script struct{ source, sha string }

// NewScript makes a Script of its source.
func NewScript(source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Load sends the source ahead, so that the first Run costs what every Run costs. On a cluster it reaches every node.
func (s Script) Load(ctx context.Context, client goredis.UniversalClient) error {
	return client.ScriptLoad(ctx, s.source).Err()
}

// Run sends one EVALSHA. A server that does not know the script (restarted, flushed) says so without having run
// anything, and gets the source.
func (s Script) Run(ctx context.Context, client goredis.UniversalClient, keys []string, args ...string) (any, error) {
	reply, err := eval(ctx, client, "evalsha", s.sha, keys, args)
	if err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return eval(ctx, client, "eval", s.source, keys, args)
	}
	return reply, err
}

func eval(ctx context.Context, client goredis.UniversalClient, name, body string, keys, args []string) (any, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, name, body, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	for _, a := range args {
		words = append(words, a)
	}
	const firstKey = 3
	return Send(ctx, client, firstKey, words...)
}

// Send sends one command, once. firstKey is the position of the first key among the words, by which a cluster client
// finds the node. A reply of nil is the error [goredis.Nil].
func Send(ctx context.Context, client goredis.UniversalClient, firstKey int8, words ...any) (any, error) {
	cmd := goredis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(firstKey)
	if err := client.Process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// once is a command that no layer of the driver sends a second time. A cluster client needs telling, whatever its
// MaxRetries: the loop that follows redirections also repeats after a lost reply, for commands that do not object.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// settingsFor tells nothing of what is wrong within a URL: half of a password may be what did not parse.
func settingsFor(url string, o Options) (*goredis.Options, error) {
	settings, err := goredis.ParseURL(url)
	if err != nil {
		return nil, errors.New("not a URL that Redis clients know: redis://user:password@host:port/db, special characters in " +
			"a password written as %XX (the text is withheld, for it may hold one)")
	}
	if settings.MaxRetries > 0 {
		return nil, ErrRetries
	}
	if o.Addr != "" {
		if _, _, err := net.SplitHostPort(o.Addr); err != nil {
			return nil, fmt.Errorf("option Addr: %w", err)
		}
		settings.Network, settings.Addr = "tcp", o.Addr
	}
	if o.PoolSize < 0 {
		return nil, fmt.Errorf("option PoolSize %d is negative", o.PoolSize)
	}
	settings.MaxRetries = -1
	settings.ContextTimeoutEnabled = true
	settings.ClientName = o.Namespace
	settings.PoolSize = defaultPoolSize
	if o.PoolSize > 0 {
		settings.PoolSize = o.PoolSize
	}
	if settings.DialTimeout == 0 {
		settings.DialTimeout = ioTimeout
	}
	if settings.ReadTimeout == 0 {
		settings.ReadTimeout = ioTimeout
	}
	settings.Dialer = deferred(goredis.NewDialer(settings))
	// Nothing here is pipelined or pushed: no second pool, no handshake beyond name and database.
	settings.PipelinePoolSize = -1
	settings.Protocol = 2
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return settings, nil
}
