"""Opening: the options with which a member takes part in a group, checked before any effect."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from inspect import cleandoc

from apportion.balance import catalog
from apportion.errors import InvalidInput, UnknownOption
from apportion.groups.view.records import (
    KEPT_DEATHS,
    MAX_LABELS,
    GroupRecord,
    MemberRecord,
    Mode,
    checked_group,
    checked_id,
    checked_partitions,
)
from apportion.model.topology import Node
from apportion.runtime import environment
from apportion.runtime.events import Observer, checked_observer
from apportion.stores.catalog import check_url

TTL = timedelta(seconds=10)
DRAIN = timedelta(seconds=20)
GRACE = timedelta(seconds=60)
SETTLE = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options with which a member takes part; `Opening` explains them. Each part of a member reads its own."""

    group: str
    record: GroupRecord
    member_id: str
    member: MemberRecord
    is_static: bool = False
    replaces: bool = False
    ttl_seconds: float = 10.0
    drain_seconds: float = 20.0
    progress_seconds: float = float("inf")
    throttle: int | None = None
    settle_seconds: float = 2.0
    observer: Observer | None = None


class Opening:
    """A group to join: the URL of its store, and the options of this process. The constructor checks all options.

    - `url`: the URL of the store, as in `open_store`.
    - `name`: the name of the group, at most 200 bytes, without a slash.
    - `partitions`: the number of partitions, 1 to 262 144, numbered from 0. All members pass the same number. Choose
      several times the greatest number of members that you expect.
    - `member_id`: the id of this member. Default: `APPORTION_MEMBER_ID`, else the host name and a random part.
    - `static`: whether the member keeps its partitions over a restart, under an id that stays the same. Default: False.
    - `lease_ttl`: the time for which a killed process keeps its partitions. Default: 10 seconds.
    - `drain_timeout`: the time for which work on a lost partition may go on; then it is cancelled. Default: 20 seconds.
    - `rejoin_grace`: the time for which the group waits for a static member that is away. Default: 60 seconds.
    - `progress_deadline`: the time for which one `hold` may stay open, or one handler of `serve` may run. After that
      the process counts as stuck, and gives up all its partitions. Default: None, no deadline.
    - `balancer`: the name of the balancer that chooses the owners, one of `balance.names`. All members pass the same
      name. Default: "optimal", even and with the fewest moves.
    - `mode`: "cooperative", in which only moving partitions pause, or "eager", in which all pause. All members pass the
      same mode. Default: "cooperative".
    - `weight`: the share of this member relative to the others; 0 is none. Default: `APPORTION_WEIGHT`, else 1.
    - `zone`: the fault domain, outermost first, such as `("eu", "rack1")`. Default: `APPORTION_ZONE`, else none.
    - `labels`: texts by name, at most 1 000, shown to operators. Default: `APPORTION_LABELS`, else none.
    - `replace`: whether to ask a live member of the same id to leave. Default: False; such a member is then an error.
    - `throttle`: the largest number of planned moves under way at once. Default: None, no bound.
    - `settle`: the time without a newcomer after which partitions move. They move at the latest 30 seconds after the
      first newcomer. Default: 2 seconds.
    - `quarantine_after`: the number of owners that may die in a row, 1 to 9. The partition then waits for
      `apportion group release`. All members pass the same number. Default: None, so that the partition waits longer
      before each next owner, up to a minute.
    - `observer`: a function that is called with each event of this member, on the I/O thread; it must not block. If it
      raises, the member logs one line and goes on. Default: None.

    Every time is a `timedelta` above 0 and of at most a week; `settle` may be 0.

    Raises `InvalidInput`, `UnknownOption`.
    """

    def __init_subclass__(cls) -> None:
        """Explain the parameters in the docstring of each kind of opening too, for `help`."""
        if cls.__doc__ and Opening.__doc__:  # python -OO leaves them out
            cls.__doc__ = f"{cleandoc(cls.__doc__)}\n\n{cleandoc(Opening.__doc__)}"

    def __init__(
        self,
        url: str,
        name: str,
        *,
        partitions: int,
        member_id: str | None = None,
        static: bool = False,
        lease_ttl: timedelta = TTL,
        drain_timeout: timedelta = DRAIN,
        rejoin_grace: timedelta | None = None,
        progress_deadline: timedelta | None = None,
        balancer: str = "optimal",
        mode: Mode = "cooperative",
        weight: float | None = None,
        zone: tuple[str, ...] | None = None,
        labels: Mapping[str, str] | None = None,
        replace: bool = False,
        throttle: int | None = None,
        settle: timedelta = SETTLE,
        quarantine_after: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        node = _node(member_id, zone, weight)
        check_url(url)
        self.url = url
        self.options: Options = Options(
            group=checked_group(name),
            record=_record(partitions, mode, balancer, quarantine_after),
            member_id=node.id,
            member=MemberRecord(
                nonce="",
                weight=node.weight,
                zone=node.zone,
                labels=_checked_labels(environment.labels(os.environ) if labels is None else labels),
                grace_seconds=_grace(_flag("static", static), member_id, rejoin_grace),
            ),
            is_static=static,
            replaces=_flag("replace", replace),
            ttl_seconds=_seconds("lease_ttl", lease_ttl),
            drain_seconds=_seconds("drain_timeout", drain_timeout),
            progress_seconds=_progress(progress_deadline),
            throttle=_bound(throttle),
            settle_seconds=_seconds("settle", settle, least=timedelta(0)),
            observer=checked_observer(observer),
        )


def _record(partitions: int, mode: Mode, balancer: str, quarantine_after: int | None) -> GroupRecord:
    if mode not in ("cooperative", "eager"):
        raise UnknownOption("mode", mode, ("cooperative", "eager"))
    return GroupRecord(
        partitions=checked_partitions(partitions),
        mode=mode,
        balancer=catalog.get(balancer).name,
        quarantine_after=_quarantine(quarantine_after),
    )


def _quarantine(deaths: int | None) -> int | None:
    if deaths is not None and (type(deaths) is not int or not 1 <= deaths <= KEPT_DEATHS):
        hint = "Leave it out, and a partition waits longer after each death, up to a minute."
        raise InvalidInput("quarantine_after", deaths, f"an int in 1 .. {KEPT_DEATHS}, or None", hint)
    return deaths


def _node(member_id: str | None, zone: tuple[str, ...] | None, weight: float | None) -> Node:
    """Return the member as balancers see it; the node refuses values that no balancer could take."""
    return Node(
        checked_id("member_id", environment.member_id(os.environ) if member_id is None else member_id),
        zone=environment.zone(os.environ) if zone is None else zone,
        weight=environment.weight(os.environ) if weight is None else weight,
    )


def _grace(static: bool, member_id: str | None, rejoin_grace: timedelta | None) -> float:
    if not static:
        if rejoin_grace is None:
            return 0.0
        hint = "Give it a member_id that it keeps over restarts, and static=True."
        raise InvalidInput("rejoin_grace", str(rejoin_grace), "None for a member that is not static", hint)
    if member_id is None and "APPORTION_MEMBER_ID" not in os.environ:
        hint = "Pass member_id=, or set APPORTION_MEMBER_ID to the name of the pod."
        raise InvalidInput("member_id", None, "an id that is the same after a restart", hint)
    return _seconds("rejoin_grace", GRACE if rejoin_grace is None else rejoin_grace)


def _bound(throttle: int | None) -> int | None:
    if throttle is not None and (type(throttle) is not int or throttle < 1):
        hint = "Write throttle=10, or leave it out for no bound on moves."
        raise InvalidInput("throttle", throttle, "an int of at least 1, or None", hint)
    return throttle


def _flag(field: str, flag: bool) -> bool:
    if type(flag) is not bool:
        raise InvalidInput(field, flag, "True or False", f"Write {field}=True, or leave it out.")
    return flag


def _progress(progress_deadline: timedelta | None) -> float:
    return float("inf") if progress_deadline is None else _seconds("progress_deadline", progress_deadline)


def _seconds(field: str, length: timedelta, *, least: timedelta = timedelta(microseconds=1)) -> float:
    if not isinstance(length, timedelta) or not least <= length <= timedelta(days=7):
        hint = f"Write {field}=timedelta(seconds=10)."
        shown = str(length) if isinstance(length, timedelta) else length
        expected = f"a timedelta {'above' if least else 'of at least'} 0, at most a week"
        raise InvalidInput(field, shown, expected, hint)
    return length.total_seconds()


def _checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    expected, hint = "a mapping of str to str", 'Write labels={"tier": "batch"}.'
    if not isinstance(labels, Mapping):
        raise InvalidInput("labels", labels, expected, hint)
    if len(labels) > MAX_LABELS:
        raise InvalidInput("labels", len(labels), f"at most {MAX_LABELS} of them", "Keep long lists elsewhere.")
    for each in (*labels, *labels.values()):
        if not isinstance(each, str) or each != each.encode(errors="replace").decode():
            raise InvalidInput("labels", each, expected, hint)
    return dict(labels)
