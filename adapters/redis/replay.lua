-- Open a dead letter again.
-- KEYS: record, counter. ARGV: now, partitions, this partition.
-- Answers 'ok', 'absent', or the state of a record that is no dead letter. The token that nobody is told is what makes
-- every earlier claim stale.
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'absent' end
if state ~= 'DEAD' then return state end
local token = string.format('%.0f', redis.call('INCR', KEYS[2]) * tonumber(ARGV[2]) + tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'state', 'PROCESSING', 'lease', ARGV[1], 'updated', ARGV[1], 'token', token)
redis.call('HDEL', KEYS[1], 'reason')
return 'ok'
