-- Claim a message.
-- KEYS: record, counter. ARGV: now, lease end, nonce or '', partitions, this partition.
-- Answers {1 or 0, state, attempts, lease end, updated, token, reason or nil, result or nil}: 1 where the caller holds
-- the claim now. Instants are decimal microseconds and are passed on as the strings they came as: a number that Lua
-- prints itself loses digits after the fourteenth.
local state, attempts, lease, updated, token, nonce, released, reason, result = unpack(redis.call('HMGET', KEYS[1],
  'state', 'attempts', 'lease', 'updated', 'token', 'nonce', 'released', 'reason', 'result'))
if state == 'DONE' or state == 'DEAD' then
  return {0, state, attempts, lease, updated, token, reason, result}
end
if state and tonumber(ARGV[1]) < tonumber(lease) then
  local mine = 0
  if ARGV[3] ~= '' and ARGV[3] == nonce then mine = 1 end
  return {mine, state, attempts, lease, updated, token, reason, result}
end
attempts = string.format('%.0f', (tonumber(attempts or 0)) + 1)
token = string.format('%.0f', redis.call('INCR', KEYS[2]) * tonumber(ARGV[4]) + tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'state', 'PROCESSING', 'attempts', attempts, 'lease', ARGV[2],
  'updated', ARGV[1], 'token', token, 'nonce', ARGV[3])
if released then redis.call('HDEL', KEYS[1], 'released', 'reason') end
return {1, 'PROCESSING', attempts, ARGV[2], ARGV[1], token, false, false}
