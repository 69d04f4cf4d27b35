package broken

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

// TTL is a home-made store on Redis of the commonest make: SET NX with a time to live, and the record is the lock
// prolonged. It is safe for concurrent use.
type TTL struct {
	*Redis
	// Window is how long DONE is remembered.
	Window time.Duration
}

// OpenTTL opens a handle that dials addr.
func OpenTTL(url string, flaw Flaw, namespace, addr string, window time.Duration) (*TTL, error) {
	r, err := OpenRedis(url, flaw, namespace, addr)
	return &TTL{r, window}, err
}

// Begin claims: SET NX. The token is the caller's own make, drawn per claim.
func (r *TTL) Begin(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	key, token := r.row(consumer, id), fmt.Sprintf("%p-%d", r, time.Now().UnixNano())
	args := goredis.SetArgs{Mode: "NX", TTL: lease}
	switch r.flaw {
	case SecondsForMillis:
		args.TTL = time.Duration(lease.Milliseconds()) * time.Second
	case OneTTL:
		args.TTL = r.Window
	case CallersNow:
		args.TTL, args.ExpireAt = 0, now.Add(lease)
	}
	for {
		err := r.client.SetArgs(ctx, key, "PROCESSING "+token, args).Err()
		if err == nil {
			return model.Record{State: model.Processing, Attempts: 1, Token: token}, true, nil
		}
		if !errors.Is(err, goredis.Nil) {
			return model.Record{}, false, err
		}
		text, err := r.client.Get(ctx, key).Result()
		if !errors.Is(err, goredis.Nil) {
			state, token, _ := strings.Cut(text, " ")
			return model.Record{State: model.State(state), Attempts: 1, Token: token}, false, err
		}
		// It ended between the two, neither of which changed anything.
	}
}

var ttlScript = goredis.NewScript(`
local now = redis.call('GET', KEYS[1])
if not now then return 'not-found' end
local state, token = now:match('^(%u+) (.*)$')
if ARGV[2] ~= '' and ARGV[2] ~= token then return 'fenced' end
if ARGV[1] == 'complete' then
	if state == 'DONE' then return 'ok' end
	if ARGV[3] == 'keep' then redis.call('SET', KEYS[1], 'DONE ' .. token, 'KEEPTTL') return 'ok' end
	redis.call('SET', KEYS[1], 'DONE ' .. token, 'PX', ARGV[3])
elseif state == 'DONE' then return 'fenced'
elseif ARGV[1] == 'extend' then redis.call('PEXPIRE', KEYS[1], ARGV[3])
else redis.call('PEXPIREAT', KEYS[1], ARGV[3]) end
return 'ok'`)

func (r *TTL) run(ctx context.Context, verb, consumer, id, token string, value any) error {
	answer, err := ttlScript.Run(ctx, r.client, []string{r.row(consumer, id)}, verb, token, value).Text()
	switch {
	case err != nil:
		return err
	case answer == "fenced":
		return model.ErrFenced
	case answer == "not-found":
		return model.ErrNotFound
	}
	return nil
}

// owner is what a call presents.
func (r *TTL) owner(claim model.Record) string {
	switch {
	case r.flaw == DeletesByKey:
		return ""
	case claim.Token == "": // which the script takes for "by key"
		return "none"
	}
	return claim.Token
}

func (r *TTL) window() any {
	if r.flaw == TTLKept {
		return "keep"
	}
	return r.Window.Milliseconds()
}

// Complete completes by key.
func (r *TTL) Complete(ctx context.Context, consumer, id string, _ time.Time) error {
	return r.run(ctx, "complete", consumer, id, "", r.window())
}

// CompleteClaim completes by claim.
func (r *TTL) CompleteClaim(ctx context.Context, consumer, id string, claim model.Record, _ time.Time) error {
	return r.run(ctx, "complete", consumer, id, r.owner(claim), r.window())
}

// Release gives a claim back.
func (r *TTL) Release(ctx context.Context, consumer, id string, claim model.Record, _, visibleAt time.Time, _ string) error {
	return r.run(ctx, "release", consumer, id, r.owner(claim), visibleAt.UnixMilli())
}

