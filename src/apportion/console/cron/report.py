"""Report of schedules, as text or as JSON. Times are in UTC."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from apportion.console.print.output import print_columns, print_json, print_text
from apportion.stores.schedules.values import END_OF_TIME, SlotMark, TaskSchedule
from apportion.work.admin.cron import ClockChange, Forecast, InspectedSchedule, ScheduleChange, TouchedTime
from apportion.work.cron.deployment import Act
from apportion.work.cron.due_slots import period_of
from apportion.work.cron.zone_data import zone_of

_MARKS = {"add": "+ ", "change": "~ ", "remove": "- ", "keep": "  "}
_PLANNED: dict[Act, str] = {"add": "to add", "change": "to change", "remove": "to remove"}
_DONE: dict[Act, str] = {"add": "added", "change": "changed", "remove": "removed"}
_MOST_TOUCHED = 5
_POLICIES = ("zone", "gap", "fold", "missed", "overlap")


def print_schedules(
    store: str,
    tzdata: str,
    found: Sequence[InspectedSchedule],
    changes: Sequence[ScheduleChange],
    *,
    json: bool,
) -> None:
    """Print a line per schedule, with a mark for each difference from a program, and notes below."""
    if json:
        schedules = list(map(_inspected_member, found))
        print_json(
            "cron ls", store=store, tzdata=tzdata, schedules=schedules, changes=list(map(_change_member, changes))
        )
        return
    acts = {each.name: each.act for each in changes}
    rows = [_row(each.schedule, _MARKS[acts.get(each.schedule.name, "keep")]) for each in found]
    rows += [_row(each.declared, _MARKS["add"]) for each in changes if each.act == "add" and each.declared is not None]
    if rows:
        print_columns(("  schedule", "queue", "rule", "next", "last"), rows, words=5)
        print()
    for each in found:
        if each.problem:
            print_text(f"note: {each.schedule.name}: {each.trouble}: {each.problem}")
        if each.schedule.is_paused:
            print_text(f"note: {each.schedule.name} is paused: apportion cron resume URL QUEUE NAME")
    for change in changes:
        print_text(f"note: {change.name}: {_said(change)}")
    print_text(f"cron ls: {store}: {_count(len(found), 'schedule')}; zone data {tzdata}")


def print_forecast(found: Forecast, *, with_changes: bool, json: bool) -> None:
    """Print a line per slot, and the clock changes that touch one."""
    changes = found.changes() if with_changes else ()
    if json:
        more = {"changes": list(map(_clock_member, changes))} if with_changes else {}
        print_json("cron next", zone=found.zone, slots=list(map(_utc, found.slots)), **more)
        return
    zone = zone_of(found.zone)
    rows = [(_utc(each), f"{each.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}") for each in found.slots]
    print_columns(("slot", found.zone), rows, words=2)
    print()
    for change in changes:
        way = "forward" if change.is_forward else "back"
        print_text(f"{_utc(change.at)}: the clocks go {way} from {change.before:%H:%M} to {change.after:%H:%M}")
        for each in change.touched[:_MOST_TOUCHED]:
            print_text(f"  {_said_of_time(change, each)}")
        if len(change.touched) > _MOST_TOUCHED:
            print_text(f"  and {_count(len(change.touched) - _MOST_TOUCHED, 'more time')}")
    if with_changes and not changes:
        print_text("no clock change touches these slots")


def print_history(queue: str, name: str, marks: Sequence[SlotMark], *, json: bool) -> None:
    """Print a line per slot, oldest first."""
    if json:
        print_json("cron history", queue=queue, name=name, slots=list(map(_mark_member, marks)))
        return
    if marks:
        rows = [(_time(each.slot), _time(each.at), str(each.by), str(each.mark), str(each.task)) for each in marks]
        print_columns(("slot", "at", "by", "what", "task"), rows, words=5)
        print()
    print_text(f"cron history: {queue} {name}: {_count(len(marks), 'slot')}")


def print_plan(queue: str, changes: Sequence[ScheduleChange], *, json: bool) -> None:
    """Print a line per difference, and their number."""
    if json:
        pending = any(each.act != "keep" for each in changes)
        print_json("cron plan", queue=queue, pending=pending, changes=list(map(_change_member, changes)))
        return
    _print_changes(changes)
    print_text(f"cron plan: {queue}: {_counted(changes, _PLANNED) or 'no change'}")


def print_applied(queue: str, changes: Sequence[ScheduleChange], *, json: bool) -> None:
    """Print a line per change that was made."""
    if json:
        print_json("cron apply", queue=queue, changes=list(map(_change_member, changes)))
        return
    _print_changes(changes)
    print_text(f"cron apply: {queue}: {_counted(changes, _DONE) or 'nothing to do'}")


def print_act(act: str, queue: str, name: str, text: str, *, changed: bool, json: bool) -> None:
    """Print the effect of an act on a schedule."""
    if json:
        print_json(f"cron {act}", queue=queue, name=name, changed=changed)
    else:
        print_text(f"cron {act}: {name} of {queue} {text}" + ("" if changed else ", as before"))


def print_run(queue: str, name: str, task: str, *, json: bool) -> None:
    """Print the id of a task."""
    if json:
        print_json("cron run-now", queue=queue, name=name, task=task)
    else:
        print(task)


def _print_changes(changes: Sequence[ScheduleChange]) -> None:
    if changes:
        rows = [(_MARKS[each.act] + each.name, _said(each)) for each in changes]
        print_columns(("  schedule", "change"), rows, words=2)
        print()


def _row(schedule: TaskSchedule, mark: str) -> tuple[str, ...]:
    latest = "never" if schedule.latest is None else _time(schedule.latest)
    place = ("", "") if not schedule.next_slot else (_time(schedule.next_slot), latest)
    return f"{mark}{schedule.name}", schedule.queue.rpartition("/")[2], _rule(schedule), *place


def _rule(schedule: TaskSchedule) -> str:
    period = period_of(schedule)
    if period is not None:
        return f"every {period.total_seconds():g} s"
    return f"{schedule.rule}" + ("" if schedule.zone == "UTC" else f" {schedule.zone}")


def _said(change: ScheduleChange) -> str:
    stored, declared = change.stored, change.declared
    if change.act == "keep":
        return "was added at run time and stays; the program declares its name too"
    if stored is None or declared is None:
        return "the store does not have it" if stored is None else "the program no longer declares it"
    if stored.damage:
        return "its row is damaged, and a new row replaces it"
    return ", ".join(_difference(each, stored, declared) for each in change.fields)


def _difference(field: str, stored: TaskSchedule, declared: TaskSchedule) -> str:
    if field == "rule":
        return f"rule {_rule(stored)} -> {_rule(declared)}"
    before, after = getattr(stored, field), getattr(declared, field)
    return field if isinstance(before, bytes) else f"{field} {before} -> {after}"


def _said_of_time(change: ClockChange, touched: TouchedTime) -> str:
    comes = "does not come" if change.is_forward else "comes twice"
    slots = ", ".join(map(_utc, touched.slots))
    word = "slot is" if len(touched.slots) == 1 else "slots are"
    return f"{touched.local:%Y-%m-%d %H:%M} {comes}; " + (f"its {word} {slots}" if slots else "it has no slot")


def _counted(changes: Sequence[ScheduleChange], words: dict[Act, str]) -> str:
    counts = Counter(each.act for each in changes)
    return ", ".join(f"{counts[act]} {word}" for act, word in words.items() if counts[act])


def _inspected_member(each: InspectedSchedule) -> dict[str, object]:
    return {**_schedule_member(each.schedule), "trouble": each.trouble or None, "problem": each.problem or None}


def _schedule_member(schedule: TaskSchedule) -> dict[str, object]:
    period = period_of(schedule)
    is_sound = not schedule.damage
    return {
        "queue": schedule.queue.rpartition("/")[2],
        "name": str(schedule.name),
        "rule": str(schedule.rule) if period is None else None,
        "every_seconds": None if period is None else period.total_seconds(),
        **{each: str(getattr(schedule, each)) for each in _POLICIES},
        "jitter_seconds": schedule.jitter_ms / 1_000 if is_sound else None,
        "task": str(schedule.task),
        "declared": schedule.is_declared,
        "paused": schedule.is_paused,
        "version": schedule.version if is_sound else None,
        "next": _utc_of(schedule.next_slot) if is_sound and schedule.next_slot else None,
        "last": None if schedule.latest is None else _utc_of(schedule.latest),
        "tzdata": str(schedule.tzdata),
    }


def _change_member(change: ScheduleChange) -> dict[str, object]:
    sides = {"stored": change.stored, "declared": change.declared}
    fields = {each: None if side is None else _schedule_member(side) for each, side in sides.items()}
    return {"act": change.act, "name": change.name, "fields": list(change.fields), **fields}


def _mark_member(mark: SlotMark) -> dict[str, object]:
    return {
        "slot": _utc_of(mark.slot),
        "at": _utc_of(mark.at),
        "by": str(mark.by),
        "what": str(mark.mark),
        "task": str(mark.task) if mark.task else None,
    }


def _clock_member(change: ClockChange) -> dict[str, object]:
    times = [{"local": f"{each.local:%Y-%m-%dT%H:%M}", "slots": list(map(_utc, each.slots))} for each in change.touched]
    local = {"before": f"{change.before:%Y-%m-%dT%H:%M}", "after": f"{change.after:%Y-%m-%dT%H:%M}"}
    return {"at": _utc(change.at), **local, "times": times}


def _utc(moment: datetime) -> str:
    size = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=size).replace("+00:00", "Z")


def _utc_of(milliseconds: object) -> str:
    """Return a time of the store as in JSON; a damaged one as it is."""
    if not isinstance(milliseconds, int) or not 0 <= milliseconds < END_OF_TIME:
        return str(milliseconds)
    return _utc(datetime.fromtimestamp(milliseconds / 1_000, UTC))


def _time(milliseconds: object) -> str:
    """Return a time of the store as text; a damaged one as it is."""
    if not isinstance(milliseconds, int) or not 0 <= milliseconds < END_OF_TIME:
        return str(milliseconds)
    return f"{datetime.fromtimestamp(milliseconds / 1_000, UTC):%Y-%m-%d %H:%M:%S}"


def _count(number: int, word: str) -> str:
    return f"{number} {word if number == 1 else word + 's'}"
