"""Topologies as TOML: `cluster`, `epoch` and a `[[node]]` table per node; `docs/topology-file.md` shows one.

Promises: a misspelt key is an error that names the nearest one; every error names the file and the fault in it.
"""

import tomllib
from pathlib import Path

from apportion.console.files.io import as_text, read_bounded
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.topology import Node, Topology

MAX_BYTES = 16 * 2**20
MAX_LINE_BYTES = 8192
"""The parser needs time that grows with the square of the dots in a key."""

BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def read_topology(path: Path) -> Topology:
    """Return the topology of a TOML file."""
    document = read_toml(path, what="topology file", hint="Write [[node]] and id = 'a' for each node.")
    try:
        check_keys("key of the topology file", document, ("cluster", "epoch", "node"))
        return topology_of(document, what="topology file")
    except InvalidInput as error:
        error.within(str(path))
        raise


def topology_of(document: dict[str, object], *, what: str) -> Topology:
    """Return the topology of a parsed file that holds one, perhaps among other things."""
    nodes = [node_of(table) for table in tables_of(document, "node", what=what)]
    cluster, number = document.get("cluster", ""), document.get("epoch", 1)
    return Topology(nodes, cluster=cluster, number=number)  # type: ignore[arg-type]


def tables_of(document: dict[str, object], name: str, *, what: str) -> list[dict[str, object]]:
    """Return the tables headed `[[name]]` of a parsed file."""
    listed = document.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        hint = f"Write [[{name}]] above each {name}."
        found = f"[{name}]" if isinstance(listed, dict) else listed
        raise InvalidInput(f"{name} in the {what}", found, f"tables headed [[{name}]]", hint)
    return listed


def read_toml(path: Path, *, what: str, hint: str) -> dict[str, object]:
    """Return the content of a TOML file; raise `InvalidInput` that names the file as `what` and gives the `hint`."""
    data = read_bounded(path, MAX_BYTES, what=what)
    if data.startswith(BYTE_ORDER_MARKS):
        raise InvalidInput(what, str(path), "UTF-8 without a byte order mark", "Save it as plain UTF-8.")
    if max(map(len, data.split(b"\n"))) > MAX_LINE_BYTES:
        expected = f"lines of at most {MAX_LINE_BYTES} bytes"
        raise InvalidInput(what, str(path), expected, hint)
    text = as_text(data, str(path), what=what)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else _reason(error)
        raise InvalidInput(what, str(path), f"TOML ({reason})", hint) from error


def _reason(error: ValueError) -> str:
    """Return the message of the parser without its quotes from the file: these may hold a password."""
    words, mark, place = str(error).rpartition(" (at ")
    if not mark:
        return "a number that is too long"
    before, _, quoted = words.partition("(")[0].partition("'")
    is_punctuation = len(quoted.partition("'")[0]) <= 2
    return (words.partition("(")[0] if is_punctuation else before).strip() + mark + place


def node_of(table: dict[str, object]) -> Node:
    """Return the node of a parsed table."""
    check_keys("key of a [[node]]", table, ("id", "weight", "zone"))
    if "id" not in table:
        raise InvalidInput("node in the topology file", None, "an id", 'Add id = "..." to each [[node]].')
    # Node itself checks the values at run time.
    return Node(table["id"], zone=table.get("zone", ()), weight=table.get("weight", 1.0))  # type: ignore[arg-type]


def check_keys(field: str, table: dict[str, object], known: tuple[str, ...]) -> None:
    """Raise `UnknownOption` for the first unknown key."""
    for key in table:
        if key not in known:
            raise UnknownOption(field, key, known)
