"""The zoo's house of shards: bugs of the machine, of the mover, of the rule of slot rows, and of shards and channels.

Some would be masked by a second rule, such as a compare beside a token; those bugs take both away.
"""

from dataclasses import replace

from tests.sim.zoo.cage import Bug

_MACHINE, _ROWS = "shards/reshard.py", "shards/slot_rows.py"
_MOVER, _ACTS, _BOOK = "shards/mover/mover.py", "shards/mover/acts.py", "shards/mover/book.py"
_MEMORY, _DATABASE = "sim/shards/memory.py", "sim/shards/database.py"
_BY_RULE = '        return row.state == "owner"\n'
_UNFENCE = (
    "            from apportion.shards.move_group import ROW_CHANGES\n"
    "            group = kept.entry.group\n"
    '            await (await self._sites.shard(group.source)).change(group, ROW_CHANGES["unfence"], self._token)\n'
)
_ABORTED = '            aborted = MoveRecord(state="aborted", attempt=kept.entry.record.attempt)\n'

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
        "the source opens before the record says that the move is aborted",
        _MOVER,
        _ABORTED,
        _ABORTED + _UNFENCE,
        seeds=1_000,
    ),
    Bug(
        "a retreat opens the source before the record says so",
        _MACHINE,
        '        return _to(found, "catching-up", attempts=1)\n',
        '        if found.source.state == "fenced":\n'
        '            return MoveAct(label="unfence")\n'
        '        return _to(found, "catching-up", attempts=1)\n',
        seeds=400,
    ),
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
        '    if found.is_captured:\n        return MoveAct(label="uncapture")\n    return _to(found, "cleaned")',
        '    return _to(found, "cleaned")',
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
        "            shifted(value, group.slots, ",
        "            shifted(value, group.slots[:1], ",
    ),
    Bug(
        "a move begins though its source owns the slots no more",
        _BOOK,
        "            if table.owners.get(slot) != group.source:\n",
        "            if table.owners.get(slot) is None:\n",
        seeds=400,
    ),
    Bug(
        "a slot is listed for two moves",
        _BOOK,
        "            if other is not None:\n",
        "            if other is not None and other in self.keys.prefix:\n",
    ),
)

_ON_SHARDS = (
    Bug(
        "chunks and the log are written in two lanes",
        _ACTS,
        "channel.copy(token),\n",
        '__import__("asyncio").gather(channel.copy(token), channel.apply(token)),\n',
    ),
    Bug(
        "the log is deleted before the target has it",
        _MEMORY,
        '        await self._target.guarded("apply", move, token, lambda database: database.put(rows))\n'
        '        await self._source.guarded("forget", move, token, _forget)\n',
        '        await self._source.guarded("forget", move, token, _forget)\n'
        '        await self._target.guarded("apply", move, token, lambda database: database.put(rows))\n',
        seeds=400,
    ),
    Bug(
        "the log is applied without a token",
        _MEMORY,
        'self._target.guarded("apply", move, token, lambda database: database.put(rows))',
        'self._target.read("apply", lambda database: database.put(rows))',
        seeds=1_000,
    ),
    Bug(
        "a chunk is written without a token, and without a compare of the cursor",
        _MEMORY,
        "            if database.cursors.get(group.move, CopyCursor()) == before:\n"
        "                old = database.read(group.slots, before.after)\n"
        "                gone = [each for each in old if each not in rows and (after.is_copied or each <= max(rows))]\n"
        "                database.put({**dict.fromkeys(gone), **rows})\n"
        "                database.cursors[group.move] = after\n\n"
        '        await self._target.guarded("copy", group.move, token, _perform)\n',
        "            database.put(rows)\n"
        "            database.cursors.setdefault(group.move, after)\n"
        "            database.cursors[group.move] = after\n\n"
        '        await self._target.read("copy", _perform)\n',
        seeds=1_000,
    ),
    Bug(
        "a clean-up shows no token, and does not ask who owns a slot",
        _MEMORY,
        'self._wire.guarded("clean", group.move, token, lambda base: base.clean(group, CLEAN_ROWS))',
        'self._wire.read("clean", lambda base: base.put(dict.fromkeys(base.read(group.slots))) or 0)',
        seeds=1_000,
    ),
    Bug(
        "a clean-up does not ask who owns a slot, and comes before the source is settled",
        _MACHINE,
        '    if found.source.state == "fenced":\n        return MoveAct(label="settle-source")\n',
        "",
    ),
)

BUGS = tuple(
    replace(bug, scenario="shards") for bugs in (_ON_ROWS, _ON_THE_MACHINE, _ON_THE_MOVER, _ON_SHARDS) for bug in bugs
)

FOUND_BY: dict[str, tuple[str, ...]] = {
    "OneShardAccepts": ("an incoming slot takes any number", "an incoming slot accepts a writer without a table"),
    "WritesStay": ("the source is not drained before the switch", "a slot is listed for two moves"),
    "MovesEnd": ("the rows of an aborted move stay", "the log of a move that is over stays"),
}
