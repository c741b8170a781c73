"""Log: the events of a member as lines of the logger `apportion.group`."""

import logging

from apportion.errors import ApportionError
from apportion.runtime.events import (
    AskedAgain,
    Damaged,
    Delayed,
    Disagreed,
    Gained,
    GaveUp,
    GroupEvent,
    HandlerFailed,
    Lost,
    Rewritten,
    SessionEnded,
    Unguarded,
    Unplanned,
    Unpublished,
)

logger: logging.Logger = logging.getLogger("apportion.group")


def log(event: GroupEvent) -> None:
    """Log an event that an operator may have to know."""
    _log_partition(event)
    group, who = event.group, event.member_id
    match event:
        case AskedAgain(why=why):
            logger.warning("%s: %s repeats a request: %s", group, who, why)
        case Damaged(key=key, problem=problem):
            hint = f"All other records stay in use. Repair this one with: apportion group repair URL {group}"
            logger.error("%s: the record %s is damaged. %s %s", group, key, problem, hint)
        case Rewritten(key=key, found=found):
            logger.warning("%s: the record %s was damaged (%s) and is written anew", group, key, found)
        case Disagreed(why=why):
            logger.warning("%s: this process waits until its group has its former settings: %s", group, why)
        case Unplanned(why=why):
            logger.warning("%s: controller %s keeps the target as it is: %s", group, who, why)
        case Unpublished(why=why, seconds=seconds):
            then = f"the controller tries again every {seconds:g} s"
            logger.warning("%s: members go on, but table %s does not show the owners; %s: %s", group, group, then, why)
        case GaveUp(why=why):
            logger.error("%s: %s gives up its session: %s", group, who, why)
        case SessionEnded(error=BaseException() as error, is_final=False):
            trace = None if isinstance(error, ApportionError) else error
            logger.warning("%s: the session of %s is over: %s", group, who, error, exc_info=trace)


def _log_partition(event: GroupEvent) -> None:
    group, who = event.group, event.member_id
    match event:
        case Gained(partition=partition, epoch=epoch, why=why):
            logger.info("%s: %s gained %d: epoch %d, %s", group, who, partition, epoch, why)
        case Lost(partition=partition, why=why):
            logger.info("%s: %s loses %d: %s", group, who, partition, why)
        case Delayed(partition=partition, deaths=deaths, seconds=seconds):
            then = f"it is in quarantine until: apportion group release URL {group} {partition}"
            then = then if seconds is None else f"next try in {seconds:.1f} s"
            words = "%s: %d sessions in a row ended while they owned partition %d; %s"
            logger.warning(words, group, deaths, partition, then)
        case HandlerFailed(partition=partition, error=error, seconds=seconds):
            failed = "did not end in time" if error is None else "failed"
            then = "it is not called again" if seconds is None else f"again in {seconds:.1f} s"
            logger.error("%s: a handler of partition %d %s; %s", group, partition, failed, then, exc_info=error)
        case Unguarded(partitions=partitions):
            which = ", ".join(map(str, partitions))
            logger.warning("%s: no guard saw a token of these partitions: %s; see group.unguarded", group, which)
