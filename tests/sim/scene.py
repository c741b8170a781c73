"""A scene: a group of workers in a world, told step by step, each transition held against the group's invariants."""

import asyncio

from apportion.groups.opening import Options
from apportion.groups.settled import is_at_rest
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord
from apportion.groups.view.view import View
from apportion.sim import World
from apportion.sim.invariants import groups
from apportion.sim.invariants.orphans import BoundedOrphan
from apportion.sim.invariants.store import ALL
from apportion.sim.world.network import STORE
from apportion.sim.world.sink import Sink
from apportion.stores import Scan
from tests.sim.scenarios.group import watched
from tests.sim.scenarios.group_worker import GroupWorker, Habits

GROUP, KEYS = "g", GroupKeys(group="g")
TTL_SECONDS, GRACE_SECONDS = 2.0, 3.0
PATIENCE_SECONDS = 30.0
HABITS = Habits(most_seconds=0.05, listens=False, is_deaf=False)


class Scene:
    """Workers by the name of their process, with the content of the store and of their guarded sink.

    All invariants of groups are checked, and those of `held`; or only those of `alone`, if that is not None.
    """

    def __init__(self, seed, *, partitions=4, held=(), alone=(), **options):
        self.world = World(seed, invariants=alone if held is None else (*ALL, *groups.INVARIANTS, BoundedOrphan, *held))
        self.sink, self.workers = Sink(self.world), {}
        self.post = Post(self.world)
        self.told = watched(self.world.trace)
        self._options = {
            "record": GroupRecord(partitions=partitions),
            "ttl_seconds": TTL_SECONDS,
            "settle_seconds": 0.0,
        } | options
        self._view, self._partitions = View(KEYS, GroupRecord(partitions=partitions)), partitions

    def __enter__(self):
        self.world.__enter__()
        self.told.__enter__()
        return self

    def __exit__(self, *error):
        self.told.__exit__(*error)
        self.world.__exit__(*error)

    def start(self, *processes, member_id=None, weight=1.0, habits=HABITS, dies=lambda _: None, **options):
        """Start processes, or new lives of them; each is a member of its own name, unless an id is given."""
        for process in processes:
            grace = GRACE_SECONDS if options.get("is_static") else 0.0
            member = MemberRecord(nonce="", weight=weight, grace_seconds=grace)
            given = self._options | {"group": GROUP, "member_id": member_id or process, "member": member} | options
            worker = GroupWorker(process, self.world, self.sink, Options(**given), habits, spare=False, dies=dies)
            self.workers[process] = worker
            self.world.spawn(process, worker.run())

    def begin(self, *processes, **options):
        """Start processes, and wait until they share the partitions."""
        self.start(*processes, **options)
        self.until_settled(*processes)

    def driver(self, process):
        """Return the driver of a process now."""
        return self.workers[process].driver

    def spawn(self, process, work):
        """Let a process do something more."""
        return self.world.spawn(process, work)

    def leave(self, *processes):
        """Let processes leave, all at once, and end each once it has."""
        for process in processes:
            self.spawn(process, self.workers[process].leave())
        there = set(processes)
        while there:
            self.wait(0.005)
            gone = sorted(there - self.view.members.keys())
            self.wait(0.1 if gone else 0.0)  # for what it gives back after its record
            for process in gone:
                self.world.kill(process)
            there.difference_update(gone)

    def drain(self, member_id, *, by):
        """Let somebody ask a member for its partitions."""
        self.spawn(by, self.workers[by].drain(member_id))

    def undrain(self, member_id, *, by):
        """Let somebody withdraw that request."""
        self.spawn(by, self.workers[by].undrain(member_id))

    async def stalled(self, process, partition, seconds, came):
        """Work on a partition, and deaf to all write at its end under the token of its beginning."""
        driver = self.driver(process)
        token, hold = driver.holdings.enter(partition)
        await asyncio.sleep(seconds)
        came.append(await self.sink.write(token))
        driver.holdings.leave(hold)

    def wait(self, seconds):
        """Let time go by."""
        self.world.run(until=self.world.now + seconds)

    def until(self, is_so, *, seconds=PATIENCE_SECONDS, step=0.005):
        """Wait until something is so; return how long it took."""
        began = self.world.now
        while not is_so():
            assert self.world.now < began + seconds, self.view.own
            self.wait(step)
        return self.world.now - began

    def until_settled(self, *members, **limits):
        """Wait until these members share the partitions, and each was written under its present ownership."""
        return self.until(lambda: self.is_settled(*members), **limits)

    def is_settled(self, *members):
        """Whether these members share the partitions, and work on them."""
        view = self.view
        return set(view.members) == set(members) and is_at_rest(view) and self.unserved() == set()

    def unserved(self):
        """Return the partitions that have an owner, and were not written under its token yet."""
        own, written = self.view.own, {each: self.written(each) for each in range(self._partitions)}
        return {
            each
            for each, owned in own.items()
            if owned.ownership.owner is not None
            and (written[each] is None or written[each].epoch != owned.ownership.epoch)
        }

    def written(self, partition):
        """Return the token under which a partition was written last."""
        return self.sink.accepted.get(f"{GROUP}/{partition}", (None,))[0]

    @property
    def view(self):
        """The present content of the store."""
        history, now = self.world.checker.history, self.world.now
        live = tuple(item for key, item in history.items.items() if key.startswith(KEYS.live))
        self._view.load(Scan(items=live, revision=history.revision, incarnation=history.incarnation), now)
        return self._view

    def owners(self):
        """Return the owner of each partition, its session and its epoch."""
        owned = {each: owned.ownership for each, owned in sorted(self.view.own.items())}
        return {each: (own.owner, own.session, own.epoch) for each, own in owned.items()}

    def unowned(self):
        """Return the partitions without an owner that lives."""
        view = self.view
        return [each for each in range(self._partitions) if not view.is_live(view.owned(each).ownership)]

    def owned_by(self, member_id):
        """Return the partitions of a member."""
        return {each for each, (owner, _, _) in self.owners().items() if owner == member_id}

    def held(self, process):
        """Return the partitions that a process may work on, as it sees them itself."""
        found = []

        async def look():
            driver = self.driver(process)
            found.append(set() if driver is None else set(driver.holdings))

        self.world.run(self.spawn(process, look()))
        return found[0]


class Post:
    """Keeps single commits back: `keep(which, seconds)` delays the next one that `which` says yes to."""

    def __init__(self, world):
        self._world, self._journeys = world, world.network.journeys
        self._kept, self._seen = [], 0
        self.delayed = []
        world.network.journeys = self._sent

    def keep(self, which, seconds):
        """Let the next commit of which `which(asked)` says so take so many seconds more."""
        self._kept.append((which, seconds))

    def _sent(self, source, target):
        journeys, attempts = self._journeys(source, target), self._world.checker.history.attempts
        newest = next(reversed(attempts.values()), None)
        if target != STORE or newest is None or newest.asked.call == self._seen:
            return journeys
        self._seen = newest.asked.call
        for kept in self._kept:
            which, seconds = kept
            if which(newest.asked):
                self._kept.remove(kept)
                self.delayed.append(newest)
                return tuple(each + seconds for each in journeys)
        return journeys
