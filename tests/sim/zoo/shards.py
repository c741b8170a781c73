"""The zoo's house of shards: bugs of the machine, of the mover, of the rule of slot rows, and of channels."""

from dataclasses import replace

from tests.sim.zoo.cage import Bug

_MACHINE, _ROWS = "shards/reshard.py", "shards/slot_rows.py"
_ACTS, _BOOK, _MEMORY = "shards/mover/acts.py", "shards/mover/book.py", "sim/shards/memory.py"
_PINS = "shards/mover/own_slots.py"
_DATABASE = "sim/shards/database.py"
_WRITTEN = (
    "        for slot in slots:\n"
    "            kept = self.slots[slot]\n"
    "            self.slots[slot] = replace(kept, row=written(kept.row))\n"
    "        self.tell_slots()\n"
    "        self.put(changes)\n"
)
_BY_RULE = '        return row.state == "owner"\n'

_ON_ROWS = (
    Bug(
        "an incoming slot takes any number",
        _ROWS,
        "    return row.number <= version\n",
        '    return row.state == "incoming" or row.number <= version\n',
    ),
    Bug(
        "an incoming slot without a number accepts routers",
        _ROWS,
        _BY_RULE,
        '        return row.state == "owner" or (row.number is None and version is not None)\n',
    ),
    Bug(
        "an incoming slot accepts a writer without a table",
        _ROWS,
        _BY_RULE,
        '        return row.state == "owner" or (version is None and row.number is not None)\n',
    ),
)

_ON_THE_MACHINE = (
    Bug(
        "capture begins after the first chunk",
        _MACHINE,
        '    return _to(found, "copying") if found.is_captured else MoveAct(label="capture")\n\n\n'
        "def _copying(found: MoveView) -> MoveAct:\n"
        '    return _to(found, "catching-up") if found.is_copied else MoveAct(label="chunk")\n',
        '    return _to(found, "copying")\n\n\n'
        "def _copying(found: MoveView) -> MoveAct:\n"
        "    if not found.is_copied:\n"
        '        return MoveAct(label="chunk")\n'
        '    return _to(found, "catching-up") if found.is_captured else MoveAct(label="capture")\n',
    ),
    Bug(
        "the rows of an aborted move stay",
        _MACHINE,
        '    if found.is_target_away or (found.target is not None and found.target.state != "moved"):\n'
        '        return MoveAct(label="drop")\n',
        "",
    ),
    Bug(
        "the log of a move that is over stays",
        _MACHINE,
        '    if found.is_captured:\n        return MoveAct(label="uncapture")\n    if found.record.way',
        "    if found.record.way",
    ),
    Bug(
        "the switch comes without a fence",
        _MACHINE,
        '    if found.source.state == "owner":\n        return MoveAct(label="fence")\n',
        "",
    ),
    Bug(
        "the source is not drained before the switch",
        _MACHINE,
        '    if not found.is_drained:\n        return MoveAct(label="apply-log")\n    if not found.is_verified:',
        "    if not found.is_verified:",
    ),
    Bug(
        "the source is opened before the record ends the attempt, though the switch may be on its way",
        _MACHINE,
        '    if state == "fenced" and (found.wish == "pause" or found.is_late):\n',
        '    if state == "fenced" and (found.wish == "pause" or found.is_late):\n'
        '        if found.source.state == "fenced":\n'
        '            return MoveAct(label="unfence")\n',
    ),
)

_ON_THE_WAY_BACK = (
    Bug(
        "the target of a reversible move logs nothing",
        _MACHINE,
        '    if found.record.way == "reversible" and not found.is_captured_back:\n'
        '        return MoveAct(label="capture-back")\n',
        "",
    ),
    Bug(
        "the log of the target ends with that of the source",
        _MEMORY,
        '"forget", group.move, token, lambda database: database.forget(group))\n',
        '"forget", group.move, token, lambda database: database.end_log(group))\n',
    ),
    Bug(
        "the first write of a slot that came here is not logged",
        _DATABASE,
        _WRITTEN,
        "        logs = self.logs\n"
        '        if any(self.slots[slot].row.state == "incoming" for slot in slots):\n'
        "            self.logs = {}\n" + _WRITTEN + "        self.logs = logs\n",
        seeds=400,
    ),
)

_ON_THE_MOVER = (
    Bug(
        "the switch leaves the record untouched",
        _ACTS,
        "            puts=[self._book.put(entry)],\n",
        "            puts=[],\n",
    ),
    Bug(
        "the switch names the target for one slot alone",
        _ACTS,
        "            shifted(value, group.arriving.slots, ",
        "            shifted(value, group.arriving.slots[:1], ",
    ),
    Bug(
        "a move begins though its source owns the slots no more",
        _BOOK,
        "            if table.owners.get(slot) != group.source:\n",
        "            if table.owners.get(slot) is None:\n",
    ),
    Bug(
        "a slot is listed for two moves",
        _BOOK,
        "            if other is not None:\n",
        "            if other is not None and other in self.keys.prefix:\n",
    ),
)

_ON_PINS = (
    Bug(
        "a pin does not look for rows again after older tables are refused",
        _PINS,
        "        if not is_raised or await has_rows(shard, hashed, data):\n",
        "        if not is_raised:\n",
        seeds=300,
    ),
    Bug(
        "a pin is taken back without the guard, so that an older mover owns the slot later",
        _PINS,
        "            await (await place.shard(shard)).guard(group, self._token)\n",
        "",
    ),
    Bug(
        "a pin lets older tables write the key to its hash slot",
        _PINS,
        'RowChange(before=("owner",), after="owner", number=number), self._token)\n'
        "        return all(row is not None and row.number == number for row in await shard.rows(group))\n",
        'RowChange(before=(), after="owner", number=number), self._token)\n        return True\n',
    ),
)

_ON_SHARDS = (
    Bug(
        "chunks and the log are written in two lanes",
        _MEMORY,
        "base.read(group.slots, before.after, CHUNK_ROWS))\n",
        "base.read(group.slots, before.after, CHUNK_ROWS))\n        await self.apply(token)\n",
    ),
    Bug(
        "the log is deleted before the target has its rows",
        _MEMORY,
        "        if rows:\n"
        '            await self._target.guarded("apply", move, token, '
        "lambda database: database.bring(self._group, rows))\n"
        '        await self._source.guarded("forget", move, token, _forget)\n',
        '        await self._source.guarded("forget", move, token, _forget)\n'
        "        if rows:\n"
        '            await self._target.guarded("apply", move, token, '
        "lambda database: database.bring(self._group, rows))\n",
    ),
    Bug(
        "a clean-up does not ask who owns a slot, and comes before the source is settled",
        _MACHINE,
        '    if found.source.state == "fenced":\n        return MoveAct(label="settle-source")\n',
        "",
    ),
)

BUGS = tuple(
    replace(bug, scenario="shards")
    for bugs in (_ON_ROWS, _ON_THE_MACHINE, _ON_THE_WAY_BACK, _ON_THE_MOVER, _ON_PINS, _ON_SHARDS)
    for bug in bugs
)

FOUND_BY: dict[str, tuple[str, ...]] = {
    "OneShardAccepts": ("an incoming slot takes any number", "an incoming slot accepts a writer without a table"),
    "WritesStay": ("the source is not drained before the switch", "a slot is listed for two moves"),
    "MovesEnd": ("the rows of an aborted move stay", "the log of a move that is over stays"),
}
