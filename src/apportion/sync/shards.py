# Generated from shards/facade.py by `python -m generate`; change that file, and generate anew.
"""The router of a set of shards, as users open it, without an event loop. Its sessions are sessions of SQLAlchemy.

The async twin of this file is `shards/facade.py`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput, InvariantBroken, StaleRoute
from apportion.runtime.resource import SyncResource
from apportion.shards.forms import SyncShardSession, sync_form
from apportion.shards.load.record import kept
from apportion.shards.models import check_models
from apportion.shards.pins.key_kinds import KeyKinds
from apportion.shards.records import SetKeys
from apportion.shards.round.keys import PAGE_SLOTS, check_key_model, key_in, page_of
from apportion.shards.round.round import Round, check_round
from apportion.shards.round.session import RoundSession, SyncRoundSession
from apportion.shards.router import POOL_SIZE, FollowedSet, RouterOptions, ShardRouter, set_followed, set_left
from apportion.shards.scatter.answer import ScatterAnswer
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.known_shards import KnownShards
from apportion.shards.scatter.scatter import MOST_ROWS, Partial, Scatter, ScatterOptions
from apportion.shards.slots import ShardKey
from apportion.stores.catalog import check_url
from apportion.tables.follower import check_seconds

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncShardPart:
    """A shard of a set in a job: its id, a session that reads, and the slots that the session sees."""

    id: str
    session: SyncRoundSession
    slots: tuple[int, ...]


class SyncShardRouter(ShardRouter):
    """Finds the shard of a key, and makes pinned sessions, without an event loop."""

    def session(
        self, key: ShardKey | None = None, *, keys: Sequence[ShardKey] = (), read_only: bool = False
    ) -> SyncShardSession:
        """Return a session that is pinned to the slot of a key for its whole life.

        - `key`: the value of the shard key, or a tuple for several columns. Leave it out inside a block of `pin`.
        - `keys`: several keys, all on one shard.
        - `read_only`: the session takes no lock and refuses writes.

            with router.session("FR") as session:
                ...

        `CrossShard` if the keys lie on several shards, or if a block of `pin` has another key.
        """
        pin = self._pin_for(key, keys, is_read_only=read_only)
        window = self.statistics.made(pin.keys)
        if window is not None:
            self._thread.send(kept(self._followed, window))
        return cast(SyncShardSession, self._form.session(pin, dict(self._options.session)))

    def run(self, key: ShardKey, work: Callable[[SyncShardSession], Result], *, attempts: int = 5) -> Result:
        """Run `work(session)` and commit. If the slot moved meanwhile, run `work` again in a fresh session.

        The last `StaleRoute` is raised after `attempts` runs. Other errors are raised at once.
        """
        if not callable(work):
            raise InvalidInput("work", work, "a function that takes a session", "Pass the function, without a call.")
        if type(attempts) is not int or attempts < 1:
            raise InvalidInput("attempts", attempts, "an int of at least 1", "Leave it out to get 5.")
        for attempt in range(attempts):
            try:
                with self.session(key) as session:
                    result = work(session)
                    session.commit()
                    return result
            except StaleRoute:
                if attempt + 1 == attempts:
                    raise
        raise InvariantBroken("a run ended without a result and without an error")

    def scatter(
        self,
        statement: Any,  # noqa: ANN401 - a select of SQLAlchemy
        *,
        timeout: float | None = None,
        partial: Partial = "error",
        max_rows: int = MOST_ROWS,
    ) -> ScatterAnswer:
        """Answer a `select()` over all shards, as one database with all rows would answer it.

        - `timeout`: the seconds that each shard has. Default: None, no limit.
        - `partial`: `"report"` leaves out shards without an answer, and the answer names their slots in `missing`.
          Default: `"error"`, which raises the error of such a shard.
        - `max_rows`: the most rows of the result. Default: 100 000.

            top = select(Place.country, func.count()).group_by(Place.country).order_by(func.count().desc()).limit(10)
            for country, places in router.scatter(top):
                ...

        The answer is a result of SQLAlchemy, with all rows in memory. Objects in it belong to no session.
        `NotScatterable`: the shards cannot answer together; nothing was read. `TimedOut`: a shard took too long.
        `StaleRoute`: slots went on moving during three attempts. Other errors are those of the databases.
        """
        options = ScatterOptions(timeout=timeout, partial=partial, max_rows=max_rows)
        found: ScatterAnswer = self._form.take(self._scatter(statement, options))
        return found

    def _scatter(self, statement: Any, options: ScatterOptions) -> Callable[[], ScatterAnswer]:  # noqa: ANN401 - a select
        """Return the call that answers a statement, and that blocks its caller."""
        tables, gathering = SetTables.of(self._options.base), self._form.gathering
        scatter = Scatter(roads=self, known=self._known_shards(), tables=tables, options=options, gathering=gathering)
        return partial(scatter.answer, statement)

    def each(self, *, read_only: bool = True, parallel: int = 1) -> Generator[SyncShardPart, None, None]:
        """Yield each shard with a session over the rows of its slots. Each slot comes once, also if it moves meanwhile.

        - `read_only`: True. False is refused: a job writes in sessions of `keys`.
        - `parallel`: the number of shards at which transactions begin together. Later ones wait. Default: 1.

            for shard in router.each():
                print(shard.id, (shard.session.scalars(select(func.count(Place.id)))).one())

        A shard comes again if slots moved to it meanwhile; its session then sees those alone. Its transaction ends with
        the next step of the loop, and with the loop.
        `StaleRoute`: no shard answered for a slot; the shards before had their steps. Other errors are those of the
        databases.
        """
        check_round(read_only=read_only, parallel=parallel)
        return self._each(parallel)

    def _each(self, parallel: int) -> Generator[SyncShardPart, None, None]:
        turns = self._round().turns(parallel=parallel)
        try:
            while (turn := self._form.take(partial(next, turns, None))) is not None:
                made = self._form.session_of(RoundSession, dict(self._options.session), turn=turn)
                session = cast(SyncRoundSession, made)
                try:
                    yield SyncShardPart(id=turn.shard, session=session, slots=turn.slots)
                finally:
                    session.close()
        finally:
            self._form.take(turns.close)

    def keys(self, model: type) -> Generator[ShardKey, None, None]:
        """Yield the distinct shard keys of a model, of all shards. Each one comes once, also if its slot moves.

            for country in router.keys(Place):
                router.run(country, tidy)

        Keys of several columns are tuples. No transaction is open while a key is used. A key that is first written
        while the loop runs may be left out.
        `InvalidInput`: the model has no shard key. Other errors are those of `each`.
        """
        check_key_model(model, self._options.base)
        return self._keys(model)

    def _keys(self, model: type) -> Generator[ShardKey, None, None]:
        turns = self._round().turns(most=PAGE_SLOTS)
        try:
            while (page := self._form.take(partial(page_of, turns, model))) is not None:
                for row in page:
                    yield key_in(row)
        finally:
            self._form.take(turns.close)

    def _round(self) -> Round:
        tables = SetTables.of(self._options.base)
        return Round(roads=self, known=self._known_shards(), tables=tables, gathering=self._form.gathering)

    def _known_shards(self) -> KnownShards:
        return KnownShards(followed=self._followed, wait=partial(self._form.wait, self._thread))

    def _close_engines(self) -> None:
        """Take the connections away from their sessions, close the engines that were made, and keep the last keys."""
        self._form.take(self._taken)
        for engine in self._engines():
            self._form.close(engine)
        window = self.statistics.rest()
        if window is not None and self._thread.runs:
            self._form.take(partial(self._form.wait, self._thread, kept(self._followed, window)))


class SyncShardResource(SyncResource[FollowedSet, SyncShardRouter]):
    """A router that is open for a block. The thread or loop that used its engines closes them at the end."""

    _router: SyncShardRouter | None = None

    def __enter__(self) -> SyncShardRouter:
        self._router = super().__enter__()
        return self._router

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> None:
        try:
            if self._router is not None:
                self._router._close_engines()
        finally:
            super().__exit__(kind, error, place)


def open_shards(
    url: str,
    name: str,
    *,
    base: type[DeclarativeBase],
    session: Mapping[str, Any] | None = None,
    create_engine: Callable[[Any], Any] | None = None,
    pool_size: int = POOL_SIZE,
    triggers: bool = True,
    within_seconds: float = 10.0,
) -> SyncShardResource:
    """Open the router of a set of shards until the end of a `with` block.

    - `url`: the URL of the control store, as in `open_store`.
    - `name`: the name of the set.
    - `base`: the declarative base of the models; the models of a shard derive from `Sharded` or `Reference`.
    - `session`: options of the sessions, such as `{"expire_on_commit": False}`; `class_` is your own class.
    - `create_engine`: your function that makes the engine of a shard from its URL. Default: that of SQLAlchemy.
    - `pool_size`: the number of connections to all shards together, without `create_engine`. Default: 20.
    - `triggers`: False if the databases lack the triggers that `init` makes. Sessions then refuse Core and text.
    - `within_seconds`: the longest wait for the table of the set. Default: 10.

        with apportion.sync.open_shards("sqlite:///control.db", "world", base=Base) as router:
            with router.session("FR") as session:
                session.add(Place(country="FR", visits=1))
                session.commit()

    Raises the errors of `open_store` and `follow`. `InvalidInput`: no set has that name, or a model does not say how
    its rows find their slot.
    """
    check_url(url)
    check_seconds(within_seconds)
    check_models(base)
    options = RouterOptions(
        kinds=KeyKinds(base),
        base=base,
        session={} if session is None else session,
        create_engine=create_engine,
        pool_size=pool_size,
        has_triggers=triggers,
    )
    sync_form.check(options.session)

    begin = partial(set_followed, url, SetKeys(name), within_seconds, needs_all=False)
    shown = partial(SyncShardRouter, sync_form, options)
    return SyncShardResource("apportion.sync.open_shards(url, name)", begin, set_left, shown)
