"""A cluster that carries out a schedule, one step at a time, and watches itself after each.

It knows nothing of how schedules are made. It refuses a step that a real cluster could not do.
"""

from collections import Counter
from dataclasses import dataclass

from apportion.model import Copy, Drop, Lead


@dataclass
class Cluster:
    """The nodes that hold each partition live and whole, and its leader; `start` and `goal` are the live lists."""

    up: set
    holders: dict
    leaders: dict
    start: dict
    goal: dict
    floor: int
    recovered: set

    @classmethod
    def before(cls, before, after, floor):
        """Return the cluster that `before` describes, as far as it is live under `after`."""
        up = {node.id for node in after.topology if node.id not in after.down}
        lists = before.preference_lists
        start = {partition: [node for node in owners if node in up] for partition, owners in lists.items()}
        goal = dict(after.preference_lists)
        start |= {partition: [] for partition in goal if partition not in start}
        return cls(
            up=up,
            holders={partition: set(nodes) for partition, nodes in start.items()},
            leaders={
                partition: lists[partition][0] if nodes and lists[partition][0] in up else None
                for partition, nodes in start.items()
            },
            start=start,
            goal=goal,
            floor=floor,
            recovered=set(),
        )

    def copied(self):
        """Return a cluster in the same state."""
        holders = {partition: set(nodes) for partition, nodes in self.holders.items()}
        return Cluster(
            self.up, holders, dict(self.leaders), self.start, self.goal, self.floor, set(self.recovered)
        )  # fmt: skip

    def do(self, step):
        """Do a step, or fail if that cannot be done now."""
        partition, holders = step.partition, self.holders[step.partition]
        match step:
            case Copy(source=source, target=target):
                assert target in self.up
                assert target not in holders, f"{step}: is there"
                assert source in holders if source else not self.start[partition], f"{step}: no source"
                holders.add(target)
            case Lead(node=node, was=was):
                assert node in holders, f"{step}: not whole"
                assert self.leaders[partition] == was != node, f"{step}: {self.leaders[partition]} leads"
                self.leaders[partition] = node
            case Drop(node=node):
                assert node in holders, f"{step}: not there"
                assert partition not in self.goal or self.leaders[partition] != node, f"{step}: leads"
                holders.remove(node)
        self.watch(partition)

    def watch(self, partition):
        """Fail if too little of a partition is live, whichever node dies next."""
        if partition not in self.goal:
            return
        holders, start, goal = self.holders[partition], self.start[partition], self.goal[partition]
        if len(start) > self.floor or len(holders) > self.floor:
            self.recovered.add(partition)
        assert len(holders) >= len(start) or set(holders) >= set(goal)
        for dead in self.up:
            left = holders - {dead}
            if partition in self.recovered and (start or set(goal) <= holders):
                assert len(left) >= self.floor, f"{partition} has {left} once {dead} died"
            as_good = [len(set(nodes) - {dead}) for nodes in (start, goal)]
            assert len(left) >= min(as_good)
        assert self.leaders[partition] in {None, *holders}

    def watch_zones(self, after, level):
        """Fail if the loss of a zone would leave less of a partition than at the start or at the end."""
        for partition, goal in self.goal.items():
            for zone in {after.topology[node].fault_domain(level) for node in self.up}:
                live = [self.holders[partition], self.start[partition], goal]
                left = [sum(after.topology[node].fault_domain(level) != zone for node in nodes) for nodes in live]
                assert left[0] >= min(left[1:])


def roll_out(schedule, before, after, random):
    """Do a schedule wave by wave, each in a random order, and a random half of each wave alone as well."""
    level = None if after.rule is None else after.rule.spread_level
    cluster = Cluster.before(before, after, schedule.floor)
    for number, wave in enumerate(schedule.waves):
        steps = list(wave.steps)
        assert steps
        for _ in range(2):
            random.shuffle(steps)
            partial = cluster.copied()
            for step in steps[: random.randrange(len(steps) + 1)]:
                partial.do(step)
            partial.watch_zones(after, level)
        for step in steps:
            cluster.do(step)
        cluster.watch_zones(after, level)
        if number == 0:
            led = [partition for partition, leader in cluster.leaders.items() if leader is not None]
            held = {partition for partition, nodes in cluster.start.items() if nodes and partition in cluster.goal}
            assert held <= set(led)
    return cluster


def is_like(cluster, after, lost):
    """Whether live nodes hold and lead as in `after`, but for the lost partitions."""
    for partition, nodes in cluster.holders.items():
        owners = () if partition in lost else after.preference_lists.get(partition, ())
        if nodes != set(owners) or (owners and cluster.leaders[partition] != owners[0]):
            return False
    return True


def used(wave, after, throttle):
    """Yield the limits that a wave exceeds, each with its use."""
    level = None if after.rule is None else after.rule.spread_level
    nodes, sizes, zones = Counter(), Counter(), Counter()
    for copy in wave.copies:
        both = [copy.target] if copy.source is None else [copy.source, copy.target]
        for node in both:
            nodes[node] += 1
            sizes[node] += copy.size_bytes or 0
        for zone in {after.topology[node].fault_domain(level) for node in both}:
            zones[zone] += 1
    for limit, most in (
        (throttle.per_node, max(nodes.values(), default=0)),
        (throttle.per_node_bytes, max(sizes.values(), default=0)),
        (throttle.per_zone, max(zones.values(), default=0)),
        (throttle.per_cluster, len(wave.copies)),
    ):
        if limit is not None and most > limit:
            yield most, limit
