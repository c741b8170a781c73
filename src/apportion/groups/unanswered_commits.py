"""Unanswered commits: the commits of one member that are under way, and the moves that wait for the next commit.

Promises: a partition is in one move at a time. Moves that do not depend on each other go in one commit. Moves that were
refused together are sent again in halves, before all other moves. One stale move therefore holds up no other.
Refuses: to wait and to read clocks. A commit without an answer counts as failed once the caller says so.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apportion.groups.handover import Act, Known
from apportion.stores.api import Compare, Put


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMove:
    """One act on one partition, and the known state that the decision was based on."""

    partition: int
    act: Act
    known: Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Several moves, to be committed as a whole."""

    batch: int
    moves: tuple[PendingMove, ...]
    when: tuple[Compare, ...]
    puts: tuple[Put, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAnswered:
    """The answer to a batch. It was committed at `revision`; None: it was refused, or no answer came."""

    batch: int
    revision: int | None = None
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredMoves:
    """The moves that an answer ends: done, failed or stale. The state behind a stale move has changed.

    A first commit without an answer is repeated `at_once`: perhaps only the reply was lost. After a second commit
    without an answer, the store may be away.
    """

    done: tuple[PendingMove, ...] = ()
    failed: tuple[PendingMove, ...] = ()
    stale: tuple[PendingMove, ...] = ()
    at_once: frozenset[int] = frozenset()


class Batches:
    """The moves that wait, the halves of refused batches, and the batches under way.

    `width` is the number of moves that fit in a commit, `ways` the number of commits that may be under way at once.
    """

    def __init__(self, *, width: int, ways: int) -> None:
        self._width, self._ways, self._last = width, ways, 0
        self._fresh: deque[PendingMove] = deque()
        self._halves: deque[tuple[PendingMove, ...]] = deque()
        self._sent: dict[int, tuple[PendingMove, ...]] = {}
        self._busy: set[int] = set()
        self._in_doubt: set[int] = set()  # partitions with a last commit that got no answer

    def __contains__(self, partition: int) -> bool:
        """Whether a move of a partition waits or is under way."""
        return partition in self._busy

    def add(self, move: PendingMove) -> None:
        """Let a move wait for the next commit; no other move of its partition may wait or be under way."""
        self._busy.add(move.partition)
        self._fresh.append(move)

    def commits(self, request: Callable[[PendingMove], tuple[tuple[Compare, ...], Put]]) -> Iterator[Commit]:
        """Yield the commits to send now; `request` returns the comparisons of a move, and its write."""
        while len(self._sent) < self._ways and (moves := self._next()):
            when: dict[str, Compare] = {}
            puts: list[Put] = []
            for move in moves:
                compares, put = request(move)
                if any(when.get(compare.key, compare) != compare for compare in compares):
                    self._halves.appendleft(moves[len(puts) :])
                    break  # the remaining moves expect another session of the same member, so they need another commit
                when.update((compare.key, compare) for compare in compares)
                puts.append(put)
            self._last += 1
            self._sent[self._last] = moves[: len(puts)]
            yield Commit(batch=self._last, moves=moves[: len(puts)], when=tuple(when.values()), puts=tuple(puts))

    def answered(self, answer: CommitAnswered, is_fresh: Callable[[PendingMove], bool]) -> AnsweredMoves:
        """Take the answer to a commit. The halves of a refused commit wait again; the returned moves are forgotten.

        `is_fresh` says whether the state on which a move was decided is still the current one. The answer to a commit
        from before `clear` ends no move.
        """
        moves = self._sent.pop(answer.batch, ())
        if answer.revision is not None:
            self._end(moves)
            self._in_doubt.difference_update(move.partition for move in moves)
            return AnsweredMoves(done=moves)
        fresh, stale = tuple(filter(is_fresh, moves)), tuple(move for move in moves if not is_fresh(move))
        self._end(stale)
        if answer.is_refused and len(moves) > 1:
            middle = (len(fresh) + 1) // 2
            self._halves.extend(half for half in (fresh[:middle], fresh[middle:]) if half)
            return AnsweredMoves(stale=stale)
        self._end(fresh)
        doubtful = frozenset() if answer.is_refused else frozenset(move.partition for move in fresh)
        at_once = doubtful - self._in_doubt
        self._in_doubt |= doubtful
        return AnsweredMoves(failed=fresh, stale=stale, at_once=at_once)

    def clear(self) -> None:
        """Forget all moves: their session is over."""
        for each in (self._fresh, self._halves, self._sent, self._busy, self._in_doubt):
            each.clear()

    def _next(self) -> tuple[PendingMove, ...]:
        """Take the moves of the next commit; none, if no move waits."""
        if self._halves:
            return self._halves.popleft()
        return tuple(self._fresh.popleft() for _ in range(min(self._width, len(self._fresh))))

    def _end(self, moves: tuple[PendingMove, ...]) -> None:
        self._busy.difference_update(move.partition for move in moves)
