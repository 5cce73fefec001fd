-- outbox: the holds of a part, except the youngest.
--
-- KEYS  1   the part's hash
-- ARGV  1   the least age of a hold in milliseconds. If the packet's grabs are answered on the hot store's word, it does not
--           count: no grab commits these holds, so there is nobody to wait for
--
-- Returns {user, hold, user, hold, ...}; a hold is h<slip>:<at>, then ':' and the reason if it is parked

local part, least = KEYS[1], tonumber(ARGV[1])
if redis.call('HGET', part, '$ack_mode') == 'redis' then least = 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local all, holds = redis.call('HGETALL', part), {}
for i = 1, #all, 2 do
  if all[i + 1]:sub(1, 1) == 'h' and all[i]:sub(1, 1) ~= '#' then
    -- A hold from the future is one of another server, before a failover: its age is unknown.
    local age = now - (tonumber(all[i + 1]:match(':(%d+)')) or 0)
    if age >= least or age < 0 then holds[#holds + 1], holds[#holds + 2] = all[i], all[i + 1] end
  end
end
return holds
