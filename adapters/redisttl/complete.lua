-- Make a claim DONE.
-- KEYS: message. ARGV: token or '', window in ms.
-- Answers 'ok', 'absent', 'fenced', or 'done' where another claim is DONE. No claim has an empty token.
local held = redis.call('GET', KEYS[1])
if not held then return 'absent' end
if held == 'p:' .. ARGV[1] then
  redis.call('SET', KEYS[1], 'd:' .. ARGV[1], 'PX', ARGV[2])
  return 'ok'
end
if held == 'd:' .. ARGV[1] then return 'ok' end
if string.sub(held, 1, 2) == 'd:' then return 'done' end
return 'fenced'
