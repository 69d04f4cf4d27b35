-- Make a message DONE, whoever holds it.
-- KEYS: record, index of DONE. ARGV: now.
-- Answers 'ok', 'absent', or 'fenced' for a dead letter. A record that is DONE keeps its time.
local state, released = unpack(redis.call('HMGET', KEYS[1], 'state', 'released'))
if not state then return 'absent' end
if state == 'DEAD' then return 'fenced' end
if state ~= 'DONE' then
  redis.call('HSET', KEYS[1], 'state', 'DONE', 'lease', '', 'updated', ARGV[1])
  if released then redis.call('HDEL', KEYS[1], 'released', 'reason') end
  redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
end
return 'ok'
