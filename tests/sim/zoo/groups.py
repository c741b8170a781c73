"""The zoo's house of groups: bugs in the shipped files of groups, which the group's scenario must find.

Some were there: those say so, and keep them from coming back. The rarest of what was there are told in
`test_group_found.py` instead.
"""

from dataclasses import replace

from tests.sim.zoo.cage import Bug

_ON_HAND_OVER = (
    Bug(
        "a live owner is robbed",
        "groups/handover.py",
        "    if not known.is_wanted or not known.is_free or known.waits:",
        "    if not known.is_wanted or known.waits:",
    ),
    Bug(
        "a member that is back adopts its old epoch",
        "groups/handover.py",
        "    after = replace(record, epoch=record.epoch + 1, ended=known.ended)",
        "    is_back = act is Act.TAKE_OVER and record.owner == me.id\n"
        "    after = replace(record, epoch=record.epoch + (not is_back), ended=known.ended)",
    ),
    Bug(
        "what is served is given before it is drained",
        "groups/handover.py",
        "(Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.DRAIN, Phase.DRAINING),",
        "(Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.GIVE, Phase.GIVING),",
    ),
    Bug(
        "what was let go is served again without another epoch",
        "groups/handover.py",
        "(Phase.IDLE, HandOverEvent.WANTED_USED): (Act.RENUMBER, Phase.ASKING),",
        "(Phase.IDLE, HandOverEvent.WANTED_USED): (Act.SERVE, Phase.SERVING),",
        seeds=400,
    ),
    Bug(
        "it is forgotten which epochs were served",
        "groups/handover.py",
        "        served = epoch if act in (Act.SERVE, Act.GIVE) else 0 if event is HandOverEvent.OVER else self.served",
        "        served = epoch if act is Act.SERVE and phase is self.phase else 0",
    ),
    Bug(
        "what is owned on paper is never given",
        "groups/handover.py",
        "(Phase.IDLE, HandOverEvent.UNWANTED_GRANTED): (Act.GIVE, Phase.GIVING),",
        "(Phase.IDLE, HandOverEvent.UNWANTED_GRANTED): (None, Phase.IDLE),",
        seeds=200,
    ),
    Bug(
        "the next owner never waits",
        "groups/handover.py",
        "    if not known.is_wanted or not known.is_free or known.waits:",
        "    if not known.is_wanted or not known.is_free:",
        seeds=200,
    ),
    Bug(
        "a process that lives on counts as dead",
        "groups/view/intake.py",
        "            _keep(self.lived, {} if there is None else dict.fromkeys(there.record.former))\n",
        "",
    ),
    Bug(
        "a session that lives is listed as ended",
        "groups/handover.py",
        "    return replace(after, owner=None, session=0) if to is None else",
        "    after = replace(after, ended=(*known.ended, record.session or me.session)[-9:])\n"
        "    return replace(after, owner=None, session=0) if to is None else",
    ),
    Bug(
        "a session that is over is not told to the partitions",
        "groups/handover.py",
        "    (Phase.SERVING, HandOverEvent.OVER): (Act.STOP, Phase.DRAINING),",
        "    (Phase.SERVING, HandOverEvent.OVER): (None, Phase.SERVING),",
    ),
)

_ON_SHARE = (
    Bug(
        "of a batch that is refused one half is lost",
        "groups/unanswered_commits.py",
        "            self._halves.extend(half for half in (fresh[:middle], fresh[middle:]) if half)",
        "            self._halves.extend(half for half in (fresh[:middle],) if half)",
        seeds=620,
    ),
    Bug(
        "who is asked to drain gives all away at once",
        "groups/member.py",
        "            is_wanted=wanted == self.me.id and not view.is_damaged(partition),",
        "            is_wanted=wanted == self.me.id and self.me.id not in view.drains,",
    ),
    Bug(
        "without a controller all is given away",
        "groups/member.py",
        "        wanted = None if target is None else target.owner(partition)",
        "        wanted = None if target is None or view.leading is None else target.owner(partition)",
    ),
    Bug(
        "a commit that failed is taken for done",
        "groups/member.py",
        "            self._advance(move.partition, HandOverEvent.FAILED, actions)",
        "            self._advance(move.partition, HandOverEvent.DONE, actions, epoch=move.known.record.epoch + 1)",
    ),
)

_ON_VIEW = (
    Bug(
        "what another life of the store held is kept (it was there)",
        "groups/view/intake.py",
        "        if scan.incarnation != self.incarnation:",
        "        if scan.incarnation < self.incarnation:",
        seeds=200,
    ),
    Bug(
        "a scan leaves what is gone",
        "groups/view/intake.py",
        "                self._take(gone, None, scan.revision, now, touched)",
        "                gone.strip()",
        seeds=400,
    ),
)

_ON_CONTROLLER = (
    Bug(
        "a target is written without a look at the term",
        "groups/controller/controller.py",
        "        when = (Unchanged(key=keys.controller, revision=term), self._view.as_seen(keys.target))",
        "        when = (self._view.as_seen(keys.target),)",
        seeds=200,
    ),
    Bug(
        "who only waits to join is the controller (it was there)",
        "groups/life/life.py",
        "            if self._member.session and (write := self._controller.look(now)) is not None:",
        "            if (write := self._controller.look(now)) is not None:",
        seeds=200,
    ),
    Bug(
        "who is drained is not passed over",
        "groups/controller/controller.py",
        "there.record.node(each, drains=each in view.drains)",
        "there.record.node(each)",
    ),
    Bug(
        "after a pause the same owners are no news (it was there)",
        "groups/controller/controller.py",
        "        return None if tuple(step) == before.owners != owners else tuple(step)",
        "        return None if tuple(step) == before.owners else tuple(step)",
        seeds=200,
    ),
    Bug(
        "a candidate waits for his place for ever so long",
        "groups/controller/controller.py",
        "        turn += TURN_SECONDS *",
        "        turn += 26 + TURN_SECONDS *",
    ),
)