// Extend prolongs.
func (r *TTL) Extend(ctx context.Context, consumer, id string, claim model.Record, _ time.Time, lease time.Duration) (model.Record, error) {
	if r.flaw == ExtendsShorter {
		lease = 20 * time.Millisecond
	}
	if err := r.run(ctx, "extend", consumer, id, r.owner(claim), lease.Milliseconds()); err != nil {
		return model.Record{}, err
	}
	return model.Record{State: model.Processing, Attempts: 1, Token: claim.Token}, nil
}

// Prune has nothing to do: the server forgets.
func (r *TTL) Prune(context.Context, time.Time) (int, error) { return 0, nil }

// RedisConsumer is a whole consumer on SET NX: it claims, and books the effect together with DONE in one script, if the
// claim is still its own.
type RedisConsumer struct {
	*TTL
	Lease time.Duration
}

var bookScript = goredis.NewScript(`
local now = redis.call('GET', KEYS[1])
if now ~= 'PROCESSING ' .. ARGV[1] then return 'fenced' end
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], 'DONE ' .. ARGV[1], 'PX', ARGV[2])
return 'ok'`)

func (c *RedisConsumer) ledger() string { return c.namespace + ":ledger" }

// Deliver handles one message.
func (c *RedisConsumer) Deliver(ctx context.Context, m model.Message) (model.Result, error) {
	claim, claimed, err := c.Begin(ctx, m.Consumer, m.ID, time.Now(), c.Lease)
	switch {
	case err != nil:
		return model.ResultInFlight, err
	case !claimed && claim.State == model.Done:
		return model.ResultDuplicate, nil
	case !claimed:
		return model.ResultInFlight, nil
	}
	row := ledgerRow(m)
	key := []string{c.row(m.Consumer, m.ID), c.ledger()}
	switch c.flaw {
	case AcksFirst: // told to the record first, then done
		if err := c.Complete(ctx, m.Consumer, m.ID, time.Now()); err != nil {
			return model.ResultInFlight, err
		}
		return model.ResultApplied, c.client.RPush(ctx, c.ledger(), row).Err()
	case EffectFirst:
		if err := c.client.RPush(ctx, c.ledger(), row).Err(); err != nil {
			return model.ResultInFlight, err
		}
		return model.ResultApplied, c.Complete(ctx, m.Consumer, m.ID, time.Now())
	case DeletesByKey: // a failed delivery gives back what it holds, or what another holds by now
		if err := c.client.RPush(ctx, c.ledger(), row).Err(); err != nil {
			_ = c.client.Del(context.WithoutCancel(ctx), key[0])
			return model.ResultInFlight, err
		}
		return model.ResultApplied, c.Complete(ctx, m.Consumer, m.ID, time.Now())
	}
	answer, err := bookScript.Run(ctx, c.client, key, claim.Token, c.Window.Milliseconds(), row).Text()
	switch {
	case err != nil:
		return model.ResultInFlight, err
	case answer == "fenced":
		return model.ResultInFlight, nil
	}
	return model.ResultApplied, nil
}

func ledgerRow(m model.Message) string {
	return fmt.Sprintf("%d %d %d %s%s%s", len(m.Consumer), len(m.ID), m.Effect.Amount, m.Consumer, m.ID, m.Effect.ID)
}

// RedisLedger counts the effects of a namespace.
func RedisLedger(ctx context.Context, url, namespace string) ([]model.Applied, error) {
	options, err := goredis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := goredis.NewClient(options)
	defer client.Close()
	rows, err := client.LRange(ctx, namespace+":ledger", 0, -1).Result()
	all := make([]model.Applied, 0, len(rows))
	for _, row := range rows {
		var consumer, id int
		var a model.Applied
		parts := strings.SplitN(row, " ", 4)
		if _, err := fmt.Sscan(strings.Join(parts[:3], " "), &consumer, &id, &a.Effect.Amount); err != nil {
			return nil, err
		}
		text := parts[3]
		a.Consumer, a.MessageID, a.Effect.ID = text[:consumer], text[consumer:consumer+id], text[consumer+id:]
		a.Effect.Account = "account"
		all = append(all, a)
	}
	return all, err
}
