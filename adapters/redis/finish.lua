-- Make a message DONE by its current claim, and write the effect beside it where one is given.
-- KEYS: record, index of DONE, ledger. ARGV: now, token, and with an effect its ledger row.
-- Answers 'ok', 'absent' or 'fenced'. All checks come before the first write, since a script is not rolled back.
local state, token = unpack(redis.call('HMGET', KEYS[1], 'state', 'token'))
if not state then return 'absent' end
if token ~= ARGV[2] then return 'fenced' end
if state == 'DONE' then return 'ok' end
redis.call('HSET', KEYS[1], 'state', 'DONE', 'lease', '', 'updated', ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
if ARGV[3] then redis.call('RPUSH', KEYS[3], ARGV[3]) end
return 'ok'
