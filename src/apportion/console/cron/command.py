"""`apportion cron`: the commands with which an operator reads schedules, deploys them, and acts on one."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from cyclopts import Parameter

from apportion.console.cron import report
from apportion.console.cron.options import App, RulePolicies, program_at, require_rule, times_after
from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.progress import Progress
from apportion.console.tasks.options import QueueName
from apportion.errors import InvalidInput
from apportion.stores.catalog import shown_url
from apportion.work.admin import cron
from apportion.work.cron.forecast import MOST_SLOTS, Forecast, forecast
from apportion.work.cron.zone_data import zone_data_version

Answer = TypeVar("Answer")
PENDING = 2
_Name = Annotated[str, Parameter(name="NAME", help="Name of the schedule.")]
_AppOption = Annotated[
    str | None, Parameter(help="Mark the differences from the queue of this program, such as app:queue.")
]
_OF_THE_RULE = RulePolicies()


def ls_cron(
    url: Url,
    queue: Annotated[str | None, Parameter(name="QUEUE", help="Name of the queue (default: all queues).")] = None,
    /,
    *,
    app: _AppOption = None,
    json: Json = False,
) -> None:
    """List schedules: rule, next and last slot, and their faults as this host sees them."""
    program = None if app is None else program_at(app)
    if program is not None and queue not in (None, program.name):
        raise InvalidInput("--app", app, f"a program with the queue {queue}", f"Its queue is {program.name}.")
    queue = queue if program is None else program.name
    found = _answer(cron.schedules(url, queue), json=json)
    changes = () if program is None else _answer(cron.plan(program, url=url), json=json)
    report.print_schedules(shown_url(url), zone_data_version(), found, changes, json=json)


def next_cron(
    rule: Annotated[str, Parameter(name="RULE|URL", help="A rule such as '0 9 * * mon-fri', or the URL of a store.")],
    queue: Annotated[str | None, Parameter(name="QUEUE", help="With a URL: name of the queue.")] = None,
    name: Annotated[str | None, Parameter(name="NAME", help="With a URL: name of the schedule.")] = None,
    /,
    *,
    policies: RulePolicies = _OF_THE_RULE,
    after: str | None = None,
    number: Annotated[Whole, Parameter(name=("--number", "-n"))] = 5,
    explain: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> None:
    """Print the next slots of a rule, or of a stored schedule.

    Parameters
    ----------
    after
        Begin after this time, such as 2026-03-08T00:00Z (default: now; for a stored schedule, its next slot).
    number
        Number of slots.
    explain
        Show the clock changes that touch a slot, and the slots of each touched time.
    """
    if not 1 <= number <= MOST_SLOTS:
        raise InvalidInput("--number", number, f"a whole number in 1 .. {MOST_SLOTS}", "Write for example -n 5.")
    begin = times_after(after)
    if queue is None and name is None:
        require_rule(rule)
        found = forecast(policies.cron(rule), after=begin or datetime.now(UTC), most=number)
    else:
        found = _stored_forecast(rule, queue, name, policies, after=begin, most=number, json=json)
    report.print_forecast(found, with_changes=explain, json=json)


def history_cron(url: Url, queue: QueueName, name: _Name, /, *, json: Json = False) -> None:
    """Show the last slots of a schedule, at most 100: when each was fired or passed over, and by which worker."""
    report.print_history(queue, name, _answer(cron.history(url, queue, name), json=json), json=json)


def plan_cron(app: App, /, *, json: Json = False) -> int:
    """Show how the stored schedules differ from those of a program. Exit code 0: no difference, 2: changes pending."""
    program = program_at(app)
    changes = _answer(cron.plan(program), json=json)
    report.print_plan(program.name, changes, json=json)
    return PENDING if any(each.act != "keep" for each in changes) else 0


def apply_cron(app: App, /, *, json: Json = False) -> None:
    """Store the schedules of a program. A changed one keeps its last slot; a new rule fires no slot of the past."""
    program = program_at(app)
    report.print_applied(program.name, _answer(cron.apply(program), json=json), json=json)


def pause_cron(url: Url, queue: QueueName, name: _Name, /, *, json: Json = False) -> None:
    """Stop the firing of a schedule. Its open tasks go on."""
    was_active = _answer(cron.pause(url, queue, name), json=json)
    report.print_act("pause", queue, name, "fires no slot until apportion cron resume", changed=was_active, json=json)


def resume_cron(url: Url, queue: QueueName, name: _Name, /, *, json: Json = False) -> None:
    """Let a paused schedule fire again, from its next slot on. No slot of the pause fires."""
    was_paused = _answer(cron.resume(url, queue, name), json=json)
    report.print_act("resume", queue, name, "fires its next slots again", changed=was_paused, json=json)


def run_now_cron(url: Url, queue: QueueName, name: _Name, /, *, json: Json = False) -> None:
    """Add a task of a schedule now, and print its id. Later slots stay as they are."""
    report.print_run(queue, name, _answer(cron.run_now(url, queue, name), json=json), json=json)


def rm_cron(url: Url, queue: QueueName, name: _Name, /, *, json: Json = False) -> None:
    """Forget a schedule and its history. Its tasks stay. The next worker that starts with the schedule adds it."""
    _answer(cron.remove(url, queue, name), json=json)
    report.print_act("rm", queue, name, "is forgotten", changed=True, json=json)


def _stored_forecast(
    url: str,
    queue: str | None,
    name: str | None,
    policies: RulePolicies,
    *,
    after: datetime | None,
    most: int,
    json: bool,
) -> Forecast:
    if queue is None or name is None:
        raise InvalidInput("NAME", name, "URL, QUEUE and NAME", "Write apportion cron next URL QUEUE NAME")
    if policies != _OF_THE_RULE:
        hint = "A stored schedule has its own zone, gap and fold; leave the options out."
        raise InvalidInput("--zone, --gap or --fold", "given", "a rule in place of a stored schedule", hint)
    return _answer(cron.forecast(url, queue, name, after=after, most=most), json=json)


def _answer(question: Coroutine[object, object, Answer], *, json: bool) -> Answer:
    with Progress("reading", is_shown=not json):
        return asyncio.run(question)
