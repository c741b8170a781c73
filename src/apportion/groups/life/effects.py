"""Effects: carries out one member's decisions in this process: it grants and withdraws partitions, counts and logs.

Refuses: to wait and to commit; see `commits`.
"""

import logging
from collections.abc import Sequence

from apportion.errors import ApportionError
from apportion.groups.handover import OwnSession
from apportion.groups.holdings import Holdings
from apportion.groups.life.deadlines import Deadlines
from apportion.groups.member import Action, Drain, Serve, Stop, Wait
from apportion.groups.opening import Options
from apportion.groups.statistics import Statistics
from apportion.groups.view.view import View
from apportion.model.epoch import FencingToken

logger = logging.getLogger("apportion.group")


class Effects:
    """Carries out the decisions of one member."""

    def __init__(
        self, view: View, options: Options, holdings: Holdings, statistics: Statistics, deadlines: Deadlines
    ) -> None:
        self._view, self._options = view, options
        self._holdings, self._statistics, self._deadlines = holdings, statistics, deadlines
        self._told = ""

    def act(self, actions: Sequence[Action], me: OwnSession, now: float) -> None:
        """Carry out all actions except commits: first every gain, then every loss."""
        gained: dict[int, FencingToken] = {}
        lost: list[Drain | Stop] = []
        for action in actions:
            if isinstance(action, Serve):
                gained[action.partition] = self._token(action, me)
                self._say("gained", action.partition, f"epoch {action.epoch}, {action.why}")
            elif isinstance(action, Wait):
                self._say_waits(action, now)
            elif isinstance(action, Drain | Stop):
                lost.append(action)
        if gained:
            self._holdings.grant(gained)
            self._statistics.gained += len(gained)
        if lost:
            self._withdraw(lost, me, now)

    def _withdraw(self, actions: list[Drain | Stop], me: OwnSession, now: float) -> None:
        partitions = [action.partition for action in actions]
        new = self._deadlines.lost(partitions, now)
        self._holdings.withdraw(partitions)
        self._statistics.loses(new, now)
        for action in actions:
            if isinstance(action, Stop):
                self._holdings.cancel(action.partition)
            self._say("loses", action.partition, self._cause(action, me))

    def _cause(self, action: Drain | Stop, me: OwnSession) -> str:
        target = self._view.target
        if isinstance(action, Stop) and me.session:
            return "its record does not name our session any more"
        if isinstance(action, Stop) or target is None:
            return "our session is over"
        return f"target {target.generation} names {target.owner(action.partition) or 'nobody'}"

    def say_once(self, error: ApportionError) -> None:
        """Log why a request to the store failed and is repeated, unless the last message said the same."""
        if self._told != error.problem:
            self._told = error.problem
            logger.warning("%s: %s asks again: %s", self._options.group, self._options.member_id, error)

    def _say(self, what: str, partition: int, why: str) -> None:
        logger.info("%s: %s %s %d: %s", self._options.group, self._options.member_id, what, partition, why)

    def _say_waits(self, wait: Wait, now: float) -> None:
        group, partition = self._options.group, wait.partition
        then = f"next try in {wait.until - now:.1f} s"
        if wait.until == float("inf"):
            then = f"it is in quarantine until: apportion group release URL {group} {partition}"
        logger.warning("%s: %d sessions ended under partition %d; %s", group, wait.deaths, partition, then)

    def _token(self, action: Serve, me: OwnSession) -> FencingToken:
        resource = f"{self._options.group}/{action.partition}"
        holder = f"{me.id} {me.session}"
        return FencingToken(resource=resource, holder=holder, incarnation=self._view.incarnation, epoch=action.epoch)
