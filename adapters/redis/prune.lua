-- Forget the records among KEYS that are still DONE and older than a cut-off.
-- KEYS: index of DONE, then the records. ARGV: cut-off.
-- Answers how many went. The index was read by an earlier call, so each record is looked at again; an index entry
-- whose record is not DONE (evicted, or removed by hand, and perhaps claimed anew) goes and its record stays.
local before, removed = tonumber(ARGV[1]), 0
for i = 2, #KEYS do
  local score = redis.call('ZSCORE', KEYS[1], KEYS[i])
  if score and tonumber(score) < before then
    if redis.call('HGET', KEYS[i], 'state') == 'DONE' then
      redis.call('DEL', KEYS[i])
      removed = removed + 1
    end
    redis.call('ZREM', KEYS[1], KEYS[i])
  end
end
return removed
