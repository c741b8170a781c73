"""The zoo: bugs that were put into shipped files, and must be found. Each replaces a text that stands there once."""

from tests.sim.zoo import cron, effects, groups, keys, nemeses, shards, tasks, two_stores
from tests.sim.zoo.cage import Bug

_ON_LEDGER = (
    Bug(
        "a compare with an absent key is not made",
        "stores/ledger.py",
        "            if expected != (None if record is None else record.revision):",
        "            if expected is not None and expected != (None if record is None else record.revision):",
    ),
    Bug(
        "a compare accepts any revision of a key that is there",
        "stores/ledger.py",
        "            if expected != (None if record is None else record.revision):",
        "            if (expected is None) != (record is None):",
    ),
    Bug(
        "only the first compare counts",
        "stores/ledger.py",
        "        for key, expected in request.compares:",
        "        for key, expected in request.compares[:1]:",
    ),
    Bug(
        "a compare holds for an older revision too",
        "stores/ledger.py",
        "            if expected != (None if record is None else record.revision):",
        "            if (record is None) != (expected is None) or (record is not None and expected > record.revision):",
    ),
    Bug(
        "a put under a lease that has ended is done",
        "stores/ledger.py",
        "            if lease is not None and lease not in self.leases:",
        "            if lease is not None and lease >= self.next_lease:",
    ),
    Bug(
        "the end of a lease has no revision of its own",
        "stores/ledger.py",
        "        self.revision += 1\n        records",
        "        self.revision += any(put is not None for _, put in written)\n        records",
    ),
    Bug(
        "an item carries the revision before its own",
        "stores/ledger.py",
        "else Record(value=put[0], revision=self.revision, lease=put[1])",
        "else Record(value=put[0], revision=self.revision - 1, lease=put[1])",
    ),
    Bug(
        "the keys of a lease go one by one",
        "stores/ledger.py",
        "            self._write([(key, None) for key, record in self.records.items() if record.lease == lease])",
        "            for key in [key for key, record in self.records.items() if record.lease == lease]:\n"
        "                self._write([(key, None)])",
    ),
    Bug(
        "an ended lease leaves one of its keys",
        "stores/ledger.py",
        "            self._write([(key, None) for key, record in self.records.items() if record.lease == lease])",
        "            self._write([(key, None) for key, record in self.records.items() if record.lease == lease][:-1])",
    ),
    Bug(
        "a lease ends after a quarter of its time",
        "stores/ledger.py",
        "if held.ends_at <= now]",
        "if held.ends_at - 0.75 * held.ttl_seconds <= now]",
    ),
    Bug(
        "a renewal prolongs nothing",
        "stores/ledger.py",
        "            held.ends_at = now + held.ttl_seconds",
        "            held.ends_at = max(held.ends_at, now)",
    ),
    Bug(
        "a renewal says of every lease that it lives",
        "stores/ledger.py",
        "        return alive\n",
        "        return frozenset(leases)\n",
    ),
    Bug(
        "a renewal brings an ended lease back",
        "stores/ledger.py",
        "        alive = frozenset(leases) & self.leases.keys()\n",
        "        alive = frozenset(leases)\n"
        "        for each in alive - self.leases.keys():\n"
        "            self.leases[each] = Held(ttl_seconds=2.0, ends_at=now)\n",
    ),
    Bug(
        "an ended lease is kept until its keys are gone",
        "stores/ledger.py",
        "        if self.leases.pop(lease, None) is not None:",
        "        if self.leases.get(lease) is not None:",
    ),
    Bug(
        "the end of a lease forgets its keys",
        "stores/ledger.py",
        "        if self.leases.pop(lease, None) is not None:",
        "        if self.leases.pop(lease, None) is None:",
    ),
    Bug(
        "two leases have one id",
        "stores/ledger.py",
        "self.next_lease = self.next_lease, self.next_lease + 1",
        "self.next_lease = self.next_lease, max(1, self.next_lease + 1 - 2 * (self.next_lease % 2))",
    ),
    Bug(
        "the history is read from one too early",
        "stores/ledger.py",
        '        return self.history[bisect_right(self.history, after, key=attrgetter("revision")) :]',
        '        return self.history[max(0, bisect_right(self.history, after, key=attrgetter("revision")) - 1) :]',
    ),
    Bug(
        "the history is read from one too late when two are new",
        "stores/ledger.py",
        '        return self.history[bisect_right(self.history, after, key=attrgetter("revision")) :]',
        '        found = self.history[bisect_right(self.history, after, key=attrgetter("revision")) :]\n'
        "        return found[1:] if len(found) > 1 else found",
    ),
    Bug(
        "a watch goes on over a compaction",
        "stores/ledger.py",
        "        if after < self.compacted:",
        "        if after < 0:",
        seeds=200,
    ),
)

