"""Assignment body: the owners of each partition, and all other facts that a balancer added.

Only the topology, `partitions`, `replicas` and the owners are always present. A member or a column without content is
left out. So a new optional member does not change the bytes of an assignment without it. A release that does not know
an optional member refuses the assignment and names that member.
"""

from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment, Rule
from apportion.model.certificate import Certificate, Proof
from apportion.model.codec.columns import (
    Columns,
    SavedColumns,
    flat_rows_of,
    four_column,
    fours_of,
    number_column,
    numbers_of,
    text_columns,
    texts_of,
)
from apportion.model.codec.parsing import Json, integer, items, members, pairs, refuse, text
from apportion.model.epoch import Epoch
from apportion.model.rows import Rows
from apportion.model.topology import Topology

OPTIONAL_MEMBERS = ("home_replicas", "rule", "certificate")


def assignment_form(value: Assignment) -> tuple[dict[str, Json], Columns]:
    """Return the members of an assignment (without its topology), and its columns."""
    rows = Rows.of(value.rows)
    form: dict[str, Json] = {"partitions": len(rows), "replicas": rows.width}
    columns: Columns = {"owners": rows.to_big_endian()}
    if value.names is not None:
        columns |= text_columns("names", value.names)
    if value.home is not None:
        home = Rows.of(value.home)
        form["home_replicas"], columns["home"] = home.width, home.to_big_endian()
    if value.down:
        columns["down"] = number_column([value.topology.index(node_id) for node_id in value.down], 4)
    if value.sizes is not None:
        columns["sizes"] = number_column(value.sizes, 8)
    if value.rule is not None:
        rule = value.rule
        form["rule"] = {"replicas": rule.replicas, "spread_level": rule.spread_level, "spread": rule.spread}
    if value.certificate is not None:
        form["certificate"] = _certificate_form(value.certificate, len(value.topology), columns)
    return form, columns


def _certificate_form(certificate: Certificate, nodes: int, columns: Columns) -> Json:
    proofs = {"home": certificate.home, "current": certificate.current}
    _check(certificate, nodes)
    for step, proof in proofs.items():
        if proof is not None:
            columns[f"{step}_proof"] = four_column(zip(*_columns_of(proof), strict=True))
    return {
        "previous": certificate.previous,
        "topology": certificate.topology,
        "options": certificate.options,
        **{step: None if proof is None else [proof.moves, proof.leader_changes] for step, proof in proofs.items()},
    }


def _check(certificate: Certificate, nodes: int) -> None:
    """Refuse a value that cannot be a certificate for `nodes` nodes; `balance.verify` checks the proof itself."""
    for digest in (certificate.previous or "0" * 32, certificate.topology, certificate.options):
        Epoch(number=0, digest=digest)
    for proof in (certificate.home, certificate.current):
        if proof is not None:
            _check_proof(proof, nodes)


def _check_proof(proof: Proof, nodes: int) -> None:
    for numbers in ((proof.moves, proof.leader_changes), *_columns_of(proof)):
        for number in numbers:
            if type(number) is not int or not -(2**63) <= number < 2**63:
                raise InvalidInput("number of the proof", number, "an int of 64 bits", "Take the proof from optimal.")
    for column in _columns_of(proof):
        if len(column) != nodes:
            hint = "Take the proof from optimal."
            raise InvalidInput("numbers of the proof", len(column), f"{nodes}, one per node", hint)


def _columns_of(proof: Proof) -> tuple[tuple[int, ...], ...]:
    return proof.prices, proof.least, proof.most, proof.leader_prices


def members_of_assignment(body: Json) -> dict[str, Json]:
    """Return the members of a body by name; refuse a body with other members than an assignment has."""
    names = ("partitions", "replicas", "topology", *(name for name in OPTIONAL_MEMBERS if name in pairs(body)))
    return dict(zip(names, members(body, *names), strict=True))


def assignment_of(form: dict[str, Json], topology: Topology, columns: SavedColumns) -> Assignment:
    """Return the assignment of these members and columns."""
    count, nodes = integer(form["partitions"]), len(topology)
    # The smaller columns are read first; names and sizes take most memory once they are read.
    down = columns.take("down") if "down" in columns else b""
    rule = _rule(form["rule"]) if "rule" in form else None
    certificate = _certificate(form["certificate"], columns, nodes) if "certificate" in form else None
    rows = flat_rows_of(columns.take("owners"), integer(form["replicas"]), count, nodes)
    home = None
    if "home_replicas" in form:
        home = flat_rows_of(columns.take("home"), integer(form["home_replicas"]), count, nodes)
    return Assignment(
        topology=topology,
        rows=rows,
        home=home,
        down=tuple(_id_at(place, topology) for place in numbers_of(down, 4, len(down) // 4)),
        sizes=tuple(numbers_of(columns.take("sizes"), 8, count)) if "sizes" in columns else None,
        names=texts_of(columns, "names", count) if "names" in columns else None,
        rule=rule,
        certificate=certificate,
    )


def _id_at(place: int, topology: Topology) -> str:
    return topology.ids[place] if place < len(topology) else refuse(place, f"a node's index, below {len(topology)}")


def _rule(form: Json) -> Rule:
    replicas, level, spread = members(form, "replicas", "spread_level", "spread")
    # `Rule` checks that the word of the spread is known.
    return Rule(
        replicas=integer(replicas),
        spread_level=None if level is None else integer(level),
        spread=text(spread),  # type: ignore[arg-type]
    )


def _certificate(form: Json, columns: SavedColumns, nodes: int) -> Certificate:
    previous, topology, options, home, current = members(form, "previous", "topology", "options", "home", "current")
    certificate = Certificate(
        previous=text(previous),
        topology=text(topology),
        options=text(options),
        home=_proof(home, columns.take("home_proof"), nodes),
        current=None if current is None else _proof(current, columns.take("current_proof"), nodes),
    )
    _check(certificate, nodes)
    return certificate


def _proof(form: Json, column: bytes, nodes: int) -> Proof:
    moves, leader_changes = map(integer, items(form, 2))
    prices, least, most, leader_prices = tuple(zip(*fours_of(column, nodes), strict=True)) or ((), (), (), ())
    return Proof(
        moves=moves, prices=prices, least=least, most=most, leader_changes=leader_changes, leader_prices=leader_prices
    )  # fmt: skip
