-- Give a message up.
-- KEYS: record. ARGV: now, token, reason.
-- Answers 'ok', 'absent' or 'fenced'. A letter that this claim buried keeps its first reason.
local state, token, released = unpack(redis.call('HMGET', KEYS[1], 'state', 'token', 'released'))
if not state then return 'absent' end
if token ~= ARGV[2] then return 'fenced' end
if state == 'DEAD' then return 'ok' end
if state ~= 'PROCESSING' or released then return 'fenced' end
redis.call('HSET', KEYS[1], 'state', 'DEAD', 'lease', '', 'updated', ARGV[1], 'nonce', '', 'reason', ARGV[3])
return 'ok'
