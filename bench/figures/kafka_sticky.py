"""`kafka.sticky` beside kafka-python's sticky assignor: ten topics, all members want all of them, one member leaves.

At 50 members and 50 000 partitions kafka-python takes about a minute, so that it runs once there, between two halves of
our rounds; at a tenth of the size both run in turn. It starts from user data that is decoded already, and we from pairs
of which subscriptions are yet to be made. Both end in what each member gets, by its id. A million partitions at 2 000
members are measured alone. It has no native twin.
"""

from collections.abc import Mapping
from gc import collect
from statistics import median
from time import perf_counter_ns

from apportion.balance import get
from apportion.balance.kafka import Assigned, Subscription
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane
from bench.goal import at_least, at_most
from bench.peers import kafka_python
from bench.row import Row, not_measured

ROUNDS = 7
RATIO_GOAL, TIME_GOAL = at_least(500, "x kafka-python"), at_most(4, "s")
NAME = "kafka.sticky"

sticky = get("kafka.sticky")


def rows() -> list[Row]:
    """Measure the peer at two sizes, and ourselves at the large one too."""
    found = [not_measured(NAME, kafka_python.ABSENT, RATIO_GOAL)] if kafka_python.ABSENT else [_small(), _middling()]
    return [*found, *_large()]


def _small() -> Row:
    topics, owned = _group(topics=10, partitions=500, members=50)
    theirs = kafka_python.StickyGroup(topics, owned)
    times = race({"theirs": theirs.assign, "ours": lambda: _assign(topics, owned).by_member}, rounds=3)
    ratio = speed_ratio(times["theirs"], times["ours"])
    shown = f"{ratio.shown('x kafka-python', digits=0)}, {spread(times['ours'], calls=10**6).shown('ms')}"
    return Row(name=f"{NAME}, 50 x 5 000, one leaves", value=ratio.median, shown=shown)


def _middling() -> Row:
    topics, owned = _group(topics=10, partitions=5_000, members=50)
    theirs = kafka_python.StickyGroup(topics, owned)
    times = _times(topics, owned)
    began = perf_counter_ns()
    loads = theirs.assign()
    their_time = perf_counter_ns() - began
    times += _times(topics, owned)
    _check(kafka_python.DESCRIBED, list(loads.values()))
    ratio = their_time / median(times)
    least, most = their_time / max(times), their_time / min(times)
    ours = spread(times, calls=10**6).shown("ms", digits=0)
    shown = f"{ratio:.0f} x {kafka_python.DESCRIBED} ({least:.0f}..{most:.0f}), {ours}, {their_time / 1e9:.1f} s"
    name = f"{NAME}, 50 x 50 000, one leaves"
    return Row(name=name, value=ratio, shown=shown, goal=str(RATIO_GOAL), met=RATIO_GOAL.is_met(ratio))


def _large() -> list[Row]:
    topics = {f"topic-{number:03}": 2_000 for number in range(500)}
    first: list[int] = []
    nobody: dict[str, tuple[tuple[str, int], ...]] = {f"consumer-{number:04}": () for number in range(2_000)}
    for _ in range(3):
        _time(topics, nobody, first)
    owned = dict(_assign(topics, nobody).by_member)
    del owned["consumer-0005"]
    later: list[int] = []
    for _ in range(3):
        _time(topics, owned, later)
    named = (("from nothing", first), ("one leaves", later))
    return [
        Row(
            name=f"{NAME}, 2 000 x 1 000 000, {what}",
            value=median(times) / 1e9,
            shown=spread(times, calls=10**9).shown("s", digits=2),
            goal=str(TIME_GOAL),
            met=TIME_GOAL.is_met(median(times) / 1e9),
        )
        for what, times in named
    ]


def _group(*, topics: int, partitions: int, members: int) -> tuple[dict[str, int], kafka_python.Owned]:
    """Return topics, and what each member owns once one has left."""
    counts = {f"topic-{number:02}": partitions for number in range(topics)}
    owned = dict(_assign(counts, {f"consumer-{number:02}": () for number in range(members)}).by_member)
    del owned["consumer-05"]
    return counts, owned


def _assign(topics: Mapping[str, int], owned: kafka_python.Owned) -> Assigned:
    """Make the subscriptions and assign."""
    members = [
        Subscription(member_id, topics=topics, owned=theirs, generation=kafka_python.GENERATION)
        for member_id, theirs in owned.items()
    ]
    assigned: Assigned = sticky(topics, members)
    return assigned


def _times(topics: Mapping[str, int], owned: kafka_python.Owned) -> list[int]:
    times: list[int] = []
    for _ in range(ROUNDS):
        _time(topics, owned, times)
    return times


def _time(topics: Mapping[str, int], owned: kafka_python.Owned, times: list[int]) -> None:
    collect()
    began = perf_counter_ns()
    found = _assign(topics, owned).by_member
    times.append(perf_counter_ns() - began)
    _check("kafka.sticky", [len(row) for row in found.values()])
    if any(not set(theirs) <= set(found[member_id]) for member_id, theirs in owned.items()):
        raise NotSane("kafka.sticky took a partition from a member that stays")


def _check(name: str, loads: list[int]) -> None:
    if max(loads) - min(loads) > 1:
        raise NotSane(f"{name} leaves loads of {min(loads)} to {max(loads)}")
