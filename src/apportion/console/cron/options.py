"""Options of the commands of schedules: a rule with its policies, a time, and the queue of a program."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from apportion.console.tasks.queue_places import queues_at
from apportion.errors import InvalidInput
from apportion.stores.schedules.values import Fold, Gap
from apportion.work.cron.calendar import Cron
from apportion.work.facade import Queue

App = Annotated[str, Parameter(name="APP", help="Module and name of a queue, such as app:queue.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RulePolicies:
    """The policies of a rule that is no stored schedule; None: not given."""

    zone: Annotated[str | None, Parameter(help="The time zone in which the rule is read (default: UTC).")] = None
    gap: Annotated[
        Gap | None,
        Parameter(
            help="For a rule fixed to times of the day: if a clock change skips a time, run after the change (default),"
            " or skip it."
        ),
    ] = None
    fold: Annotated[
        Fold | None,
        Parameter(
            help="For a rule fixed to times of the day: if a time comes twice, run at the first (default), the last, or"
            " both."
        ),
    ] = None

    def cron(self, rule: str) -> Cron:
        """Return a rule with these policies."""
        given = {each: getattr(self, each) for each in ("zone", "gap", "fold") if getattr(self, each) is not None}
        return Cron(rule=rule, **given)


def program_at(app: str) -> Queue:
    """Return the queue of a program."""
    (queue,) = queues_at([app], field="APP")
    return queue


def require_rule(rule: str) -> None:
    """Refuse the URL of a store without its schedule."""
    if "://" in rule:
        hint = "Write apportion cron next URL QUEUE NAME; list the names with apportion cron ls URL"
        raise InvalidInput("QUEUE", None, "the name of a queue and of a schedule after a URL", hint)


def times_after(text: str | None) -> datetime | None:
    """Return the time of `--after`; `InvalidInput` for any other text, and for a time without a zone."""
    if text is None:
        return None
    hint = "Write for example 2026-03-08T00:00Z, or 2026-03-08T01:00+01:00"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput("--after", text, "a time with its zone", hint) from error
    if found.tzinfo is None:
        raise InvalidInput("--after", text, "a time with its zone", hint)
    return found
