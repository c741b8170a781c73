"""The plug-ins against a real Kafka broker: three consumers share a topic, one is killed with -9, one joins.

Every consumer is a process. Messages are sent all the while, and each must be read by some consumer. In a cooperative
group, a consumer that keeps a partition is not disturbed: it reads each message once, and hears of no revocation.
"""

import os
from collections import Counter
from importlib.util import find_spec
from signal import SIGCONT, SIGSTOP

import pytest

from bench.jvm import Absent
from tests.live.kafka_rig import Broker, Consumers

pytestmark = pytest.mark.live

PARTITIONS, FIRST = 12, ("a", "b", "c")


def absent(why):
    """Skip without an engine, and fail where everything must run."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


def needs(*packages):
    """Skip by the name of the missing program."""
    for package in packages:
        if find_spec(package) is None:
            absent(f"no {package}: pip install {package}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker for all tests of this file."""
    needs("kafka")
    try:
        running = Broker(tmp_path_factory.mktemp("kafka"))
    except Absent as why:
        absent(str(why))
    with running:
        yield running


class Play:
    """A group on a topic of its own, and the messages sent to it."""

    def __init__(self, broker, tmp_path, name, **clients):
        from kafka import KafkaProducer
        from kafka.admin import KafkaAdminClient, NewTopic

        self.topic, self.sent, self.part = name, 0, {}
        admin = KafkaAdminClient(bootstrap_servers=broker.address)
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
        admin.close()
        self._producer = KafkaProducer(bootstrap_servers=broker.address, linger_ms=0)
        self.group = Consumers(broker.address, group=name, topic=name, errors=tmp_path / "errors", **clients)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.group.__exit__()
        self._producer.close()

    def send(self):
        """Send two messages to each partition."""
        for _ in range(2):
            for number in range(PARTITIONS):
                self._producer.send(self.topic, str(self.sent).encode(), partition=number)
                self.part[self.sent] = number
                self.sent += 1
        self._producer.flush()

    def settled(self, *names):
        """Wait until these own all partitions, as evenly as can be; send meanwhile. Return the owners."""

        def is_settled():
            self.send()
            owned = [number for name in names for number in self.group.owned(name)]
            loads = [len(self.group.owned(name)) for name in names]
            return sorted(owned) == list(range(PARTITIONS)) and max(loads) - min(loads) <= 1

        self.group.wait(is_settled, f"{names} share all partitions")
        return {name: set(self.group.owned(name)) for name in names}

    def all_read(self):
        """Wait until every message was read; return how often each was."""
        self.group.wait(lambda: set(range(self.sent)) <= set(self.group.read()), "every message is read")
        return Counter(self.group.read())


def played(play):
    """Let three start, one be killed, one join; return the owners after each."""
    for name in FIRST:
        play.group.start(name)
    three = play.settled(*FIRST)
    play.group.mark()
    play.group.kill("b")
    two = play.settled("a", "c")
    without_b = play.group.mark()
    play.group.start("d")
    again = play.settled("a", "c", "d")
    return three, two, again, without_b, play.group.mark()


def stayed(before, after):
    """Return how many partitions those kept that are in both."""
    return {name: len(before[name] & after[name]) for name in before if name in after}


@pytest.mark.parametrize("client", ["kafka_python", "aiokafka"])
def test_a_sticky_group_gives_members_back_what_they_had_and_loses_no_message(broker, tmp_path, client):
    needs(*["aiokafka"] * (client == "aiokafka"))
    with Play(broker, tmp_path, f"sticky-{client}", client=client, assignor="Sticky") as play:
        three, two, again, *_ = played(play)
        play.all_read()
    assert [4, 4, 4] == [len(owned) for owned in three.values()]
    assert {"a": 4, "c": 4} == stayed(three, two)
    assert {"a": 4, "c": 4} == stayed(two, again)


@pytest.mark.parametrize(
    ("first", "last"), [("StickyPartitionAssignor", "Sticky"), ("Sticky", "StickyPartitionAssignor")]
)
def test_a_change_between_kafka_python_s_own_assignor_and_ours_moves_nothing_more(broker, tmp_path, first, last):
    with Play(broker, tmp_path, f"from-{first}", client="kafka_python", assignor=first) as play:
        for name in FIRST:
            play.group.start(name)
        names, before = list(FIRST), play.settled(*FIRST)
        for old, new in zip(FIRST, "def", strict=True):
            play.group.kill(old)
            names.remove(old)
            fewer = play.settled(*names)
            assert dict.fromkeys(names, 4) == stayed(before, fewer)
            play.group.start(new, assignor=last)
            before = play.settled(*names, new)
            assert dict.fromkeys(names, 4) == stayed(fewer, before)
            names.append(new)
        play.all_read()


def test_a_cooperative_group_of_kafka_python_does_not_disturb_who_keeps_a_partition(broker, tmp_path):
    with Play(broker, tmp_path, "cooperative", client="kafka_python", assignor="Cooperative") as play:
        three, two, again, without_b, with_d = played(play)
        read = play.all_read()
    assert {"a": 4, "c": 4} == stayed(three, two)
    assert {"a": 4, "c": 4} == stayed(two, again)
    assert [] == [event for event in without_b if event.get("revoked") or event.get("lost")]
    revoked = sorted(number for event in with_d for number in event.get("revoked", ()))
    assert sorted(again["d"]) == revoked
    untouched = (three["a"] & again["a"]) | (three["c"] & again["c"])
    assert 4 <= len(untouched)
    assert {1} == {read[message] for message, number in play.part.items() if number in untouched}


def test_a_group_of_both_clients_does_not_disturb_those_that_can_read_on(broker, tmp_path):
    needs("aiokafka")
    with Play(broker, tmp_path, "mixed", client="kafka_python", assignor="Cooperative") as play:
        play.group.start("b", client="aiokafka")
        play.settled("b")
        # aiokafka's consumer was first, so it leads; once it is killed, another one of kafka-python's does.
        play.group.start("a")
        play.group.start("c")
        three = play.settled(*FIRST)
        play.group.mark()
        play.group.start("d", client="aiokafka")
        four = play.settled(*FIRST, "d")
        with_d = play.group.mark()
        play.group.kill("b")
        without_b = play.settled("a", "c", "d")
        killed_b = play.group.mark()
        play.all_read()
    assert {"a": 3, "b": 3, "c": 3} == stayed(three, four)
    assert {"a": 3, "c": 3, "d": 3} == stayed(four, without_b)
    revoked = [len(event["revoked"]) for event in with_d if event.get("revoked") and event["name"] in "ac"]
    assert 2 == sum(revoked)
    assert [] == [event for event in killed_b if event["name"] in "ac" and (event.get("revoked") or event.get("lost"))]


def test_cooperative_consumers_that_lost_their_sessions_are_waited_for_by_nobody(broker, tmp_path):
    with Play(broker, tmp_path, "lost", client="kafka_python", assignor="Cooperative") as play:
        for name in "ab":
            play.group.start(name)
        before = play.settled("a", "b")
        play.group.send(SIGSTOP, "a", "b")
        play.group.start("c")
        play.settled("c")
        # All members that may still hold a partition are gone. Two that hold none claim all of them.
        play.group.kill("c")
        play.group.start("d")
        play.group.send(SIGCONT, "a", "b")
        after = play.settled("a", "b", "d")
        play.all_read()
    assert {"a": 4, "b": 4} == stayed(before, after)
