"""Opening: the options with which a member takes part in a group, checked before any effect."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from apportion.errors import InvalidInput, UnknownOption
from apportion.groups.controller.controller import SETTLE_SECONDS, checked_balancer
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
SETTLE = timedelta(seconds=SETTLE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options with which a member takes part; see `open_group` for the meanings."""

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
    settle_seconds: float = SETTLE_SECONDS
    observer: Observer | None = None


class Opening:
    """A group to join: the store's URL, and the options of this process. The constructor checks all options.

    `open_group` explains the parameters. An option that is None is taken from the environment (see `environment`), or
    is off. For the wait after repeated deaths see `deaths`, for the observer `runtime.events`.

    Raises `InvalidInput`, `UnknownOption`.
    """

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
        if throttle is not None and (type(throttle) is not int or throttle < 1):
            raise InvalidInput("throttle", throttle, "an int of at least 1, or None", "It bounds moves under way.")
        node = _node(member_id, zone, weight)
        check_url(url)
        self.url = url
        self.options = Options(
            group=checked_group(name),
            record=_record(partitions, mode, balancer, quarantine_after),
            member_id=node.id,
            member=MemberRecord(
                nonce="",
                weight=node.weight,
                zone=node.zone,
                labels=_checked_labels(environment.labels(os.environ) if labels is None else labels),
                grace_seconds=_grace(static, member_id, rejoin_grace),
            ),
            is_static=static,
            replaces=replace,
            ttl_seconds=_seconds("lease_ttl", lease_ttl),
            drain_seconds=_seconds("drain_timeout", drain_timeout),
            progress_seconds=_progress(progress_deadline),
            throttle=throttle,
            settle_seconds=_seconds("settle", settle, least=timedelta(0)),
            observer=checked_observer(observer),
        )


def _record(partitions: int, mode: Mode, balancer: str, quarantine_after: int | None) -> GroupRecord:
    if mode not in ("cooperative", "eager"):
        raise UnknownOption("mode", mode, ("cooperative", "eager"))
    return GroupRecord(
        partitions=checked_partitions(partitions),
        mode=mode,
        balancer=checked_balancer(balancer),
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
