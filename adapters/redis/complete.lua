-- Make a message DONE, whoever holds it.
-- KEYS: record, index of DONE. ARGV: now.
-- Answers 'ok' or 'absent'. A record that is DONE keeps its time.
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'absent' end
if state ~= 'DONE' then
  redis.call('HSET', KEYS[1], 'state', 'DONE', 'lease', '', 'updated', ARGV[1])
  redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
end
return 'ok'