_ON_WRITING = (
    Bug(
        "an item that is written again keeps its first revision",
        "stores/ledger.py",
        "else Record(value=put[0], revision=self.revision, lease=put[1])",
        "else Record(\n"
        "                value=put[0],\n"
        "                revision=self.records[key].revision if key in self.records else self.revision,\n"
        "                lease=put[1],\n"
        "            )",
    ),
    Bug(
        "revisions are counted by the history that is left",
        "stores/ledger.py",
        "        self.revision += 1\n        records",
        "        self.revision = len(self.history) + 1\n        records",
    ),
    Bug(
        "a commit is written put by put",
        "stores/ledger.py",
        "        return self._write(\n",
        "        for key, value, lease in request.puts[1:]:\n"
        "            self._write([(key, (value, lease))])\n"
        "        request = Request(request.compares, request.puts[:1], request.deletes)\n"
        "        return self._write(\n",
    ),
    Bug(
        "a commit that puts forgets to delete",
        "stores/ledger.py",
        "+ [(key, None) for key in request.deletes]",
        "+ [(key, None) for key in request.deletes if not request.puts]",
    ),
    Bug(
        "a commit whose second compare fails has done its first put",
        "stores/ledger.py",
        "                return None\n        for _, _, lease",
        "                if request.puts and key != request.compares[0][0]:\n"
        "                    self._write([(request.puts[0][0], request.puts[0][1:])])\n"
        "                return None\n        for _, _, lease",
    ),
    Bug(
        "a commit under a lease that has ended has done its first put",
        "stores/ledger.py",
        "                raise LeaseLost(lease)",
        "                self._write([(request.puts[0][0], (request.puts[0][1], None))])\n"
        "                raise LeaseLost(lease)",
    ),
)

_ON_MEMORY = (
    Bug(
        "a refused commit is said to have happened",
        "stores/memory/store.py",
        "            return api.Refused(revision=ledger.revision)",
        "            return api.Committed(revision=ledger.revision)",
    ),
    Bug(
        "a commit that happened is said to be refused, now and then",
        "stores/memory/store.py",
        "        if revision is None:\n            return api.Refused",
        "        if revision is None or revision % 7 == 0:\n            return api.Refused",
    ),
    Bug(
        "a commit is acknowledged at the revision before its own",
        "stores/memory/store.py",
        "        return api.Committed(revision=revision)",
        "        return api.Committed(revision=max(1, revision - 1))",
    ),
    Bug(
        "another life of the store is not noticed",
        "stores/memory/store.py",
        "        if ledger.incarnation != incarnation or ledger.revision < revision:",
        "        if ledger.revision < 0:",
        seeds=400,
    ),
    Bug(
        "a scan does not notice leases that have ended",
        "stores/memory/store.py",
        "        return self._memory.now()",
        "        return self._memory.ledger",
    ),
    Bug(
        "a scan says the revision after",
        "stores/memory/store.py",
        "        return api.Scan(items=items, revision=ledger.revision, incarnation",
        "        return api.Scan(items=items, revision=ledger.revision + 1, incarnation",
    ),
    Bug(
        "a scan leaves out the last item",
        "stores/memory/store.py",
        "        return api.Scan(items=items, revision",
        "        return api.Scan(items=items[:-1] if len(items) > 3 else items, revision",
    ),
    Bug(
        "a scan shows the incarnation it knew before",
        "stores/memory/store.py",
        "incarnation=ledger.incarnation)\n\n    async def commit",
        "incarnation=1)\n\n    async def commit",
    ),
    Bug(
        "a watch leaves deletions out",
        "stores/memory/store.py",
        "            if start <= key < end\n        )\n        return api.StoreChange",
        "            if start <= key < end and record is not None\n        )\n        return api.StoreChange",
    ),
    Bug(
        "a watch skips what came while its consumer was busy",
        "stores/memory/store.py",
        "                after = entry.revision\n",
        "                after = max(entry.revision, ledger.revision)\n",
    ),
)

