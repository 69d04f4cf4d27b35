-- Prolong a claim that was not given back; never shorten it.
-- KEYS: record. ARGV: token, lease end.
-- Answers {'ok', state, attempts, lease end, updated, token, nil, nil}, 'absent' or 'fenced'.
local state, attempts, lease, updated, token, released = unpack(redis.call('HMGET', KEYS[1],
  'state', 'attempts', 'lease', 'updated', 'token', 'released'))
if not state then return 'absent' end
if state ~= 'PROCESSING' or token ~= ARGV[1] or released then return 'fenced' end
if tonumber(lease) < tonumber(ARGV[2]) then
  lease = ARGV[2]
  redis.call('HSET', KEYS[1], 'lease', lease)
end
return {'ok', state, attempts, lease, updated, token, false, false}
