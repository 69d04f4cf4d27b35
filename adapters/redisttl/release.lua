-- Give a claim back, at once or after a while; the claim that gave it back may say so again.
-- KEYS: message. ARGV: token, ms until it is claimable, reason.
-- Answers 'ok', 'absent' or 'fenced'.
local held = redis.call('GET', KEYS[1])
if not held then return 'absent' end
local back = 'r:' .. ARGV[1] .. ':'
if held ~= 'p:' .. ARGV[1] and string.sub(held, 1, #back) ~= back then return 'fenced' end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], back .. ARGV[3], 'PX', ARGV[2])
end
return 'ok'
