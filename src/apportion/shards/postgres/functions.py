"""The functions of a shard in PostgreSQL: the fence of a transaction, and the guard of each row.

    accepts    whether this shard accepts slots under a version of the table; takes the shared lock of each slot
    await      waits for the lock of a slot that a mover holds: 2 s, or half of a shorter statement_timeout
    fence      the first statement of a transaction that writes: accepts, or raises
    read       the first statement of a transaction that only reads: takes no lock, works on a standby
    guard      the trigger of rows, for writers with a fence and for those without
    keep       the trigger that refuses TRUNCATE

They raise AP001 if the slot moved, is unknown, or wants a newer version. They raise AP002 while a switch is under way,
and AP003 for a row of a slot that this transaction did not fence. They belong to the role that made the set; every role
may call them.

Promises: an accepted transaction ends before a mover fences its slot, at each isolation level. Lock and read are two
statements, because one statement would read a snapshot that is older than the lock. At other levels than READ
COMMITTED, the snapshot stays the same, so the row is locked too.
Source: https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS
"""

from apportion.shards.pin import SWITCH_SECONDS

# ruff: noqa: S608 - every statement is ours

LOCK_CLASS = 1095783764
"""The first number of the advisory lock of a slot; the second one is the slot."""

MOVED, SWITCHING, FOREIGN = "AP001", "AP002", "AP003"

_OWNED = "state = 'owner' AND (my_number IS NULL OR number IS NULL OR (life, number) <= (my_life, my_number))"
_AWAITED = "state = 'incoming' AND number IS NOT NULL AND (life, number) <= (my_life, my_number)"
_SAFE = "LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog"
_CALLER = "slots smallint[], my_life bigint, my_number bigint"
_NAMES = "DECLARE s smallint; is_taken boolean; is_waiting boolean; said text;"

# A role may have a statement_timeout. The wait ends before that time. So the caller tries the lock again, and the
# program gets no error of a cancelled statement.
AWAIT = f"""CREATE OR REPLACE FUNCTION apportion.await(slot smallint) RETURNS void
{_SAFE} SET lock_timeout = '{SWITCH_SECONDS * 1000:.0f}ms' AS $$
BEGIN
  PERFORM set_config('lock_timeout', setting::integer / 2 || 'ms', true) FROM pg_settings
  WHERE name = 'statement_timeout' AND setting::integer BETWEEN 1 AND {SWITCH_SECONDS * 2000:.0f};
  PERFORM pg_advisory_xact_lock_shared({LOCK_CLASS}, slot);
END $$"""

# There is one statement per slot, because the plan for one slot is kept. A plan for an array is made anew at each call.
# A free lock is taken in an expression, which costs less than a statement. Each expression has a snapshot of its own.
_TAKE = f"""FOREACH s IN ARRAY slots LOOP
    IF NOT pg_try_advisory_xact_lock_shared({LOCK_CLASS}, s) THEN PERFORM apportion.await(s); END IF;
  END LOOP;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM 1 FROM apportion.slot WHERE slot = ANY (slots) ORDER BY slot FOR SHARE;
  END IF;
  FOREACH s IN ARRAY slots LOOP
    SELECT {_OWNED}, {_AWAITED} INTO is_taken, is_waiting FROM apportion.slot WHERE slot = s;
    CONTINUE WHEN is_taken;
    IF is_waiting THEN
      UPDATE apportion.slot SET state = 'owner' WHERE slot = s AND {_AWAITED};
      SELECT {_OWNED} INTO is_taken FROM apportion.slot WHERE slot = s; -- another first writer may have made it owner
    END IF;
    EXIT WHEN is_taken IS NOT TRUE;
  END LOOP;"""

ACCEPTS = f"""CREATE OR REPLACE FUNCTION apportion.accepts({_CALLER}) RETURNS boolean
{_SAFE} AS $$
{_NAMES}
BEGIN
  {_TAKE}
  RETURN is_taken IS TRUE;
END $$"""

