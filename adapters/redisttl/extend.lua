-- Prolong a claim; never shorten it.
-- KEYS: message. ARGV: token, lease in ms.
-- Answers 'ok', 'absent' or 'fenced'.
local held = redis.call('GET', KEYS[1])
if not held then return 'absent' end
if held ~= 'p:' .. ARGV[1] then return 'fenced' end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 'ok'
