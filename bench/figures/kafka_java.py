"""`kafka.sticky` beside Kafka's Java client: 50 consumers, 10 topics, 50 000 partitions; one of the consumers leaves.

Both are asked in turn, Java warm and by its own clock; what they answer is compared first. For information.
"""

from time import perf_counter_ns

from apportion import balance
from apportion.balance.kafka import Subscription
from bench.clock import speed_ratio, spread
from bench.contender import NotSane
from bench.jvm import VERSIONS, Absent, Oracle, oracle
from bench.row import Row, native_row, not_measured

CONSUMERS, TOPICS, PARTITIONS = 50, 10, 50_000
ROUNDS, CALLS, WARM_UP = 5, 5, 30
NAME = f"kafka.sticky, {CONSUMERS} x {PARTITIONS}, one leaves ({VERSIONS['kafka']})"


def rows() -> list[Row]:
    """Race both."""
    try:
        with oracle() as java:
            return [_row(java)]
    except Absent as absent:
        return [not_measured(NAME, str(absent))]


def _row(java: Oracle) -> Row:
    sticky, names = balance.get("kafka.sticky"), [f"topic-{number}" for number in range(TOPICS)]
    topics = dict.fromkeys(names, PARTITIONS // TOPICS)
    members = [Subscription(f"consumer-{number:02}", topics=names) for number in range(CONSUMERS)]
    before = sticky(topics, members).by_member
    left = [
        Subscription(member.member_id, topics=names, owned=before[member.member_id], generation=1)
        for member in members[:-1]
    ]
    case = {
        "assignor": "sticky",
        "topics": topics,
        "members": [
            {"id": member.member_id, "topics": names, "owned": member.owned, "generation": 1} for member in left
        ],
    }
    _check(java.ask(case)["answer"], sticky(topics, left).by_member)
    java.median_ns(case, calls=1, warmup=WARM_UP)
    theirs_ns, ours_ns = [], []
    for _ in range(ROUNDS):
        theirs_ns.append(java.median_ns(case, calls=CALLS))
        start = perf_counter_ns()
        _ = sticky(topics, left).by_member
        ours_ns.append(perf_counter_ns() - start)
    ratio = speed_ratio(ours_ns, theirs_ns)
    ours_ms, java_ms = spread(ours_ns, calls=1_000_000), spread(theirs_ns, calls=1_000_000)
    shown = f"{ratio.shown('x Java', digits=2)}, {ours_ms.shown('ms', digits=0)} beside {java_ms.shown('ms', digits=0)}"
    return native_row(NAME, ratio.median, shown, None)


def _check(theirs: object, ours: object) -> None:
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        raise NotSane("no answer")
    for member, owned in theirs["members"].items():
        if {(topic, number) for topic, number in owned} != set(ours[member]):
            raise NotSane(f"Java gives {member} other partitions than kafka.sticky does")
