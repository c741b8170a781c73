"""Effects: the log of a member that loses a partition names the cause: the target, or the end of its session."""

import logging

import pytest

from apportion.groups.handover import OwnSession
from apportion.groups.holdings import Holdings
from apportion.groups.life.deadlines import Deadlines
from apportion.groups.life.effects import Effects
from apportion.groups.log import log
from apportion.groups.member import Drain, Stop
from apportion.groups.opening import Options
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, Target
from apportion.groups.view.view import View
from apportion.runtime.clock import SystemClock
from apportion.runtime.events import EventStream

TARGET = Target(generation=3, digest="d", owners=("b", None))


@pytest.mark.parametrize(
    ("action", "target", "session", "cause"),
    [
        (Drain(partition=0), TARGET, 1, "target 3 names b"),
        (Drain(partition=1), TARGET, 1, "target 3 names nobody"),
        (Drain(partition=0), None, 1, "our session is over"),
        (Stop(partition=0), TARGET, 1, "its record no longer names our session"),
        (Stop(partition=0), TARGET, 0, "our session is over"),
    ],
    ids=["given to another", "given to nobody", "no target is known", "taken", "stopped"],
)
def test_the_log_says_why_a_partition_is_lost(action, target, session, cause, caplog):
    record = GroupRecord(partitions=2)
    view = View(GroupKeys(group="g"), record)
    view.target = target
    holdings = Holdings(SystemClock(), quiet=lambda _: None, told=lambda: None)
    deadlines = Deadlines(Options(group="g", record=record, member_id="a", member=MemberRecord(nonce="")))
    events = EventStream(log, group="g", member_id="a", clock=SystemClock())
    effects = Effects(view, holdings, deadlines, events)
    with caplog.at_level(logging.INFO, logger="apportion.group"):
        effects.act([action], OwnSession(id="a", session=session), 0.0)
    assert [f"g: a loses {action.partition}: {cause}"] == caplog.messages
