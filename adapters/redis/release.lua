-- Give a claim back.
-- KEYS: record. ARGV: now, token, instant from which the message is claimable, reason.
-- Answers 'ok', 'absent' or 'fenced'. The token stays, so that the owner may release again; the nonce goes, or it would
-- still answer as the owner.
local state, token = unpack(redis.call('HMGET', KEYS[1], 'state', 'token'))
if not state then return 'absent' end
if state ~= 'PROCESSING' or token ~= ARGV[2] then return 'fenced' end
redis.call('HSET', KEYS[1], 'lease', ARGV[3], 'updated', ARGV[1], 'nonce', '', 'released', '1', 'reason', ARGV[4])
return 'ok'
