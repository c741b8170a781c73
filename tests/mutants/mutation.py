"""Mutation: one change of meaning in one place of a file, as a slip of the hand would make it.

Promises: each mutation of `mutations` differs from the file in one place, and the order is that of the file.
Refuses: texts. Docstrings, messages, logs and annotations have no meaning that a test could hold. Nor has an assertion
that no input breaks.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
DROPPED = (ast.AugAssign, ast.Delete, ast.Raise, ast.Break, ast.Continue)
FOR_TYPES = {"annotation", "returns", "decorator_list", "bases", "type", "targets", "target"}
FOR_PEOPLE = {"__repr__", "__str__"}
WITHOUT_EFFECT = {"repr", "strict"}  # of a field: for people; of a zip: an assertion
PARTS = (ast.expr, ast.comprehension, ast.arguments, ast.withitem, ast.keyword, ast.match_case)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change: `text` in the place of the bytes `start:end`. `statement` is where its statement begins."""

    path: str
    line: int
    statement: int
    is_in_function: bool
    start: int
    end: int
    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.what}"

    def applied(self, source: bytes) -> bytes:
        """Return the file with this change."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutations(path: str, source: bytes) -> Iterator[Mutation]:
    """Yield every mutation of one file."""
    lengths = [len(line) for line in source.splitlines(keepends=True)]
    begins = [sum(lengths[:index]) for index in range(len(lengths))]
    for statement, function in _statements(ast.parse(source).body, None):
        changes = [*_of_statement(statement, function)]
        for node in _expressions(statement):
            changes += ((node, f"({ast.unparse(text)})") for text in _of_expression(node))
        for node, text in changes:
            start, end = begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset
            what = f"{' '.join(source[start:end].decode().split())[:70]} -> {text[:70]}"
            in_function = function is not None
            place = {"path": path, "line": node.lineno, "statement": statement.lineno, "is_in_function": in_function}
            yield Mutation(**place, start=start, end=end, text=text, what=what)


def _statements(body: list, function: ast.AST | None) -> Iterator[tuple[ast.stmt, ast.AST | None]]:
    for statement in body:
        if isinstance(statement, FUNCTIONS) and statement.name in FOR_PEOPLE:
            continue
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            continue
        yield statement, function
        inner = statement if isinstance(statement, FUNCTIONS) else function
        for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(part, field, []), inner)


def _of_statement(node: ast.stmt, function: ast.AST | None) -> Iterator[tuple[ast.AST, str]]:
    """Yield what a statement may become, or the type that an `except` of it may catch."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)) and not _is_text(node.value)
    is_kept = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript))
    if is_call or is_kept or isinstance(node, DROPPED):
        yield node, "pass"
    if isinstance(node, ast.Return) and node.value is None:
        yield node, "pass"
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant):
        is_bool = isinstance(function, FUNCTIONS) and function.returns and ast.unparse(function.returns) == "bool"
        yield node, f"return not ({ast.unparse(node.value)})" if is_bool else "return None"
    if isinstance(node, (ast.If, ast.While)):
        yield from ((node.test, f"({ast.unparse(text)})") for text in _negated(node.test))
    for handler in getattr(node, "handlers", ()):
        yield handler.type, "()"


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement computes itself: not the statements within it, and no texts or types."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and _is_text(node.value)):
        return
    for field, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if field in FOR_TYPES or not isinstance(part, PARTS) or _is_text(part):
                continue
            if isinstance(part, ast.keyword) and part.arg in WITHOUT_EFFECT:
                continue
            if isinstance(part, ast.expr):
                yield part
            yield from _expressions(part)


def _is_text(node: ast.AST) -> bool:
    """Whether people read it: a string, or the call of a logger."""
    logs = isinstance(node, ast.Call) and ast.unparse(node.func).lstrip("_").startswith(("logger.", "log."))
    return logs or isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what an expression may become."""
    if isinstance(node, ast.Compare):
        for index, compared in enumerate(node.ops):
            for other in COMPARED[type(compared)]:
                ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
                yield ast.Compare(left=node.left, ops=ops, comparators=node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(op=ast.And() if isinstance(node.op, ast.Or) else ast.Or(), values=node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(test=node.test, body=node.orelse, orelse=node.body)
    elif (
        isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not (_is_text(node.left) or _is_text(node.right))
    ):
        yield ast.BinOp(left=node.left, op=COMPUTED[type(node.op)](), right=node.right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLED:
        yield ast.Call(func=ast.Name(id=CALLED[node.func.id]), args=node.args, keywords=node.keywords)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield from (ast.Constant(value=node.value + 1), ast.Constant(value=node.value - 1))


def _negated(node: ast.expr) -> Iterator[ast.expr]:
    if not isinstance(node, (ast.Compare, ast.UnaryOp, ast.Constant)):
        yield ast.UnaryOp(op=ast.Not(), operand=node)
