package broken

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

// The flaws of a [Redis], beside None.
const (
	DriverRetries Flaw = "driver-retries"  // go-redis sends a call again whose reply was lost: its default
	LockDeletes   Flaw = "released-by-key" // a completion deletes the record
	PruneByScore  Flaw = "prune-by-score"  // the index is scored by the claim
	TokenRestarts Flaw = "token-restarts"  // the token is the attempt, and attempts start again after prune
	WholeSeconds  Flaw = "whole-seconds"   // the lease is told to the server in whole seconds
	OneCell       Flaw = "one-cell"        // whatever stands under the message is taken for DONE
	SetThenExpire Flaw = "set-then-expire" // the claim is one call, its end another
	TokenOfHandle Flaw = "token-of-handle" // the token is counted in the process that claims
)

// Redis is a home-made store on Redis, as a team writes it in an afternoon: one script a call, one hash a message.
// It is safe for concurrent use.
type Redis struct {
	flaw      Flaw
	client    *goredis.Client
	namespace string

	mu     sync.Mutex
	claims map[string]int // by row, of this handle
}

// RedisContract is what its maker knows of it: numbers in Lua are doubles, so that instants are microseconds.
func RedisContract() model.Contract { return model.Contract{Precision: time.Microsecond} }

// OpenRedis opens a handle that dials addr.
func OpenRedis(url string, flaw Flaw, namespace, addr string) (*Redis, error) {
	options, err := goredis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	options.Addr, options.MaxRetries = addr, -1
	if flaw == DriverRetries {
		options.MaxRetries = 0 // which means three
	}
	return &Redis{flaw: flaw, client: goredis.NewClient(options), namespace: namespace, claims: map[string]int{}}, nil
}

// Close ends the connections.
func (r *Redis) Close() error { return r.client.Close() }

// row is the key of one message; the length keeps the two parts apart.
func (r *Redis) row(consumer, id string) string {
	if r.flaw == KeysJoined {
		return fmt.Sprintf("%s:row:%s:%s", r.namespace, consumer, id)
	}
	return fmt.Sprintf("%s:row:%d:%s%s", r.namespace, len(consumer), consumer, id)
}

func (r *Redis) index() string { return r.namespace + ":done" }

// record turns what a script answered into a record.
func record(answer any) (r model.Record, yes bool) {
	fields := answer.([]any)
	text := func(i int) string { return fmt.Sprint(fields[i]) }
	instant := func(i int) time.Time {
		us, _ := strconv.ParseInt(text(i), 10, 64)
		if us == 0 {
			return time.Time{}
		}
		return time.UnixMicro(us)
	}
	r.State, r.Token = model.State(text(1)), text(3)
	r.Attempts, _ = strconv.Atoi(text(2))
	r.LeaseUntil, r.UpdatedAt = instant(4), instant(5)
	return r, text(0) == "1"
}

const tell = `
local function tell(yes) local r = redis.call('HMGET', KEYS[1], 'state', 'attempts', 'token', 'until', 'updated')
	return {yes, r[1], r[2], r[3], r[4], r[5]} end
`

var beginScript = goredis.NewScript(tell + `
local now, till = tonumber(ARGV[1]), tonumber(ARGV[1]) + tonumber(ARGV[2])
local r = redis.call('HMGET', KEYS[1], 'state', 'until', 'attempts')
if r[1] == 'DONE' or r[1] == 'PROCESSING' and now < tonumber(r[2]) then return tell(0) end
local attempts = r[1] and r[3] + 1 or 1
local token = ARGV[3] == 'attempts' and attempts or ARGV[3] ~= '' and ARGV[3] or redis.call('INCR', KEYS[2] .. ':token')
redis.call('HSET', KEYS[1], 'state', 'PROCESSING', 'attempts', attempts, 'token', token,
	'claimed', ARGV[1], 'until', string.format('%.0f', till), 'updated', ARGV[1])
return tell(1)`)

var completeScript = goredis.NewScript(`
local r = redis.call('HMGET', KEYS[1], 'state', 'token', 'claimed')
if not r[1] then return 'not-found' end
if ARGV[2] ~= '' and ARGV[2] ~= r[2] then return 'fenced' end
if r[1] == 'DONE' then return 'ok' end
if ARGV[4] ~= '' then redis.call('RPUSH', KEYS[2] .. ':ledger', ARGV[4]) end
if ARGV[3] == 'delete' then redis.call('DEL', KEYS[1]) return 'ok' end
redis.call('HSET', KEYS[1], 'state', 'DONE', 'until', 0, 'updated', ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[3] == 'claimed' and r[3] or ARGV[1], KEYS[1])
return 'ok'`)

var pruneScript = goredis.NewScript(`
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[1])
for _, row in ipairs(old) do redis.call('DEL', row) redis.call('ZREM', KEYS[1], row) end
return #old`)

// Begin claims.
func (r *Redis) Begin(ctx context.Context, consumer, id string, now time.Time, lease time.Duration) (model.Record, bool, error) {
	if r.flaw == TwoSteps || r.flaw == GetThenSet {
		return r.beginInSteps(ctx, consumer, id, now, lease)
	}
	token, asked := "", lease
	switch r.flaw {
	case TokenRestarts:
		token = "attempts"
	case TokenOfHandle:
		token = r.count(r.row(consumer, id))
	case WholeSeconds:
		asked = lease.Truncate(time.Second)
	case SetThenExpire:
		asked = noEnd
	}
	answer, err := beginScript.Run(ctx, r.client, []string{r.row(consumer, id), r.index()}, now.UnixMicro(), asked.Microseconds(), token).Result()
	if err != nil {
		return model.Record{}, false, err
	}
	told, claimed := record(answer)
	switch {
	case claimed && r.flaw == SetThenExpire:
		told.LeaseUntil = now.Add(lease)
		err = r.client.HSet(ctx, r.row(consumer, id), "until", told.LeaseUntil.UnixMicro()).Err()
	case !claimed && r.flaw == OneCell:
		told.State = model.Done
	}
	return told, claimed && err == nil, err
}

// count numbers what this process asks of a message: another one, or the next, starts again.
func (r *Redis) count(row string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[row]++
	return strconv.Itoa(r.claims[row])
}

// noEnd is the lease of a claim that has no end yet.
const noEnd = 100 * 365 * 24 * time.Hour

// Complete completes by key.
func (r *Redis) Complete(ctx context.Context, consumer, id string, now time.Time) error {
	return r.complete(ctx, consumer, id, now, "", "")
}

// CompleteClaim completes by claim.
func (r *Redis) CompleteClaim(ctx context.Context, consumer, id string, claim model.Record, now time.Time) error {
	if claim.Token == "" { // which the script takes for "by key"
		return model.ErrFenced
	}
	return r.complete(ctx, consumer, id, now, claim.Token, "")
}

func (r *Redis) complete(ctx context.Context, consumer, id string, now time.Time, token, effect string) error {
	how := ""
	switch r.flaw {
	case LockDeletes:
		how = "delete"
	case PruneByScore:
		how = "claimed"
	}
	return refusalOf(completeScript.Run(ctx, r.client, []string{r.row(consumer, id), r.index()}, now.UnixMicro(), token, how, effect).Text())
}

// Prune forgets.
func (r *Redis) Prune(ctx context.Context, before time.Time) (int, error) {
	return pruneScript.Run(ctx, r.client, []string{r.index()}, before.UnixMicro()).Int()
}
