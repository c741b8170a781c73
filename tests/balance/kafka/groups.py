"""Groups for the assignors, from a seed, and the promises of every answer, in the words of Kafka's own test suite.

They lean towards hard cases: claims that contradict each other or are out of date, unknown topics, members that want
nothing, fewer partitions than members, racks that fit badly.
"""

from dataclasses import dataclass, replace
from random import Random

from apportion import balance
from apportion.balance.kafka import Assigned, Subscription

RACKS = ("r1", "r2", "r3", "")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The question for an assignor."""

    topics: dict
    members: list
    racks: dict | None = None

    def given(self, name) -> Assigned:
        """Return the answer of an assignor."""
        return balance.get(name)(self.topics, self.members, racks=self.racks)

    def after(self, assigned, *, generation=2, gone=(), new=()):
        """Return the group in its next generation: some gone, some new, the others owning their last partitions."""
        stay = [
            changed(member, owned=assigned.by_member[member.member_id], generation=generation)
            for member in self.members
            if member.member_id not in gone
        ]
        return replace(self, members=[*stay, *new])


def changed(member, **fields):
    """Return a subscription in which some fields differ."""
    names = ("member_id", "topics", "owned", "generation", "group_instance_id", "rack")
    kept = {name: getattr(member, name) for name in names} | fields
    return Subscription(kept.pop("member_id"), **kept)


def case(random: Random, *, equal=None, claims="any", racks=None) -> Case:
    """Return a random group, of one subscription or several, with consistent or arbitrary claims."""
    topics = {name: random.choice([0, 1, 2, 3, 5, 9, 14]) for name in "tuvwx"[: random.randint(1, 5)]}
    ids = [f"{random.choice(['c', 'worker-', 'é'])}{number}" for number in range(random.randint(1, 9))]
    equal = random.random() < 0.5 if equal is None else equal
    racked = random.random() < 0.4 if racks is None else racks
    shared = random.sample(sorted(topics), random.randint(1, len(topics))) + ["nowhere"] * random.randint(0, 1)
    owned = _claims(random, topics, ids, claims)
    members = [
        Subscription(
            member_id,
            topics=shared if equal else random.sample(sorted(topics), random.randint(0, len(topics))),
            owned=owned[member_id],
            generation=1 if claims == "right" else random.choice([-1, 1, 2, 2, 2]),
            group_instance_id=f"s{member_id}" if random.random() < 0.3 else None,
            rack=random.choice(RACKS) if racked and random.random() < 0.8 else None,
        )
        for member_id in ids
    ]
    partitions = [(topic, number) for topic, count in topics.items() for number in range(count)]
    where = {partition: random.sample(RACKS[:3], random.randint(0, 3)) for partition in partitions}
    return Case(topics=topics, members=members, racks=where if racked else None)


def _claims(random, topics, ids, claims):
    owned = {member_id: [] for member_id in ids}
    for topic, count in topics.items():
        for number in range(count):
            owners = 1 if claims == "right" else random.choice([0, 1, 1, 1, 2, 3])
            for member_id in random.sample(ids, min(owners, len(ids))):
                owned[member_id].append((topic, number))
    if claims == "any":
        owned[random.choice(ids)] += [("gone", 0), ("t", 99)]
    return owned


def check_valid(case, assigned):
    """Every wanted partition goes once, to a member that wants it, or waits for its owner to let go."""
    wants = {member.member_id: set(member.topics) for member in case.members}
    wanted = set().union(*wants.values())
    expected = {(topic, number) for topic in wanted for number in range(case.topics.get(topic, 0))}
    given = [partition for row in assigned.by_member.values() for partition in row]
    assert len(given) == len(set(given))
    assert expected == {*given, *assigned.withheld}
    assert expected == {*assigned.by_partition, *assigned.withheld}
    assert not set(given).intersection(assigned.withheld)
    assert set(wants) == set(assigned.by_member)
    for member_id, row in assigned.by_member.items():
        assert {topic for topic, _ in row} <= wants[member_id]
        assert list(row) == sorted(row)
        assert {member_id} >= {assigned.by_partition[partition] for partition in row}
    assert all(partition[0] in wants[to] for partition, (_, to) in assigned.withheld.items())


def check_balanced(case, assigned):
    """No member holds two more than another that wants one of them."""
    for member in case.members:
        heavy = assigned.by_member[member.member_id]
        for other in case.members:
            if len(assigned.by_member[other.member_id]) < len(heavy) - 1:
                assert not {topic for topic, _ in heavy}.intersection(other.topics), (member, other)


def check_no_swaps(before, after):
    """No two members gave each other partitions of one topic."""
    moves = set()
    for partition, owner in before.items():
        taker = after.by_partition.get(partition)
        if taker not in (None, owner) and owner in after.by_member:
            moves.add((partition[0], owner, taker))
    assert not [move for move in moves if (move[0], move[2], move[1]) in moves]


def moves(case, assigned):
    """Return how many partitions left members that are there and owned them."""
    owners = {partition: member.member_id for member in case.members for partition in member.owned}
    return sum(owners.get(partition, owner) != owner for partition, owner in assigned.by_partition.items())


def squares(assigned):
    """Return the sum of the squares of the loads."""
    return sum(len(row) ** 2 for row in assigned.by_member.values())