_ON_HOLDINGS = (
    Bug(
        "no deadline is looked at",
        "groups/holdings.py",
        "        return self._clock.elapsed() < self.deadline",
        '        return self.deadline > float("-inf")',
    ),
    Bug(
        "what is still worked on counts as quiet",
        "groups/holdings.py",
        "partition not in self._held and not self._holds.on(partition) and not",
        "partition not in self._held and not",
    ),
    Bug(
        "only the first hold of a partition is waited for",
        "groups/open_holds.py",
        "        return bool(self._by_partition.get(partition))",
        "        return len(self._by_partition.get(partition, ())) > 1",
    ),
    Bug(
        "what is withdrawn can still be entered",
        "groups/holdings.py",
        "        self._held = {each: held for each, held in self._held.items() if each not in partitions}",
        "        self._held = dict(self._held)",
    ),
)

_ON_SESSION = (
    Bug(
        "a member of the same id joins over the one that is there",
        "groups/membership.py",
        "        if there is None or (is_damaged and (there.lease in (None, self._lease) or not is_patient)):",
        "        if there is None or not is_patient:",
        seeds=200,
    ),
    Bug(
        "a static member joins without a wait for its predecessor",
        "groups/membership.py",
        "        if there is None or (is_damaged and (there.lease in (None, self._lease) or not is_patient)):",
        "        if there is None or options.is_static:",
        seeds=200,
    ),
    Bug(
        "a member's record has no lease",
        "groups/membership.py",
        "            puts = [Put(key=member, value=record, lease=self._lease)]",
        "            puts = [Put(key=member, value=record)]",
    ),
    Bug(
        "a deadline counts from when the answer came",
        "groups/session.py",
        "                return\n            self._confirm(sent)",
        "                return\n            self._confirm(self._clock.elapsed())",
    ),
    Bug(
        "who leaves a shared lease leaves its records there",
        "groups/life/life.py",
        "        is_clear = may_stay and (membership is None or await membership.is_cleared())",
        "        is_clear = may_stay",
    ),
    Bug(
        "a deadline lies after the end of the lease",
        "groups/session.py",
        "MARGIN_RATIO = 0.1",
        "MARGIN_RATIO = -0.3",
    ),
)

_ON_DRIVER = (
    Bug(
        "a new life begins much later",
        "groups/driver.py",
        "_PAUSE_SECONDS = 0.25",
        "_PAUSE_SECONDS = 15.0",
    ),
    Bug(
        "what became quiet between two lives is forgotten (it was there)",
        "groups/life/inbox.py",
        "        self._news = [each for each in self._news if isinstance(each, Quiet)]",
        "        self._news.clear()",
        seeds=200,
    ),
    Bug(
        "a lease is asked for before a scan (it was there)",
        "groups/session.py",
        "(await self._store.scan(_NOTHING)).incarnation  # a scan accepts any life\n",
        "2**62\n",
    ),
    Bug(
        "what must be cancelled is waited for without a pause (it was there)",
        "groups/life/deadlines.py",
        "            del self._cancel_at[partition]\n            self._force_at",
        "            self._force_at",
    ),
    Bug(
        "tokens do not say which life of the store they are of",
        "groups/life/effects.py",
        "incarnation=self._view.incarnation, epoch=action.epoch)",
        "incarnation=1, epoch=action.epoch)",
    ),
    Bug(
        "the token of a session is that of its member",
        "groups/life/effects.py",
        'holder = f"{me.id} {me.session}"',
        'holder = f"{me.id} 1"',
    ),
)

_ON_THE_SINK = (Bug("a sink of a group accepts every token", "sim/world/sink.py", "token >= before[0]", "bool(token)"),)

BUGS = tuple(
    replace(bug, scenario="group")
    for bugs in (
        _ON_HAND_OVER,
        _ON_SHARE,
        _ON_VIEW,
        _ON_CONTROLLER,
        _ON_HOLDINGS,
        _ON_SESSION,
        _ON_DRIVER,
        _ON_THE_SINK,
    )
    for bug in bugs
)

FOUND_BY: dict[str, tuple[str, ...]] = {
    "OneSessionAnId": (
        "a member of the same id joins over the one that is there",
        "a static member joins without a wait for its predecessor",
    ),
    "TargetsHaveATerm": (
        "a target is written without a look at the term",
        "who only waits to join is the controller (it was there)",
    ),
    "GivenWhenQuiet": (
        "what is still worked on counts as quiet",
        "only the first hold of a partition is waited for",
    ),
    "HoldsAreOwned": (
        "a session that is over is not told to the partitions",
        "a deadline lies after the end of the lease",
    ),
    "NoLiveOverlap": ("what is still worked on counts as quiet", "what is withdrawn can still be entered"),
    "TokensAreUnique": (
        "it is forgotten which epochs were served",
        "tokens do not say which life of the store they are of",
    ),
    "UntouchedStays": ("who is asked to drain gives all away at once", "without a controller all is given away"),
    "DeathsAreTrue": ("the next owner never waits", "a session that lives is listed as ended"),
    "BoundedOrphan": (
        "a new life begins much later",
        "a process that lives on counts as dead",
        "a candidate waits for his place for ever so long",
    ),
}
