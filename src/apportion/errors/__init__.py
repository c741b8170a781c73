"""Errors: one tree that tells where the fault lies, whether a retry can help, and whether data is at risk.

Every message names the problem (with the values), the expected value, and the next step.
Promises: foreign values are cut to a line, control characters escaped, URL passwords removed. Every error can be
pickled.
Refuses: to raise `ApportionError` itself. Raise the narrowest class that a caller would want to catch.
A traceback names this package alone: `apportion.errors.InvalidInput`. A class from another file sets its `__module__`
to this package.
"""

from collections.abc import Iterable, Sequence

from apportion.errors.misplaced import CrossShard as CrossShard
from apportion.errors.misplaced import NotScatterable as NotScatterable
from apportion.errors.misplaced import SchemaDiffers as SchemaDiffers
from apportion.errors.misplaced import Unequal as Unequal
from apportion.errors.replicated import ClockAstray as ClockAstray
from apportion.errors.root import ApportionError as ApportionError
from apportion.errors.root import Unsafe as Unsafe
from apportion.errors.shown import listed
from apportion.errors.shown import nearest as nearest
from apportion.errors.shown import shown as shown


class InvalidInput(ApportionError, ValueError):
    """The caller's value cannot be used; nothing was done."""

    def __init__(self, field: str, value: object, expected: str, hint: str) -> None:
        super().__init__(f"{field} is {shown(value)}, expected {expected}.", hint)
        self.field: str = field
        self.expected: str = expected


