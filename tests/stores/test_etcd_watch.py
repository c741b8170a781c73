"""One watch of etcd over streams that are scripted: which changes it shows, and when it is opened anew."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from apportion.errors import Compacted, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.stores import Event, StoreChange
from apportion.stores.etcd import watch as watches
from apportion.stores.etcd.messages import text_of, watch_of
from apportion.stores.etcd.watch import Feed
from apportion.stores.etcd.wire import EtcdNoReply, Unreached
from apportion.stores.requests import Space
from tests.stores.test_etcd import event

PATIENCE = 2.0
QUIET = None


def said(*events, **fields):
    """A message of the watched range."""
    return {"result": {"header": {"revision": "9"}, "events": list(events), **fields}}


def life(revision=5, **fields):
    """A message of the second watch of a stream, that of the incarnation."""
    return said(watch_id="1", header={"revision": f"{revision}"}, **fields)


class Stream:
    """Gives messages, or raises those that are errors; then it has ended."""

    def __init__(self, messages, endpoint):
        self._messages, self.endpoint, self.is_open, self.waited = messages, endpoint, True, []

    async def next(self, *, timeout_seconds):
        self.waited.append(timeout_seconds)
        if not self._messages:
            raise EtcdNoReply("the stream has ended")
        message = self._messages.pop(0)
        message = message() if callable(message) else message
        if isinstance(message, Exception):
            raise message
        return message

    async def close(self):
        self.is_open = False


class Scene:
    """A feed after revision 5; the store is at `revision`, and each stream gives what `opens` says."""

    def __init__(self, *opens, after=5):
        self.opens, self.opened, self.asked, self.revision = list(opens), [], [], 9
        self.looks, self.left, self.expired, self.problems, self.now = [], [], 0, [], 0.0
        self.closed = False
        self.wire = SimpleNamespace(patience_seconds=PATIENCE, streams=set(), current=0, leave=self.left.append)
        self.name, self.life = "etcd://h", "the life"
        clock = SimpleNamespace(elapsed=lambda: self.now)
        self.feed = Feed(self, Space("crawl"), "", after=after, origin=self, clock=clock)

    def alive(self):
        if self.problems:
            raise self.problems.pop(0)

    async def open(self, path, body):
        assert path == "/v3/watch"
        first, second = (wanted_by(line) for line in body.splitlines())
        self.asked.append((int(first["start_revision"]), int(second["start_revision"])))
        assert not any(stream.is_open for stream in self.opened), "one stream at a time"
        messages = self.opens.pop(0)
        if isinstance(messages, Exception):
            raise messages
        self.opened.append(Stream(list(messages), self.wire.current))
        return self.opened[-1]

    async def look(self, known):
        assert known == "the life"
        self.looks.append("look")
        return self.revision

    async def look_since(self, since, known):
        assert known == "the life"
        assert 0 <= asyncio.get_running_loop().time() - since < 10
        self.looks.append("since")
        return self.revision

    def same_cluster(self, result):
        if "cluster_id" in result["header"]:
            raise StoreWentBack(self.name, "cluster 7", "its cluster is 8")

    def expire_token(self):
        self.expired += 1

    async def changes(self, count):
        """The next changes: revision, and keys."""
        found = [await self.feed.next() for _ in range(count)]
        return [(change.revision, *(each.key for each in change.events)) for change in found]


def wanted_by(line):
    return json.loads(line)["create_request"]


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """How often the feed had failed at each of its pauses, which take no time."""
    pauses, sleep = [], asyncio.sleep
    monkeypatch.setattr(watches, "pause_seconds", lambda failed: pauses.append(failed) or 0)
    monkeypatch.setattr(watches.asyncio, "sleep", lambda seconds: sleep(0))
    return pauses


def played(story, *opens, **options):
    async def main():
        async with asyncio.timeout(10):
            scene = Scene(*opens, **options)
            await story(scene)
            await scene.feed.aclose()
            assert not any(stream.is_open for stream in scene.opened)

    asyncio.run(main())


def test_a_watch_behind_the_store_begins_one_revision_early_and_shows_what_is_later():
    async def story(scene):
        assert [(6, "a", "b"), (7, "a")] == await scene.changes(2)
        assert ([(5, 10)], [PATIENCE]) == (scene.asked, list({*scene.opened[0].waited}))

    played(story, [said(event(b"c", 5), event(b"b", 6), event(b"a", 6), event(b"a", 7))])


def test_a_watch_asks_for_large_changes_in_parts_and_for_progress_and_for_the_next_life():
    lines = watch_of(b"a", b"b", since=3, life_since=4).splitlines()
    ours, life = (json.loads(line)["create_request"] for line in lines)
    assert (True, True, "3") == (ours["fragment"], ours["progress_notify"], ours["start_revision"])
    assert ("4", False) == (life["start_revision"], ours["key"] == life["key"])


def test_a_watch_from_the_beginning_begins_at_the_first_revision():
    async def story(scene):
        assert [(1, "a")] == await scene.changes(1)
        assert [(1, 10)] == scene.asked

    played(story, [said(event(b"a", 1))], after=0)


def test_a_watch_from_the_future_is_refused():
    async def story(scene):
        scene.revision = 4
        with pytest.raises(StoreWentBack, match="its revision is 4"):
            await scene.feed.next()

    played(story)


def test_what_was_deleted_has_neither_value_nor_lease_and_a_key_that_is_no_text_is_left_out():
    gone = {"type": "DELETE", "kv": {"key": text_of(b"crawl/a"), "mod_revision": "6", "lease": "3"}}
    kept = {"kv": {**event(b"b", 6)["kv"], "lease": "3"}}

    async def story(scene):
        events = (Event(key="a", value=None), Event(key="b", value=b"b", lease=3))
        assert StoreChange(revision=6, events=events) == await scene.feed.next()
        assert [(8, "c")] == await scene.changes(1)

    played(story, [said(kept, gone, event(b"\xff", 6)), said(event(b"\xff", 7)), said(event(b"c", 8))])


def test_a_revision_in_fragments_is_one_change_and_what_came_of_it_before_a_loss_is_forgotten():
    async def story(scene):
        assert [(6, "a"), (7, "b", "c"), (8, "d")] == await scene.changes(3)
        assert [(5, 10), (6, 10)] == scene.asked

    half = said(event(b"a", 6), event(b"b", 7), fragment=True)
    played(story, [half], [said(event(b"b", 7), fragment=True), said(event(b"c", 7), event(b"d", 8))])


def test_a_message_without_events_moves_the_place_to_go_on_from_and_the_first_does_not():
    async def story(scene):
        assert [(9, "a")] == await scene.changes(1)
        assert [(5, 10), (5, 10), (8, 10)] == scene.asked

    created, progress = said(created=True), said(header={"revision": "8"})
    played(story, [created], [progress, said(header={"revision": "7"})], [said(event(b"a", 9))])


def test_a_stream_that_ends_is_opened_again_after_pauses_that_grow_until_something_comes(slept):
    async def story(scene):
        assert [(6, "a"), (7, "b")] == await scene.changes(2)
        assert [0, 1, 2, 3, 0] == slept
        assert [] == scene.left

    errors = [EtcdNoReply("lost"), Unreached("refused"), StoreUnavailable("s", "away")]
    played(story, *errors, [], [said(event(b"a", 6))], [said(event(b"b", 7))])


def test_a_message_that_is_none_of_etcd_leaves_the_server(slept):
    async def story(scene):
        scene.wire.current = 2
        assert [(6, "a")] == await scene.changes(1)
        assert ([2, 2], [0, 1]) == (scene.left, slept)

    played(story, [{"error": {"message": "no leader"}}], [{}], [said(event(b"a", 6))])


def test_another_cluster_or_life_ends_the_watch():
    async def story(scene):
        with pytest.raises(StoreWentBack, match="cluster is 8"):
            await scene.feed.next()

    played(story, [said(header={"revision": "9", "cluster_id": "8"})])


def test_news_of_the_incarnation_are_looked_at_and_its_beginning_is_not():
    async def story(scene):
        assert [(6, "a")] == await scene.changes(1)
        assert ["look", "look"] == scene.looks, "as it was opened, and for the news"

    news = said(event(b"x", 6), watch_id="1")
    played(story, [life(created=True), news, said(event(b"a", 6))])


@pytest.mark.parametrize(
    ("began", "asked", "shown"), [(9, [(10, 10)], [(10, "a")]), (10, [(10, 10), (9, 11)], [(10, "b")])]
)
def test_a_watch_that_has_nothing_to_catch_up_with_begins_at_what_comes_next_unless_that_was_passed(
    began, asked, shown
):
    async def story(scene):
        assert shown == await scene.changes(1)
        assert asked == scene.asked

    def passes():
        scene_revision.append(1)
        return life(began, created=True)

    scene_revision = []

    async def moved(scene):
        async def look(known):
            return 10 if scene_revision else 9

        scene.look = look
        await story(scene)

    played(moved, [said(created=True), said(event(b"a", 10)), passes], [said(event(b"b", 10))], after=9)


def test_changes_are_held_back_until_it_is_known_that_none_was_passed():
    async def story(scene):
        asking = asyncio.create_task(scene.changes(2))
        for _ in range(9):
            await asyncio.sleep(0)
        assert ([(10, "a"), (11, "b")], 3) == (await asking, len(scene.opened[0].waited))

    played(story, [said(event(b"a", 10)), said(event(b"b", 11)), life(9)], after=9)


@pytest.mark.parametrize("watch_id", [None, "1"])
def test_only_the_watched_range_is_called_compacted(watch_id, slept):
    async def story(scene):
        if watch_id is None:
            with pytest.raises(Compacted) as caught:
                await scene.feed.next()
            assert (5, 8) == (caught.value.after, caught.value.oldest)
        else:
            assert [(6, "a")] == await scene.changes(1)
            assert [0] == slept

    ended = said(canceled=True, compact_revision="8", **({"watch_id": watch_id} if watch_id else {}))
    played(story, [ended], [said(event(b"a", 6))])


@pytest.mark.parametrize(("times", "warnings"), [(1, 0), (2, 1), (5, 1)])
def test_a_watch_that_is_denied_again_says_so_once_and_asks_with_a_new_token(times, warnings, caplog):
    async def story(scene):
        assert [(6, "a"), (7, "b")] == await scene.changes(2)
        assert times + 2 == scene.expired
        assert warnings + 1 == len(caplog.records)

    denied = [said(canceled=True, cancel_reason="etcdserver: permission denied")]
    again = [denied, denied, [said(event(b"b", 7))]]
    played(story, *[denied] * times, [said(event(b"a", 6))], *again)


def test_a_watch_that_the_server_ends_is_opened_again_with_the_same_token(caplog):
    async def story(scene):
        assert [(6, "a")] == await scene.changes(1)
        assert (0, 0) == (scene.expired, len(caplog.records))

    played(story, [said(canceled=True)], [said(canceled=True)], [said(event(b"a", 6))])


def test_a_right_that_is_missed_while_opening_is_waited_for(caplog, slept):
    async def story(scene):
        assert [(6, "a")] == await scene.changes(1)
        assert (1, [0, 1]) == (len(caplog.records), slept)

    denied = StoreDenied("s", "this user lacks rights", "hint")
    played(story, denied, denied, [said(event(b"a", 6))])


def test_a_handle_that_is_closed_ends_its_watch_and_a_child_is_told():
    async def story(scene):
        scene.problems = [StoreClosed("s", "it belongs to the parent of this forked process")]
        with pytest.raises(StoreClosed):
            await scene.feed.next()
        assert [(6, "a")] == await scene.changes(1)

        def close():
            scene.closed = True
            return StoreClosed("s")

        scene.opened[0]._messages.append(close)
        assert await scene.feed.next() is None
        assert await scene.feed.next() is None

    played(story, [said(event(b"a", 6))])


def quiet_for(scene, *times):
    """Silences at whose ends the clock shows these times."""

    def until(at):
        def end():
            scene.now = at
            return QUIET

        return end

    return [until(at) for at in times]


def test_a_silent_stream_is_looked_after_and_left_alone_where_nothing_has_happened():
    async def story(scene):
        scene.revision = 5
        scene.opens = [[*quiet_for(scene, 2.0), life(5), *quiet_for(scene, 20.0, 99.0), said(event(b"a", 6))]]
        assert [(6, "a")] == await scene.changes(1)
        assert (["look", "since", "since", "since"], 1) == (scene.looks, len(scene.opened))

    played(story)


def test_a_silent_stream_of_a_server_that_was_left_is_opened_at_the_next():
    async def story(scene):
        def leave():
            scene.wire.current = 1
            return QUIET

        scene.opens[0][0] = leave
        assert [(6, "a")] == await scene.changes(1)
        assert [0, 1] == [stream.endpoint for stream in scene.opened]

    played(story, [QUIET, said(event(b"late", 6))], [said(event(b"a", 6))])


TOO_LATE = said(event(b"late", 6))


def test_a_silent_stream_is_opened_anew_where_the_store_went_on_each_time_later_up_to_a_bound():
    async def story(scene):
        # Opened at 0: behind for 2 s. Then it takes 4, 8, and at most 8 s: four times the patience.
        silences = [(1.9, 2.0), (5.9, 6.0), (13.9, 14.0), (21.9, 22.0), (29.9, 30.0)]
        scene.opens = [[*quiet_for(scene, *each), TOO_LATE] for each in silences]
        scene.opens.append([said(event(b"a", 6)), *quiet_for(scene, 31.9, 32.0), TOO_LATE])
        scene.opens.append([said(event(b"b", 9))])
        assert [(6, "a")] == await scene.changes(1)
        assert 6 == len(scene.opened)
        assert all([TOO_LATE] == stream._messages for stream in scene.opened[:5])
        assert [(9, "b")] == await scene.changes(1), "something came: it takes 2 s again"
        assert 7 == len(scene.opened)

    played(story)


def test_of_very_many_streams_at_most_twenty_a_second_are_opened_anew():
    async def story(scene):
        scene.wire.streams = set(range(1000))
        ends = (2.0, 6.0, 14.0, 30.0, 62.0, 112.0, 162.0)  # at most 50 s each
        scene.opens = [[*quiet_for(scene, end - 0.1, end), TOO_LATE] for end in ends]
        scene.opens.append([said(event(b"a", 6))])
        assert [(6, "a")] == await scene.changes(1)
        assert all([TOO_LATE] == stream._messages for stream in scene.opened[:-1])

    played(story)