_ADMITTED = f"""IF is_taken IS NOT TRUE THEN
    RAISE EXCEPTION 'apportion: stale route' USING ERRCODE = CASE
      WHEN EXISTS (SELECT FROM apportion.slot WHERE slot = ANY (slots) AND state = 'fenced')
      THEN '{SWITCHING}' ELSE '{MOVED}' END;
  END IF;
  said := set_config('apportion.slots', array_to_string(slots, ','), true);"""

FENCE = f"""CREATE OR REPLACE FUNCTION apportion.fence({_CALLER}) RETURNS void
{_SAFE} AS $$
{_NAMES}
BEGIN
  {_TAKE}
  {_ADMITTED}
END $$"""

READ = f"""CREATE OR REPLACE FUNCTION apportion.read({_CALLER}) RETURNS void
{_SAFE} AS $$
{_NAMES}
BEGIN
  FOREACH s IN ARRAY slots LOOP
    SELECT ({_OWNED}) OR ({_AWAITED}) INTO is_taken FROM apportion.slot WHERE slot = s;
    EXIT WHEN is_taken IS NOT TRUE;
  END LOOP;
  {_ADMITTED}
END $$"""

GUARD = f"""CREATE OR REPLACE FUNCTION apportion.guard() RETURNS trigger
{_SAFE} AS $$
DECLARE mine text := coalesce(current_setting('apportion.slots', true), '');
        bare text := coalesce(current_setting('apportion.bare', true), '');
        mover text := coalesce(current_setting('apportion.mover', true), '');
        kept record; s smallint;
BEGIN
  IF TG_OP = 'DELETE' THEN kept := OLD; ELSE kept := NEW; END IF;
  IF pg_typeof(kept.slot) <> 'smallint'::regtype THEN -- a cast that another role made would run with our rights
    RAISE EXCEPTION 'apportion: the slot of a row is a smallint' USING ERRCODE = '{FOREIGN}';
  END IF;
  s := kept.slot;
  IF mover <> '' THEN
    IF mover IS DISTINCT FROM current_setting('apportion.moving', true) THEN
      IF NOT EXISTS (SELECT FROM apportion.fences WHERE position || ' ' || holder || ' ' || resource = mover) THEN
        RAISE EXCEPTION 'apportion: this mover is not the newest' USING ERRCODE = '{MOVED}';
      END IF;
      PERFORM set_config('apportion.moving', mover, true);
    END IF;
    RETURN kept;
  END IF;
  IF TG_OP = 'UPDATE' AND OLD.slot <> NEW.slot THEN
    RAISE EXCEPTION 'apportion: a row keeps its slot' USING ERRCODE = '{FOREIGN}';
  END IF;
  IF s IS NULL THEN
    RAISE EXCEPTION 'apportion: a row needs a slot' USING ERRCODE = '{FOREIGN}';
  END IF;
  IF strpos(',' || mine || ',' || bare || ',', ',' || s || ',') > 0 THEN RETURN kept; END IF;
  IF mine <> '' THEN
    RAISE EXCEPTION 'apportion: slot % is not fenced here', s USING ERRCODE = '{FOREIGN}';
  END IF;
  IF NOT apportion.accepts(ARRAY[s], NULL, NULL) THEN
    RAISE EXCEPTION 'apportion: stale route' USING ERRCODE = '{MOVED}';
  END IF;
  IF length(bare) > 1000 THEN bare := ''; END IF; -- to ask anew costs less than to search a long list
  PERFORM set_config('apportion.bare', bare || ',' || s, true);
  RETURN kept;
END $$"""

KEEP = f"""CREATE OR REPLACE FUNCTION apportion.keep() RETURNS trigger
{_SAFE} AS $$
BEGIN
  RAISE EXCEPTION 'apportion: TRUNCATE is refused, delete the rows of a slot' USING ERRCODE = '{FOREIGN}';
END $$"""

FUNCTIONS = (AWAIT, ACCEPTS, FENCE, READ, GUARD, KEEP)
