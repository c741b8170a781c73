"""Standing: the step that a partition waits for until its wanted owner has it, with advice.

Promises: a standing repeats the facts of the store. It cannot show that a member died until the lease of that member
has ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from apportion.errors.brief import brief
from apportion.groups.admin.found import Found
from apportion.groups.crash_loops import ended
from apportion.groups.settled import knows_all
from apportion.groups.view.records import Target

State = Literal["owned", "unowned", "orphaned", "crash-looping", "quarantined", "damaged"]
_LETS_GO = (
    "The owner ends its work first, within its drain_timeout. If its process is gone or stopped, its session ends"
    " within its lease_ttl. For that, a member or `apportion group watch` must watch the store."
)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The standing of a partition: whether it has an owner, and the step that it waits for ("" when it is settled)."""

    partition: int
    state: State
    wanted: str | None
    step: str
    advice: str


def standing(found: Found, partition: int) -> Standing:
    """Return the standing of a partition."""
    state = state_of(found, partition)
    step, advice = _of_damaged(found, partition) if state == "damaged" else _step(found, partition, state)
    return Standing(partition=partition, state=state, wanted=found.wanted(partition), step=step, advice=advice)


def state_of(found: Found, partition: int) -> State:
    """Return whether a partition has an owner, and the reason if it has none."""
    if found.view.is_damaged(partition):
        return "damaged"
    ownership, wait_seconds = found.view.owned(partition).ownership, found.wait_seconds(partition)
    if wait_seconds:
        return "quarantined" if wait_seconds == float("inf") else "crash-looping"
    if ownership.owner is None:
        return "unowned"
    return "owned" if found.view.is_live(ownership) else "orphaned"


def remarks(found: Found) -> Iterator[str]:
    """Yield the reasons that delay the whole group, if there are any."""
    view = found.view
    if not found.is_whole:
        yield "the history in the store was not read to its end in time, so an epoch that went back may not show"
    if not view.members:
        yield "no live member"
        return
    if found.unseen:
        yield (
            f"no member was seen to renew while we looked, for {found.looked_seconds:.1f} s: the processes may be gone."
            " Their sessions end once a member or `apportion group watch` watches the store."
        )
    if view.leading is None:
        yield "no controller: the members try to become controller in the order of their ids, a tenth of a second apart"
    if not any(there.record.weight and each not in view.drains for each, there in view.members.items()):
        yield "every member drains or has weight 0"
    target = view.target
    if target is None:
        yield "no target yet: the controller writes the first one"
    elif target.is_paused:
        yield "the target is paused (eager mode): all members give up their partitions first"
    elif not knows_all(view, target):
        yield "the target was made before the newest member came"
    elif not target.digest:
        yield "the target is a step: the throttle holds back further moves until those under way are done"


def _step(found: Found, partition: int, state: State) -> tuple[str, str]:
    target, wanted = found.view.target, found.wanted(partition)
    if state in ("crash-looping", "quarantined"):
        return _crash_loop(found, partition, state)
    if target is None or target.is_paused:
        return _without_target(found, partition, state, target)
    if state == "owned":
        return _to_let_go(found, partition, wanted)
    if wanted is None:
        words = "the target names no owner: no member had a weight above 0"
        return words + _no_controller(found), "Start a member, or give one a weight above 0."
    if wanted not in found.view.members:
        return _of_absent(found, wanted)
    return _to_be_taken(found, partition, wanted)


def _of_damaged(found: Found, partition: int) -> tuple[str, str]:
    problem = found.view.damaged[found.view.keys.own(partition)].problem
    return (
        f"its record is damaged, and nobody serves it: {problem}",
        f"Repair it with: apportion group repair URL {found.name}",
    )


def _without_target(found: Found, partition: int, state: State, target: Target | None) -> tuple[str, str]:
    if target is None:
        nobody = "no target yet" + ("" if found.view.members else ": no live member")
        return nobody + _no_controller(found), "The first member that joins becomes controller and writes one."
    owner = found.view.owned(partition).ownership.owner
    if state == "owned":
        return f"the target is paused (eager mode): {owner} must give up all its partitions", _LETS_GO
    words = "the target is paused (eager mode): all members give up their partitions, then the next target names owners"
    return words + _no_controller(found), "Look at the members that still own something: apportion group show"


def _to_let_go(found: Found, partition: int, wanted: str | None) -> tuple[str, str]:
    owner = found.view.owned(partition).ownership.owner
    if owner == wanted:
        return "", ""
    to = "to nobody: no member has a weight above 0" if wanted is None else f"to {wanted}"
    if wanted is not None and wanted not in found.view.members:
        to = f"to nobody: {wanted}, which the target names, is absent"
    drains = ", which drains," if owner in found.view.drains else ""
    return f"waiting for {owner}{drains} to release it; then it goes {to}", _LETS_GO


def _of_absent(found: Found, wanted: str) -> tuple[str, str]:
    words = f"waiting for {wanted}, an absent member that the target names"
    if wanted in found.view.statics:
        grace = found.view.statics[wanted][0].grace_seconds
        words += f": the controller keeps the place of a static member for {grace:g} s after the end of its session"
        return words + _no_controller(
            found
        ), f"If it will not come back: apportion group forget URL {found.name} {wanted}"
    return f"{words}; the controller writes a target without it" + _no_controller(found), ""


def _to_be_taken(found: Found, partition: int, wanted: str) -> tuple[str, str]:
    ownership = found.view.owned(partition).ownership
    if ownership.owner is None:
        words = f"waiting for {wanted} to claim it: nobody owns it"
    elif ownership.owner == wanted:
        words = f"waiting for {wanted} to take it over from its own earlier session {ownership.session}"
    else:
        words = f"waiting for {wanted} to take it over: session {ownership.session} of {ownership.owner} has ended"
    return words, f"This takes milliseconds. If it lasts, look at the process of {wanted} and at its log."


def _crash_loop(found: Found, partition: int, state: State) -> tuple[str, str]:
    deaths, release = len(ended(found.view, partition)), f"apportion group release URL {found.name} {partition}"
    words = f"{deaths} sessions in a row ended while they owned it, each within a minute"
    if state == "quarantined":
        return f"quarantined: {words}", f"Remove the cause, then: {release}"
    wait = f"the next try comes within {found.wait_seconds(partition):g} s"
    return f"crash-looping: {words}; {wait}", f"Look at the logs of its last owners; to try at once: {release}"


def _no_controller(found: Found) -> str:
    return "" if found.view.leading is not None or not found.view.members else "; there is no controller now"
