"""Log: the events of a member as lines of the logger `apportion.group`."""

import logging

from apportion.errors import ApportionError
from apportion.runtime.events import AskedAgain, Damaged, Delayed, Gained, GaveUp, GroupEvent, Lost, SessionEnded

logger: logging.Logger = logging.getLogger("apportion.group")


def log(event: GroupEvent) -> None:
    """Log an event that an operator may have to know."""
    group, who = event.group, event.member_id
    match event:
        case Gained(partition=partition, epoch=epoch, why=why):
            logger.info("%s: %s gained %d: epoch %d, %s", group, who, partition, epoch, why)
        case Lost(partition=partition, why=why):
            logger.info("%s: %s loses %d: %s", group, who, partition, why)
        case Delayed(partition=partition, deaths=deaths, seconds=seconds):
            then = f"it is in quarantine until: apportion group release URL {group} {partition}"
            then = then if seconds is None else f"next try in {seconds:.1f} s"
            logger.warning("%s: %d sessions ended under partition %d; %s", group, deaths, partition, then)
        case AskedAgain(why=why):
            logger.warning("%s: %s asks again: %s", group, who, why)
        case Damaged(key=key, problem=problem):
            hint = f"The rest goes on. Repair it with: apportion group repair URL {group}"
            logger.error("%s: the record %s is damaged. %s %s", group, key, problem, hint)
        case GaveUp(why=why):
            logger.error("%s: %s gives up its session: %s", group, who, why)
        case SessionEnded(error=BaseException() as error, is_final=False):
            trace = None if isinstance(error, ApportionError) else error
            logger.warning("%s: the session of %s is over: %s", group, who, error, exc_info=trace)
