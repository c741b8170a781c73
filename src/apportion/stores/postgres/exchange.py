"""Exchange: one prepared statement over a connection, and its answer, without a cursor, a task or a timer of its own.

The request is written at once. The event loop reads the answer as it comes, and sets one future. This takes a third of
the processor time of a cursor.
Promises: a statement is prepared after five uses, as by the driver; behind a pooler it never is. A cancelled exchange
cuts its connection. Otherwise the next exchange would read the answer of this one.
Refuses: statements with values that have no cast; see `prepared`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from apportion.stores.postgres.driver import Connection, Parameter, Parameters, Row, psycopg
from apportion.stores.postgres.prepared import Prepared, prepared
from apportion.stores.postgres.wire import cut

_ROWS_AT_A_TIME = 1_000
# For each connection: the number of uses of each statement, and the names of its prepared statements on the server.
_KEPT: "WeakKeyDictionary[Connection, tuple[Counter[Prepared], dict[Prepared, bytes]]]" = WeakKeyDictionary()


async def rows_of(connection: Connection, query: bytes, parameters: Parameters) -> list[Row]:
    """Run a statement and return its rows. While it reads many rows, the event loop can run other work."""
    statement = prepared(query)
    if statement is not None and not isinstance(parameters, Mapping):
        return await _exchanged(connection, statement, parameters)
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query, parameters)
        rows: list[Row] = []
        while cursor.description is not None:
            some = await cursor.fetchmany(_ROWS_AT_A_TIME)
            rows += some
            if len(some) < _ROWS_AT_A_TIME:
                break
            await asyncio.sleep(0)
        return rows


async def _exchanged(connection: Connection, statement: Prepared, values: Sequence[Parameter]) -> list[Row]:
    wire, encoded, formats = connection.pgconn, statement.encoded(values), statement.formats
    name = await _name(connection, statement)
    if name is None:
        results = await _answer(connection, lambda: wire.send_query_params(statement.text, encoded, None, formats, 1))
    else:
        results = await _answer(connection, lambda: wire.send_query_prepared(name, encoded, formats, 1))
    reader, rows = Transformer(connection), list[Row]()
    for result in results:
        reader.set_pgresult(result)
        for begin in range(0, result.ntuples, _ROWS_AT_A_TIME):
            if begin:
                await asyncio.sleep(0)
            rows += reader.load_rows(begin, min(begin + _ROWS_AT_A_TIME, result.ntuples), tuple)
    return rows


async def _name(connection: Connection, statement: Prepared) -> bytes | None:
    """Return the name of a prepared statement on the server; None for a statement with too few uses."""
    uses, names = _KEPT.setdefault(connection, (Counter(), {}))
    if (name := names.get(statement)) is not None:
        return name
    uses[statement] += 1
    threshold = connection.prepare_threshold
    if threshold is None or uses[statement] <= threshold:
        return None
    made, wire = b"apportion_%d" % len(names), connection.pgconn
    await _answer(connection, lambda: wire.send_prepare(made, statement.text))
    names[statement] = made
    return made


async def _answer(connection: Connection, send: Callable[[], None]) -> list[PGresult]:
    exchange = _Exchange(connection.pgconn)
    send()
    try:
        exchange.begin()
        results = await exchange.answer
    except asyncio.CancelledError:
        cut(connection)
        raise
    finally:
        exchange.end()
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            error = error_from_result(result, connection.info.encoding)
            if isinstance(error, psycopg.errors.InvalidSqlStatementName):
                _KEPT.pop(connection, None)  # the driver lets the server forget all names after a DROP or an ALTER
            raise error
    return results


class _Exchange:
    """One request on its way; `answer` has the results of the server."""

    def __init__(self, wire: PGconn) -> None:
        self._wire, self._loop = wire, asyncio.get_running_loop()
        self._socket = wire.socket
        self._results: list[PGresult] = []
        self._is_writing = False
        self.answer: asyncio.Future[list[PGresult]] = self._loop.create_future()

    def begin(self) -> None:
        """Write the request that the wire holds, and read the answer from now on."""
        self._loop.add_reader(self._socket, self._read)
        if self._wire.flush():
            self._is_writing = True
            self._loop.add_writer(self._socket, self._write)

    def end(self) -> None:
        """Stop reading and writing."""
        self._loop.remove_reader(self._socket)
        if self._is_writing:
            self._loop.remove_writer(self._socket)

    def _write(self) -> None:
        try:
            is_written = not self._wire.flush()
        except psycopg.Error as error:
            self._fail(error)
            return
        if is_written and self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            self._wire.consume_input()
            if self._is_writing:
                self._write()
            while not (self.answer.done() or self._wire.is_busy()):
                result = self._wire.get_result()
                if result is None:
                    self.answer.set_result(self._results)
                else:
                    self._results.append(result)
        except psycopg.Error as error:
            self._fail(error)

    def _fail(self, error: psycopg.Error) -> None:
        if self.answer.done():
            return
        if any(each.status == ExecStatus.FATAL_ERROR for each in self._results):
            self.answer.set_result(self._results)  # these results hold the server's reason
        else:
            self.answer.set_exception(error)
