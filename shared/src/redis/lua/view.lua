#!lua flags=no-writes
-- view: whether a part has changed since a reader saw it. It changes nothing.
--
-- KEYS  1   the part's hash
-- ARGV  1   the version that the reader has seen, or ''
--
-- Returns
--   {0}       the part is not loaded
--   {1, now}  it still has that version
--   {2, now}  it has another one. The caller reads the hash by HGETALL afterwards. A script would keep Redis busy for four times as long
--
-- The version is the number of known decisions and of fields, and whether the part is closed. Every claim or hold that comes or goes
-- changes one of the numbers. One
-- exception: a hold that gives way to its user's claim of another part, which shows that claim. Most readers have seen the latest
-- version already, and two numbers cost less to read than all claims.

local part, seen = KEYS[1], ARGV[1]
local terms = redis.call('HMGET', part, '$expires_at', '$known_count', '$closed')
if not terms[1] then return {0} end
local closed = terms[3] or '0'
local version = terms[2] .. ':' .. redis.call('HLEN', part) .. ':' .. closed
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {version == seen and 1 or 2, now}
