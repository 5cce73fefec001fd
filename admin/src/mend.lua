-- mend: deletes keys of a part that have a value of the wrong type, and puts the part back into its queue. The reconcile that
-- follows takes it out again if it holds nothing.
-- Nothing of the engine is lost: it never changes the type of a key. So another program has replaced what was there.
--
-- KEYS  1   the part's hash
--       2   its bitmap of known decisions
--       3   the list of its free slips
--       4   its hash of tries
--       5   its load lease
--       6   its partition's queue
-- ARGV  1   the part's name
--       2   the time, in milliseconds
--
-- Returns how many keys were deleted

local deleted = 0

local function check(key, answer)
  if type(answer) == 'table' and answer.err:find('WRONGTYPE') then
    deleted = deleted + redis.call('DEL', key)
  end
end

check(KEYS[1], redis.pcall('HLEN', KEYS[1]))
check(KEYS[2], redis.pcall('GET', KEYS[2]))
check(KEYS[3], redis.pcall('LLEN', KEYS[3]))
check(KEYS[4], redis.pcall('HLEN', KEYS[4]))
check(KEYS[5], redis.pcall('GET', KEYS[5]))
check(KEYS[6], redis.pcall('ZCARD', KEYS[6]))

-- NX: a part that is in its queue keeps its place.
redis.call('ZADD', KEYS[6], 'NX', ARGV[2], ARGV[1])
return deleted
