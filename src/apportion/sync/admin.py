# Generated from groups/admin/facade.py by `python -m generate`; change that file, and generate anew.
"""Admin as programs use it, without an event loop: questions and acts of an operator, from any process.

    from apportion.sync import admin

    admin.drain("sqlite:///work.db", "mailers", "worker-2")
    for group, left in admin.left_over("sqlite:///work.db", "mailers", "worker-2"):
        print(f"worker-2 owns {left} of {group.record.partitions} partitions")

Each call opens the store of a URL on the I/O thread, and closes it at the end. All calls raise the errors of
`stores.connect`. They raise `InvalidInput` if no store was made yet. For an unknown group or member,
`UnknownOption` gives the nearest name. An act is one commit; `resize` and `repair` may take more. If an act may have
happened, the hint of `StoreUnavailable` says so.
The async twin of this file is `groups/admin/facade.py`.
"""

from collections.abc import Callable, Generator

from apportion.groups.admin import acts
from apportion.groups.admin.alive import looked_at
from apportion.groups.admin.apply import Applied, carry_out, check_possible
from apportion.groups.admin.found import Found, asked, followed
from apportion.groups.admin.found import read as read_group
from apportion.groups.admin.found import read_all as read_every_group
from apportion.groups.admin.history import HistoryLine
from apportion.groups.admin.member_plan import MemberPlan
from apportion.groups.admin.plan import TargetChange, change_to, members_of
from apportion.groups.admin.repair import Repaired, mend
from apportion.model.topology import Topology
from apportion.runtime.io_thread import io_thread
from apportion.stores.catalog import administration, shown_url
from apportion.stores.on_thread import PulledWatch


def read_all(url: str) -> list[Found]:
    """Return every group of a store. O(records), and at most 1 s per group for its history."""
    return io_thread().wait(asked(url, read_every_group))


def read(url: str, name: str) -> Found:
    """Return a group: its record, members, target and owners. O(records), and at most 1 s for its history.

    In stores where members end each other's leases, the call waits until one member has renewed its lease, for at most
    half a `lease_ttl`. If no member has, `Found.unseen` lists all members, and the group does not count as settled.
    """
    return io_thread().wait(asked(url, looked_at, administration(url), name))


def explain(url: str, name: str, partition: int) -> acts.Explained:
    """Return the state of a partition, the step that the partition waits for, and its history.

    `InvalidInput` for a partition that the group does not have. O(records), and at most 6 s for the history.
    """
    return io_thread().wait(asked(url, acts.explain, name, partition))


def history(url: str, name: str, partition: int) -> tuple[HistoryLine, ...]:
    """Return the changes of a partition that the store still keeps, oldest first. Cost and errors: see `explain`."""
    return (explain(url, name, partition)).history


def watch(url: str, name: str) -> Generator[HistoryLine, None, None]:
    """Yield each change of a group from now on; the generator ends only when the caller leaves the loop."""
    changes = PulledWatch(followed(url, acts.told, name))
    try:
        while (line := io_thread().wait(changes.next())) is not None:
            yield line
    finally:
        changes.send_end(io_thread())


def plan(url: str, name: str, change: Callable[[Topology], Topology]) -> TargetChange:
    """Return the moves that a change of the members would cause, as the controller will compute them. Writes nothing.

    `change` gets the members as the controller counts them. A member that drains weighs 0. An absent static member
    counts while the target names it. For example, `lambda members: members.drain("b")` returns the members after a
    drain. `InvalidInput` if no target was written yet. Costs one run of the balancer, in the calling thread.
    """
    found = io_thread().wait(asked(url, read_group, name))
    return change_to(found, change(members_of(found)))


def apply(url: str, plan: MemberPlan) -> Applied:
    """Carry out a plan in one commit: drain members and forget static members. A plan can be carried out once.

    `PlanRefused`: the plan has a part that only a process can do, for example to join. `StaleEpoch`: the group has
    changed since the plan was made, and the message names the changes. With either error nothing was changed. The call
    does not wait: see `left_over`.
    """
    check_possible(plan)
    return io_thread().wait(asked(url, carry_out, plan, shown_url(url)))


def drain(url: str, name: str, member_id: str) -> Found:
    """Ask a member for all its partitions; return the group as it was read before. Does not wait: see `left_over`.

    The member stays, and gets no partition until its process joins again, or until `undrain`. A second request
    changes nothing.
    """
    return io_thread().wait(asked(url, acts.drain, name, member_id, shown_url(url)))


def undrain(url: str, name: str, member_id: str) -> Found:
    """Withdraw the request of `drain`, so that the member gets partitions again; return the group as it was before.

    Nothing changes for a member without such a request. `InvalidInput` for a member that leaves by itself.
    """
    return io_thread().wait(asked(url, acts.undrain, name, member_id, shown_url(url)))


def left_over(url: str, name: str, member_id: str) -> Generator[tuple[Found, int], None]:
    """Yield the group and a member's number of partitions, at first and at each new number, until the number is 0.

    The generator ends when the member owns nothing and the target gives it nothing, or when the member is gone. Each
    step yields the same group object, brought up to date.
    """
    changes = PulledWatch(followed(url, acts.left_over, name, member_id))
    try:
        while (step := io_thread().wait(changes.next())) is not None:
            yield step
    finally:
        changes.send_end(io_thread())


def forget(url: str, name: str, member_id: str) -> None:
    """Forget an absent static member, so that others get its partitions at once. This cannot be undone.

    If its process comes back, it joins as a new member. `InvalidInput` for a live member.
    """
    io_thread().wait(asked(url, acts.forget, name, member_id, shown_url(url)))


def release(url: str, name: str, partition: int) -> int:
    """Let the next owner take a partition at once, after earlier owners died. Return the number of these deaths.

    The call returns 0 and changes nothing if the partition has no deaths. `InvalidInput` for a partition
    that the group does not have.
    """
    return io_thread().wait(asked(url, acts.release, name, partition, shown_url(url)))


def resize(url: str, name: str, partitions: int) -> Found:
    """Give a group another number of partitions; return the group as it was before. No epoch goes back.

    `Unsafe` while the group has a live member, `InvalidInput` for a number that no group can have.
    """
    return io_thread().wait(asked(url, acts.resize, name, partitions, shown_url(url)))


def repair(url: str, name: str) -> Repaired:
    """Write each damaged record of a group anew, or delete it, in one commit per record. No token is given twice.

    Reads the history in the store a few times, each time for at most 60 s. `Repaired.is_whole` says whether the last
    reading came to its end.
    """
    return io_thread().wait(asked(url, mend, name, shown_url(url)))