class UnknownOption(InvalidInput):
    """A name outside a closed list; the message offers the nearest known name."""

    def __init__(self, field: str, value: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = nearest(value, names)
        hint = f"Did you mean {near!r}?" if near else "Pick one of them."
        super().__init__(field, value, "one of " + listed(names), hint)
        self.nearest = near


class DuplicateNode(InvalidInput):
    """Two nodes of one topology have the same id."""

    def __init__(self, node_id: str) -> None:
        hint = "Rename one of the two, or drop it."
        super().__init__("node id", node_id, "an id that no other node of the topology has", hint)


class UnknownNode(InvalidInput):
    """An id that the topology does not hold."""

    def __init__(self, node_id: object, known: Iterable[str]) -> None:
        names = list(known)
        near = nearest(node_id, names)
        hint = f"Did you mean {near!r}?" if near else "Add the node first, or use an id of the topology."
        hint = hint if isinstance(node_id, str) else "Pass one id, as a str. For a list, write *ids."
        super().__init__("node id", node_id, "one of " + listed(names), hint)
        self.nearest = near


class BadWeight(InvalidInput):
    """A weight that is neither 0 nor a finite number in the allowed span."""


class BadRange(InvalidInput):
    """Bounds that do not make a half-open, non-empty range, or ranges with a gap or an overlap."""


class BadSnapshot(InvalidInput):
    """Saved bytes that are damaged, too large, or of another kind, version or cluster."""


class CannotPlace(ApportionError):
    """The request is well formed, but no placement satisfies it."""


class NoNodes(CannotPlace):
    """No node may own anything: the topology is empty, every node drains, or no node is up."""

    def __init__(self, what: str, among: str = "the topology") -> None:
        hint = "Name a node that is up and does not drain."
        hint = "Add a node, or give one of them a weight above 0." if among == "the topology" else hint
        super().__init__(f"{what} needs a node with a weight above 0 and {among} has none.", hint)


_WAY_OUT = {
    "in distinct zones": "Add zones, ask for fewer replicas, or relax the rule with spread='best-effort'.",
    "on distinct nodes": "Add nodes, or ask for fewer replicas.",
}


class NotEnoughNodes(CannotPlace):
    """The caller wants more replicas than the rule allows."""

    def __init__(self, wanted: int, eligible: Sequence[str], rule: str) -> None:
        hint = "Ask for fewer replicas. Ring and Rendezvous can name all nodes; an assignment can name only its owners."
        problem = f"{wanted} replicas wanted {rule}, {len(eligible)} eligible ({listed(eligible)})."
        super().__init__(problem, _WAY_OUT.get(rule, hint))
        self.wanted: int = wanted
        self.eligible: tuple[str, ...] = tuple(eligible)
        self.rule: str = rule


class MissingExtra(ApportionError):
    """A package that this feature needs is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        hint = f"Install it with: pip install 'apportion[{extra}]'"
        super().__init__(f"{what} is an extra that is not installed.", hint)
        self.extra = extra


class Outdated(ApportionError):
    """The caller acted on a state that has changed since; read again and retry."""

    retryable = True


class StaleEpoch(Outdated):
    """This epoch (number and digest) is not the current one."""

    def __init__(self, seen: object, current: object) -> None:
        hint = "Nothing was changed. Read the current state, plan again and apply the new plan."
        super().__init__(f"the change was made from epoch {seen}, but the current epoch is {current}.", hint)
        self.seen: object = seen
        self.current: object = current


class LeaseLost(Outdated):
    """A lease has ended, and the keys attached to it are gone."""

    def __init__(self, lease: int) -> None:
        hint = "Nothing was written. Stop the work that needed it, ask for a new lease and write the keys again."
        super().__init__(f"lease {lease} has ended or was never granted.", hint)
        self.lease = lease


class Compacted(Outdated):
    """The store no longer keeps the history from which the watch would continue."""

    def __init__(self, after: int, oldest: int) -> None:
        problem = f"the changes after revision {after} are gone; the store keeps those after {oldest}."
        super().__init__(problem, "Scan the prefix again and watch from the revision of that scan.")
        self.after: int = after
        self.oldest: int = oldest


class StaleRoute(Outdated):
    """A key was sent to a node that no longer handles it."""

    def __init__(self, item: object, node_id: str, version: object) -> None:
        problem = f"{shown(item)} is not handled by {shown(node_id)} any more (routed by version {version})."
        super().__init__(problem, "Nothing was done. Refresh the followed table and route again.")
        self.item: object = item
        self.node_id: str = node_id
        self.version: object = version


class Fenced(Outdated):
    """A write under a token that is older than an accepted one, or equal to the token of another holder."""

    def __init__(self, resource: str, token: object, newer: object) -> None:
        problem = f"{resource} belongs to another holder: token {token} came after {newer} had been accepted."
        super().__init__(problem, "Nothing was written. Stop this work: the holder of the newer token does it.")
        self.resource: str = resource
        self.token: object = token
        self.newer: object = newer


class ClaimLost(Outdated):
    """A task is no longer claimed under this receipt: it was settled, given to another worker, or cancelled."""

    def __init__(self, task: str, attempt: int) -> None:
        hint = "Nothing was written. Stop this run: the store has given the task to another attempt, or has ended it."
        super().__init__(f"attempt {attempt} of task {task} is no longer the open one.", hint)
        self.task: str = task
        self.attempt: int = attempt


class NotOwner(Outdated):
    """A partition that this member does not own now."""

    def __init__(self, partition: object, why: str, hint: str = "") -> None:
        hint = hint or "Nothing was done. Ask group.owned, or wait for group.changes()."
        super().__init__(f"partition {shown(partition)} is not ours: {why}.", hint)
        self.partition = partition


class Conflict(ApportionError):
    """Two callers did an act that only one may do. The other caller was first; a retry may succeed."""

    retryable = True


class DuplicateMember(Conflict):
    """A member id that a session in another process already uses."""

    def __init__(self, member_id: str, session: int) -> None:
        hint = "Give each process an id of its own, stop the other one, or take over from it with replace=True."
        super().__init__(f"member {shown(member_id)} is there already (session {session}).", hint)
        self.member_id: str = member_id
        self.session: int = session


class AlreadyTriggered(Conflict):
    """A slot of a schedule has passed: it was fired, or a later one was. A retry does not help."""

    retryable = False

    def __init__(self, schedule: str, slot: object, last: object) -> None:
        hint = "Each slot fires once: go on with a later one."
        super().__init__(f"schedule {shown(schedule)} has passed slot {slot}: its last slot is {last}.", hint)


class KeyedTasksOpen(Conflict):
    """The number of partitions cannot change while keyed tasks are open."""

    def __init__(self, queue: str, count: int) -> None:
        hint = "Nothing was changed. Let the workers finish them, or cancel or purge them, and try again."
        super().__init__(f"queue {shown(queue)} has {count} open tasks with a key.", hint)
        self.count: int = count


class Unavailable(ApportionError):
    """Another process did not answer in time; a retry may reach it."""

    retryable = True


class TimedOut(Unavailable):
    """The wait for an answer took longer than the caller allowed."""

    def __init__(self, awaited: str, timeout: object) -> None:
        hint = "Wait longer, or look at its state: apportion doctor --store URL shows whether the store answers."
        super().__init__(f"{awaited} did not come within {timeout}.", hint)
        self.awaited = awaited
        self.timeout = timeout


class OutcomeUnknown(Unavailable):
    """No reply came to an enqueue: the tasks may be there."""

    def __init__(self, store: str, ids: Sequence[str], reason: str) -> None:
        hint = "Look for the tasks by id before you enqueue them again; a task that is done leaves no trace."
        super().__init__(f"{store} did not answer whether it has tasks {listed(ids)}: {reason}.", hint)
        self.store: str = store
        self.ids: tuple[str, ...] = tuple(ids)
        self.reason: str = reason


class StoreUnavailable(Unavailable):
    """The store cannot be reached, or cannot do this now; nothing was changed."""

    def __init__(
        self,
        store: str,
        reason: str,
        hint: str = "Nothing was changed. Try again, or run: apportion doctor --store URL",
    ) -> None:
        super().__init__(f"{store} is unavailable: {reason}.", hint)
        self.store: str = store
        self.reason: str = reason


class QuorumNotReached(Unavailable):
    """Too few nodes of a map answered a put or a get in time. A put may still come to be seen."""

    def __init__(self, call: str, key: bytes, *, acks: int, needed: int) -> None:
        said = shown(key.decode(errors="replace"))
        problem = f"{call} of key {said}: {acks} of {needed} needed nodes answered in time."
        seen = "It may still come to be seen. " if call == "put" else ""
        super().__init__(problem, f"{seen}Try again: a put is safe to repeat. Look at the nodes that are down.")
        self.acks: int = acks
        self.needed: int = needed


class StoreClosed(ApportionError):
    """A handle that was closed, or that belongs to the parent process of a fork."""

    def __init__(self, store: str, reason: str = "it was closed", hint: str = "") -> None:
        hint = hint or "Connect again with stores.connect(url)."
        super().__init__(f"this handle of {store} is dead: {reason}.", hint)
        self.store: str = store
        self.reason: str = reason


class StoreDenied(ApportionError):
    """The store refuses an identity, a permission or a certificate. A retry does not help; nothing was changed."""

    def __init__(self, store: str, reason: str, hint: str) -> None:
        super().__init__(f"{store} denies the request: {reason}.", hint)
        self.store: str = store
        self.reason: str = reason


class StoreWentBack(Unsafe):
    """The store shows less than it showed before, or another incarnation: it was restored or it lost data."""

    def __init__(self, store: str, seen: str, found: str) -> None:
        after = "After a restore run: apportion store restored URL"
        hint = f"All earlier leases have ended: scan, and join again. {after}"
        super().__init__(f"{store} went back: {found}, but {seen} was seen before.", hint)
        self.seen: str = seen
        self.found: str = found


class NotPromised(Unsafe):
    """A store was asked for a guarantee that it cannot give."""

    def __init__(self, store: str, need: str, able: Iterable[str]) -> None:
        hint = f"Use a store that does ({listed(sorted(able))}), or drop the need."
        super().__init__(f"{store} does not promise {need!r}.", hint)
        self.store: str = store
        self.need: str = need


class PlanRefused(Unsafe):
    """A plan that must not be applied."""

    def __init__(self, reason: str, move: object = None) -> None:
        at = "" if move is None else f" at {move}"
        super().__init__(f"plan refused{at}: {reason}.", "Nothing was changed. Plan again from the current table.")
        self.reason: str = reason
        self.move: object | None = move


class TaskDead(ApportionError):
    """A task has no result, because it is dead or was cancelled."""

    def __init__(self, task: str, state: str, reason: str) -> None:
        because = f": {shown(reason)}" if reason else ""
        super().__init__(f"task {task} is {state}{because}.", "Mend the cause, then redrive the task.")
        self.task = task
        self.state = state
        self.reason = reason


class Bug(ApportionError, AssertionError):
    """A fault of this library, never of the caller."""


class InvariantBroken(Bug):
    """A promise of this library did not hold."""

    def __init__(self, facts: str, hint: str = "This is a defect of apportion; please report it.") -> None:
        super().__init__(f"broken invariant: {facts}.", hint)
