package broken

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

var releaseScript = goredis.NewScript(`
local r = redis.call('HMGET', KEYS[1], 'state', 'token')
if not r[1] then return 'not-found' end
if r[1] ~= 'PROCESSING' or ARGV[1] ~= '' and ARGV[1] ~= r[2] then return 'fenced' end
redis.call('HSET', KEYS[1], 'until', ARGV[2], 'updated', ARGV[3], 'reason', ARGV[4])
return 'ok'`)

// Release gives a claim back. The flaw ReleasesByKey asks for no token, as a lock is deleted by its name.
func (r *Redis) Release(ctx context.Context, consumer, id string, claim model.Record, now, visibleAt time.Time, reason string) error {
	token := claim.Token
	switch {
	case r.flaw == ReleasesByKey:
		token = ""
	case token == "": // which the script takes for "by key"
		return model.ErrFenced
	}
	return refusalOf(releaseScript.Run(ctx, r.client, []string{r.row(consumer, id)}, token, visibleAt.UnixMicro(), now.UnixMicro(), reason).Text())
}

// refusalOf is what a script answered as an error.
func refusalOf(answer string, err error) error {
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