_ON_SQLITE = (
    Bug(
        "a reaper measures from the start of the first read",
        "stores/sqlite/lookout.py",
        "        finished = self._clock.elapsed()\n",
        "        finished = started - 0.5\n",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "a reaper waits for half of the time",
        "stores/reaper.py",
        ">= each.ttl_seconds)",
        ">= each.ttl_seconds / 2)",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "a reaper does not see that a counter has moved",
        "stores/reaper.py",
        "known is not None and known[0] == counter.renewals else",
        "known is not None else",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "a reaper ends nothing",
        "stores/sqlite/lookout.py",
        "        if ended:\n            await",
        "        if not ended:\n            await",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "a reaped lease leaves its keys",
        "stores/sqlite/ledger.py",
        "    if keys:\n",
        "    if not keys:\n",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "an item in the file carries the revision before its own",
        "stores/sqlite/ledger.py",
        "(key, value, revision, lease))\n        connection.execute(sql.ADD_EVENT",
        "(key, value, before.revision, lease))\n        connection.execute(sql.ADD_EVENT",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "the history of the file lacks deletions",
        "stores/sqlite/ledger.py",
        "        connection.execute(sql.ADD_EVENT, (revision, key, value, lease))",
        "        if value is not None:\n            connection.execute(sql.ADD_EVENT, (revision, key, value, lease))",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "a commit does not look which life of the file it is",
        "stores/sqlite/store.py",
        "        if found.incarnation != seen.incarnation or found.revision < seen.revision:",
        "        if found.revision < 0:",
        store="sqlite",
        seeds=100,
    ),
    Bug(
        "a compare in the file is not made when the key is there",
        "stores/sqlite/ledger.py",
        "        if value_of(connection, sql.ITEM_REVISION, (key,)) != expected:",
        "        if (value_of(connection, sql.ITEM_REVISION, (key,)) is None) != (expected is None):",
        store="sqlite",
        seeds=30,
    ),
    Bug(
        "a put in the file under a lease that has ended is done",
        "stores/sqlite/ledger.py",
        "            raise LeaseLost(lease)",
        "            continue",
        store="sqlite",
        seeds=200,
    ),
)

_ON_THE_SINK = (
    Bug(
        "a sink accepts every token",
        "sim/world/sink.py",
        "token >= before[0]",
        "bool(token)",
    ),
)

_ON_THE_MEMBER = (
    Bug(
        "a member does not stand a store that went back",
        "sim/scenarios/store_member.py",
        "except (SessionOver, *_OUTAGES, StoreWentBack, LeaseLost, Compacted) as error",
        "except (SessionOver, *_OUTAGES, LeaseLost, Compacted) as error",
        tree="tests",
    ),
    Bug(
        "a member does not stand a refusal",
        "sim/scenarios/store_member.py",
        "_OUTAGES = (StoreDenied, StoreUnavailable)",
        "_OUTAGES = (StoreUnavailable,)",
        tree="tests",
    ),
)

BUGS = (
    _ON_LEDGER
    + _ON_WRITING
    + _ON_MEMORY
    + _ON_SQLITE
    + _ON_THE_SINK
    + _ON_THE_MEMBER
    + groups.BUGS
    + nemeses.BUGS
    + tasks.BUGS
    + cron.BUGS
    + keys.BUGS
    + two_stores.BUGS
    + effects.BUGS
    + shards.BUGS
)

# What each invariant finds when it is the only one: two bugs at least, or it would count as absent.
FOUND_BY: dict[str, tuple[str, ...]] = {
    "RevisionsGrow": (
        "the end of a lease has no revision of its own",
        "revisions are counted by the history that is left",
    ),
    "ItemsCarryTheirRevision": (
        "an item carries the revision before its own",
        "an item that is written again keeps its first revision",
    ),
    "CommitsAreWhole": ("a commit is written put by put", "a commit that puts forgets to delete"),
    "ComparesHold": ("a compare with an absent key is not made", "only the first compare counts"),
    "AnswersAreTrue": (
        "a refused commit is said to have happened",
        "a commit is acknowledged at the revision before its own",
    ),
    "LiveLeasesStay": ("a lease ends after a quarter of its time", "a reaper waits for half of the time"),
    "EndedLeasesLetGo": ("an ended lease leaves one of its keys", "a reaper ends nothing"),
    "KeysGoWithTheirLease": ("the keys of a lease go one by one", "a put under a lease that has ended is done"),
    "RenewalsAreTrue": ("a renewal says of every lease that it lives", "two leases have one id"),
    "ScansAreHonest": ("a scan says the revision after", "a scan leaves out the last item"),
    "WatchesMissNothing": ("the history is read from one too early", "a watch leaves deletions out"),
    "NobodyFails": (
        "a member does not stand a store that went back",
        "a member does not stand a refusal",
    ),
    "OwnersKeepTheirEpoch": (
        "a compare with an absent key is not made",
        "a compare accepts any revision of a key that is there",
    ),
    "LiveOwnersAreAsked": ("only the first compare counts", "a compare holds for an older revision too"),
    "SinksAreFenced": ("a sink accepts every token", "a scan shows the incarnation it knew before"),
    **groups.FOUND_BY,
    **tasks.FOUND_BY,
    **cron.FOUND_BY,
    **keys.FOUND_BY,
    **effects.FOUND_BY,
    **shards.FOUND_BY,
}
