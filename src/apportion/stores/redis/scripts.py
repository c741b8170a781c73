"""Lua scripts: each request is one script. The server runs a script whole, and runs nothing else at the same time.

A MULTI transaction of Redis would not do: it cannot choose its writes by the values that it reads.

All names start with `apportion:` and belong to one database of one server:

    apportion:meta      hash: format, fingerprint, incarnation, revision, compacted, bytes (of history), lease (last id)
    apportion:items     hash: key -> "<revision> <lease or nothing> <value>"
    apportion:keys      sorted set of all keys, for prefixes
    apportion:attached  sorted set: key with the id of its lease as score
    apportion:leases    hash: id -> "<renewals> <milliseconds to live>"
    apportion:history   stream: entry <revision>-0 holds the new state of each key that the revision changed

Promises: a script that fails has written nothing. When memory is full, the server refuses the first write of a script
(HINCRBY, HSET). A script that ends or renews leases begins with HDEL. The server allows HDEL also when memory is
full, so no member loses its lease for lack of memory.

The first argument of each script is the fingerprint of the server. Most scripts then take the incarnation and the
highest revision that the caller knows. Such a script replies 'back' if the store has another incarnation or a lower
revision. The comment above each script lists the arguments after the fingerprint and, after `->`, the reply. Numbers
are doubles in Lua: revisions, incarnations and lease ids stay below 2**53.
"""

NAMES = tuple(f"apportion:{name}" for name in ("meta", "items", "keys", "attached", "leases", "history"))
FORMAT = 1
KEPT_REVISIONS = 10_000
KEPT_BYTES = 64_000_000

# Two incarnations of a store never give the same lease id: ids start anew above incarnation * 2048.
_PRELUDE = """
local meta, items, keys, attached, leases, history = unpack(KEYS)
local function number(field) return tonumber(redis.call('HGET', meta, field) or 0) end
local function digits(value) return string.format('%.0f', value) end
"""

_KNOWN = f"""{_PRELUDE}
local incarnation, revision = number('incarnation'), number('revision')
if incarnation ~= tonumber(ARGV[2]) or revision < tonumber(ARGV[3]) then return {{'back', revision, incarnation}} end
"""

_ENTER = f"""
local function enter()
  local format = redis.call('HGET', meta, 'format')
  if format and format ~= '{FORMAT}' then return {{'format', format}} end
  if redis.call('HGET', meta, 'fingerprint') == ARGV[1] then return nil end
  local time = redis.call('TIME')
  local incarnation = math.max(number('incarnation') + 1, time[1] * 1000 + math.floor(time[2] / 1000))
  redis.call('HSET', meta, 'format', '{FORMAT}', 'fingerprint', ARGV[1], 'incarnation', digits(incarnation),
    'lease', digits(math.max(number('lease'), incarnation * 2048)))
end
"""

# `writes` is a list of {key, lease or '', value or nil for deleted}, sorted by key.
_WRITE = f"""
local function forget_oldest()
  local size = number('bytes')
  while redis.call('XLEN', history) > 1 and (redis.call('XLEN', history) > {KEPT_REVISIONS} or size > {KEPT_BYTES}) do
    local oldest = redis.call('XRANGE', history, '-', '+', 'COUNT', 1)[1]
    redis.call('XDEL', history, oldest[1])
    redis.call('HSET', meta, 'compacted', string.match(oldest[1], '^%d+'))
    size = redis.call('HINCRBY', meta, 'bytes', -#oldest[2][2])
  end
end
local function write(writes)
  local revision = digits(redis.call('HINCRBY', meta, 'revision', 1))
  local parts = {{}}
  for _, each in ipairs(writes) do
    local key, lease, value, packed = each[1], each[2], each[3], ''
    redis.call('ZREM', attached, key)
    if value then
      packed = revision .. ' ' .. lease .. ' ' .. value
      redis.call('HSET', items, key, packed)
      redis.call('ZADD', keys, 0, key)
      if lease ~= '' then redis.call('ZADD', attached, lease, key) end
    else
      redis.call('HDEL', items, key)
      redis.call('ZREM', keys, key)
    end
    parts[#parts + 1] = struct.pack('>I4I4', #key, #packed) .. key .. packed
  end
  local change = table.concat(parts)
  redis.call('XADD', history, revision .. '-0', 'c', change)
  redis.call('HINCRBY', meta, 'bytes', #change)
  forget_oldest()
  return tonumber(revision)
end
"""

