-- Make a message DONE by its current claim, and keep beside it the effect or the result where one is given.
-- KEYS: record, index of DONE, ledger. ARGV: now, token, the effect's ledger row or '', and with a result its bytes.
-- Answers 'ok', 'absent' or 'fenced'. All checks come before the first write, since a script is not rolled back.
local state, token, released = unpack(redis.call('HMGET', KEYS[1], 'state', 'token', 'released'))
if not state then return 'absent' end
if token ~= ARGV[2] then return 'fenced' end
if state == 'DONE' then return 'ok' end
if state ~= 'PROCESSING' or released then return 'fenced' end
redis.call('HSET', KEYS[1], 'state', 'DONE', 'lease', '', 'updated', ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[3]) end
if ARGV[4] then redis.call('HSET', KEYS[1], 'result', ARGV[4]) end
return 'ok'
