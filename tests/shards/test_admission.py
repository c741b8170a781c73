"""Admission: a new connection costs no question on the noted timeline, and a refusal holds for a second."""

import pytest

from apportion.errors import StoreWentBack
from apportion.shards.meta import ShardMeta
from apportion.shards.timeline import admission
from apportion.shards.timeline.admission import REST_SECONDS, Admission
from apportion.shards.timeline.timeline import Timeline, went_back

META = ShardMeta(set_id="world", shard="one", slots=64, hasher="xxh3-64", format=1)
FIRST, SECOND, THIRD = [Timeline(cluster="7", number=number) for number in (1, 2, 3)]


class Store:
    """A control store that has noted one timeline, and notes others once it is told to."""

    def __init__(self, monkeypatch):
        self.noted, self.asked, self.accepts, self.now = FIRST, [], False, 100.0
        monkeypatch.setattr(admission, "monotonic", lambda: self.now)
        self.admission = Admission(meta=META, has_left=lambda: False, noted=lambda: self.noted, ask=self.ask)

    def ask(self, found, rows):
        self.asked.append((found, rows))
        if not self.accepts:
            raise went_back(("world", "one"), self.noted, found, ["it is another cluster"])
        self.noted = found

    def check(self, found):
        self.admission.check(found, lambda: "rows")

    def refused(self, found):
        with pytest.raises(StoreWentBack, match="another cluster") as caught:
            self.check(found)
        assert "accept-failover" in caught.value.hint
        return caught.value


@pytest.fixture
def store(monkeypatch):
    return Store(monkeypatch)


def test_the_noted_timeline_and_a_standby_of_its_cluster_need_no_question(store):
    store.check(FIRST)
    store.check(Timeline(cluster="7", number=0))
    assert [] == store.asked


def test_another_timeline_is_asked_for_once(store):
    store.accepts = True
    store.check(SECOND)
    store.check(SECOND)
    assert [(SECOND, "rows")] == store.asked


def test_a_refusal_holds_for_a_second_and_each_caller_gets_an_error_of_its_own(store):
    first, second = store.refused(SECOND), store.refused(SECOND)
    assert first is not second
    assert 1 == len(store.asked)
    store.refused(THIRD)
    assert 2 == len(store.asked)
    store.now += REST_SECONDS
    store.accepts = True
    store.check(THIRD)
    assert 3 == len(store.asked)