# -> ok, revision, incarnation
ENTER = _PRELUDE + _ENTER + "return enter() or {'ok', number('revision'), number('incarnation')}"

# start, end -> ok, revision, incarnation, {key, packed, ...}
SCAN = (
    _PRELUDE
    + _ENTER
    + """
local other = enter()
if other then return other end
local found, listed = redis.call('ZRANGEBYLEX', keys, '[' .. ARGV[2], '(' .. ARGV[3]), {}
for first = 1, #found, 1000 do
  local last = math.min(first + 999, #found)
  local packed = redis.call('HMGET', items, unpack(found, first, last))
  for index = first, last do
    listed[#listed + 1] = found[index]
    listed[#listed + 1] = packed[index - first + 1]
  end
end
return {'ok', number('revision'), number('incarnation'), listed}
"""
)

# incarnation, revision, number of compares, (key, revision or '') of each compare,
# (key, 'put' or 'delete', lease or '', value) of each write -> ok, revision; or refused, revision, key; or lost, lease
COMMIT = (
    _KNOWN
    + _WRITE
    + """
local writes_at = 5 + 2 * tonumber(ARGV[4])
for at = 5, writes_at - 1, 2 do
  local packed = redis.call('HGET', items, ARGV[at])
  if (packed and string.match(packed, '^%d+') or '') ~= ARGV[at + 1] then
    return {'refused', number('revision'), ARGV[at]}
  end
end
local writes = {}
for at = writes_at, #ARGV, 4 do
  local lease = ARGV[at + 2]
  if lease ~= '' and redis.call('HEXISTS', leases, lease) == 0 then return {'lost', lease} end
  writes[#writes + 1] = {ARGV[at], lease, ARGV[at + 1] == 'put' and ARGV[at + 3] or nil}
end
return {'ok', write(writes)}
"""
)

# incarnation, revision to begin after, most entries -> ok, {{id, {'c', change}}, ...}; or compacted, revision
SINCE = (
    _KNOWN
    + """
local after, revision = tonumber(ARGV[3]), number('revision')
if after < number('compacted') then return {'compacted', number('compacted')} end
local entries = redis.call('XRANGE', history, '(' .. ARGV[3] .. '-0', '+', 'COUNT', ARGV[4])
if revision > after and (not entries[1] or entries[1][1] ~= digits(after + 1) .. '-0') then
  return {'compacted', revision}
end
return {'ok', entries}
"""
)

# incarnation, revision, milliseconds to live, id or 0 -> ok, id
GRANT = (
    _KNOWN
    + """
local lease = ARGV[5]
if lease == '0' then
  lease = digits(redis.call('HINCRBY', meta, 'lease', 1))
end
if redis.call('HEXISTS', leases, lease) == 0 then
  redis.call('HSET', leases, lease, '0 ' .. ARGV[4])
end
return {'ok', lease}
"""
)

# incarnation, revision, ids of leases -> ok, {id of a lease that is still there, ...}
RENEW = (
    _KNOWN
    + """
local alive = {}
for at = 4, #ARGV do
  local held = redis.call('HGET', leases, ARGV[at])
  if held then
    local renewals, ttl = string.match(held, '^(%d+) (%d+)$')
    redis.call('HDEL', leases, ARGV[at])
    redis.call('HSET', leases, ARGV[at], digits(renewals + 1) .. ' ' .. ttl)
    alive[#alive + 1] = ARGV[at]
  end
end
return {'ok', alive}
"""
)

# incarnation, revision, (id, renewals seen or '' for any number) of each lease -> ok, revision
END = (
    _KNOWN
    + _WRITE
    + """
for at = 4, #ARGV, 2 do
  local lease = ARGV[at]
  local held = redis.call('HGET', leases, lease)
  if held and (ARGV[at + 1] == '' or string.match(held, '^%d+') == ARGV[at + 1]) then
    redis.call('HDEL', leases, lease)
    local writes = {}
    for _, key in ipairs(redis.call('ZRANGEBYSCORE', attached, lease, lease)) do
      writes[#writes + 1] = {key, ''}
    end
    if #writes > 0 then write(writes) end
  end
end
return {'ok', number('revision')}
"""
)

# After a restore from a copy: the server is the same, and its data is older. -> ok, incarnation before, and now
RESTORED = (
    _PRELUDE
    + _ENTER
    + """
local before = number('incarnation')
redis.call('HDEL', meta, 'fingerprint')
return enter() or {'ok', before, number('incarnation')}
"""
)
