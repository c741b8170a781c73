"""Bugs in what is shipped that the explorer must find; each says within which bounds, and what tells of it."""

from dataclasses import dataclass

from tests.sim.zoo.bugs import Bug


@dataclass(frozen=True)
class Mutant(Bug):
    """A bug that the explorer finds within `bounds`, by the promise that it breaks."""

    bounds: str = "1,1,0"
    by: str = ""
    deaths: bool = False
    terms: int = 0
    moves: str = ""

    @property
    def options(self) -> list[str]:
        """What the explorer is called with."""
        if self.terms:
            return ["--terms", str(self.terms)]
        if self.moves:
            return ["--moves", self.moves]
        return ["--bounds", self.bounds, *["--deaths"] * self.deaths]


HANDOVER, RESHARD = "groups/handover.py", "shards/reshard.py"
MUTANTS = (
    Mutant(
        "no fence: tokens do not grow",
        "model/epoch.py",
        "    incarnation: int\n    epoch: int\n",
        "    incarnation: int\n    epoch: int = field(compare=False)\n",
        by="OwnerWrites",
    ),
    Mutant(
        "no fence: a takeover has the epoch of the one before",
        HANDOVER,
        "    after = replace(record, epoch=record.epoch + 1, ended=known.ended)",
        "    after = replace(record, epoch=record.epoch + (act is not Act.TAKE_OVER), ended=known.ended)",
        by="EpochMonotone",
    ),
    Mutant(
        "takeover without lease compare",
        HANDOVER,
        "    if not known.is_wanted or not known.is_free or known.waits:",
        "    if not known.is_wanted or known.waits:",
        by="NoLiveOverlap",
    ),
    Mutant(
        "adopt old epoch",
        HANDOVER,
        "    if (record.owner, record.session) != (me.id, me.session):",
        "    if record.owner != me.id:",
        by="Stops",
    ),
    Mutant(
        "transfer without compare",
        HANDOVER,
        "    owner, receiver = known.record.owner, known.receiver\n",
        "    if act is Act.GIVE:\n        del when[own]\n    owner, receiver = known.record.owner, known.receiver\n",
        by="EpochMonotone",
    ),
    Mutant(
        "a claim without compare",
        HANDOVER,
        "    owner, receiver = known.record.owner, known.receiver\n",
        "    if act is Act.CLAIM:\n        del when[own]\n    owner, receiver = known.record.owner, known.receiver\n",
        by="EpochMonotone",
    ),
    Mutant(
        "a commit of a session that is over counts",
        HANDOVER,
        "        keys.member(me.id): Unchanged(key=keys.member(me.id), revision=me.session),\n",
        "",
        by="GrantLives",
    ),
    Mutant(
        "grant before drain",
        HANDOVER,
        "(Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.DRAIN, Phase.DRAINING)",
        "(Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.GIVE, Phase.GIVING)",
        by="NoLiveOverlap",
    ),
    Mutant(
        "drained before what was begun has ended",
        HANDOVER,
        "(Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.DRAIN, Phase.DRAINING)",
        "(Phase.SERVING, HandOverEvent.UNWANTED_USED): (Act.DRAIN, Phase.IDLE)",
        by="NoLiveOverlap",
    ),
    Mutant(
        "resume without bump",
        HANDOVER,
        "(Phase.IDLE, HandOverEvent.WANTED_USED): (Act.RENUMBER, Phase.ASKING)",
        "(Phase.IDLE, HandOverEvent.WANTED_USED): (Act.SERVE, Phase.SERVING)",
        bounds="2,0,0",
        by="TokenUnique",
    ),
    Mutant(
        "resume what was on its way to another",
        HANDOVER,
        "act in (Act.SERVE, Act.GIVE)",
        "act is Act.SERVE",
        bounds="3,0,0",
        by="NoLiveOverlap",
    ),
    Mutant(
        "resume before the old hold has ended",
        HANDOVER,
        "    (Phase.DRAINING, HandOverEvent.QUIET): (None, Phase.IDLE),\n",
        "    (Phase.DRAINING, HandOverEvent.QUIET): (None, Phase.IDLE),\n"
        "    (Phase.DRAINING, HandOverEvent.WANTED_USED): (Act.RENUMBER, Phase.ASKING),\n",
        bounds="2,0,0",
        by="HoldsApart",
    ),
    Mutant(
        "a new session resumes before the old hold has ended",
        HANDOVER,
        "    (Phase.SERVING, HandOverEvent.OVER): (Act.STOP, Phase.DRAINING),\n",
        "    (Phase.SERVING, HandOverEvent.OVER): (Act.STOP, Phase.IDLE),\n",
        by="HoldsApart",
    ),
    Mutant(
        "no on-paper release",
        HANDOVER,
        "    (Phase.IDLE, HandOverEvent.UNWANTED_GRANTED): (Act.GIVE, Phase.GIVING),\n",
        "",
        by="Converge",
    ),
    Mutant(
        "the last death is not listed",
        HANDOVER,
        "    after = replace(record, epoch=record.epoch + 1, ended=known.ended)",
        "    after = replace(record, epoch=record.epoch + 1)",
        bounds="0,1,0",
        by="Deaths",
        deaths=True,
    ),
    Mutant(
        "a session is listed that lives",
        HANDOVER,
        "    return replace(after, owner=None, session=0) if to is None else",
        "    after = replace(after, ended=(*known.ended, me.session)[-9:])\n"
        "    return replace(after, owner=None, session=0) if to is None else",
        bounds="0,1,0",
        by="Deaths",
        deaths=True,
    ),
    Mutant(
        "a renumbering forgets whose it is",
        HANDOVER,
        "        return after\n",
        "        return replace(after, owner=None, session=0)\n",
        bounds="3,0,0",
        by="NoLiveOverlap",
    ),
    Mutant(
        "term reuse",
        "stores/ledger.py",
        "        self.revision += 1\n        records",
        "        self.revision = 1 + max((each.revision for each in self.records.values()), default=0)\n"
        "        records",
        terms=3,
        by="TermUnique",
    ),
    Mutant(
        "revoke by another: the id of a lease is given again",
        "stores/ledger.py",
        "        lease, self.next_lease = self.next_lease, self.next_lease + 1\n",
        "        lease = 1 + max(self.leases, default=0)\n",
        terms=3,
        by="OwnLease",
    ),
    Mutant(
        "a term that has ended is good for a write",
        "stores/ledger.py",
        "            if expected != (None if record is None else record.revision):",
        "            if (expected is None) != (record is None):",
        terms=3,
        by="OneWriter",
    ),
    Mutant(
        "a transfer to a session that is over counts",
        HANDOVER,
        "    if act is Act.GIVE and receiver is not None:",
        "    if act is Act.CLAIM and receiver is not None:",
        by="GrantLives",
    ),
    Mutant(
        "an abort opens the source before its record is written",
        RESHARD,
        '    if found.wish == "abort" and state in BEFORE_SWITCH:\n',
        '    if found.wish == "abort" and state == "fenced" and found.source.state == "fenced":\n'
        '        return MoveAct(label="unfence")\n'
        '    if found.wish == "abort" and state in BEFORE_SWITCH:\n',
        moves="1,0,1,0,1,0,0",
        by="S1",
    ),
    Mutant(
        "a retreat opens the source before its record is written",
        RESHARD,
        '        return _to(found, "catching-up", attempts=1)\n    act = ',
        '        is_open = found.source.state == "owner"\n'
        '        return _to(found, "catching-up", attempts=1) if is_open else MoveAct(label="unfence")\n    act = ',
        moves="1,0,1,0,0,1,0",
        by="S1",
    ),
    Mutant(
        "the target of a reversible move logs nothing",
        RESHARD,
        '    if found.record.way == "reversible" and not found.is_captured_back:\n'
        '        return MoveAct(label="capture-back")\n',
        "",
        moves="1,0,0,0,0,0,0,1",
        by="S2",
    ),
    Mutant(
        "a clean-up deletes rows before the record ends the way back",
        RESHARD,
        '    if found.record.way == "reversible":\n'
        '        return MoveAct(label="forgo", record=replace(found.record, way="one-way"))\n'
        "    if not found.is_cleaned:\n"
        '        return MoveAct(label="clean-batch")\n',
        "    if not found.is_cleaned:\n"
        '        return MoveAct(label="clean-batch")\n'
        '    if found.record.way == "reversible":\n'
        '        return MoveAct(label="forgo", record=replace(found.record, way="one-way"))\n',
        moves="1,0,0,0,0,0,0,1",
        by="S2",
    ),
)
