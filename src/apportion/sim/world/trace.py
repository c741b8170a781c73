"""Trace: the lines of one run, in order, and their hash. Two runs of one seed that differ have different hashes."""

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b

from apportion.sim import facts


class Trace:
    """The lines of a story, and the counts of injected and covered events.

    The lines are always hashed, but kept only if somebody wants to read them.
    """

    def __init__(self, now: Callable[[], float], *, keep: bool, fault_limit: int | None) -> None:
        self.lines: list[str] | None = [] if keep else None
        self.injected: Counter[str] = Counter()
        self.covered: Counter[str] = Counter()
        self._now = now
        self._faults_left = fault_limit
        self._hash = blake2b(digest_size=8)

    def say(self, line: str) -> None:
        """Add a line."""
        line = f"{self._now():11.6f}  {line}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def note(self, line: str) -> None:
        """Add a line that only a reader sees: it is not part of the hash."""
        if self.lines is not None:
            self.lines.append(f"{self._now():11.6f}    ({line})")

    def tell(self, fact: facts.Fact, of: str = "") -> None:
        """Add a fact. `of` names the store that it is about, where a world has two."""
        if isinstance(fact, facts.Answered):
            self.cover(f"answer: {'an error' if fact.outcome is None else type(fact.outcome).__name__}")
        elif isinstance(fact, facts.Died | facts.Lapsed):
            self.cover(f"session {type(fact).__name__.lower()}")
        self.say(of + told(fact))

    def cover(self, transition: str) -> None:
        """Count a transition that was reached."""
        self.covered[transition] += 1

    def inject(self, kind: str, detail: str) -> bool:
        """Count a fault and return True, or return False when the limit of faults is reached."""
        if self._faults_left is not None:
            if self._faults_left <= 0:
                return False
            self._faults_left -= 1
        self.injected[kind] += 1
        self.say(f"! {kind}: {detail}")
        return True

    def digest(self, *numbers: int) -> str:
        """Return the hash of all lines, and of numbers that tell runs with equal lines apart."""
        end = self._hash.copy()
        end.update(repr(numbers).encode())
        return end.hexdigest()


def told(fact: facts.Fact) -> str:  # noqa: PLR0911, PLR0912 - one for each fact
    """Return a fact as a line."""
    match fact:
        case facts.Began():
            return f"store life {fact.incarnation} begins at revision {fact.revision} with {len(fact.items)} items"
        case facts.Changed():
            return f"revision {fact.revision}: " + ", ".join(
                f"{key} deleted" if item is None else f"{key}={_line(item.value)}" for key, item in fact.items
            )
        case facts.Asked():
            writes = [*(f"put {put.key}" for put in fact.puts), *(f"delete {key}" for key in fact.deletes)]
            return f"{fact.process} asks {fact.call}: {', '.join(writes)}"
        case facts.Answered():
            return f"answer {fact.call}: {type(fact.outcome).__name__} {getattr(fact.outcome, 'revision', '')}"
        case facts.Granted():
            return f"lease {fact.lease} is granted for {fact.ttl_seconds:g} s"
        case facts.Revoked():
            return f"lease {fact.lease} {'is' if fact.done else 'is to be'} revoked"
        case facts.Renewed():
            return f"leases {sorted(fact.asked)} renewed: {sorted(fact.alive)}"
        case facts.Scanned():
            return f"{fact.process} scans {fact.prefix!r} at {fact.revision}{' (stale)' if fact.stale else ''}"
        case facts.Watching():
            return f"{fact.process} watches {fact.prefix!r} after {fact.after} as {fact.watch}"
        case facts.Delivered():
            return f"watch {fact.watch} gives {fact.revision}"
        case facts.Writing():
            return f"{fact.process} sends a write of {fact.resource} under {fact.incarnation}.{fact.epoch}"
        case facts.Wrote():
            return f"{fact.holder} writes {fact.resource} under {fact.incarnation}.{fact.epoch}"
        case facts.Entered():
            return f"{fact.holder} of {fact.process} enters {fact.resource} under {fact.incarnation}.{fact.epoch}"
        case facts.Left():
            return f"hold {fact.hold} is left"
        case facts.Died():
            return f"{fact.process} is dead"
        case facts.Failed():
            return f"{fact.process} ends with {fact.error}"
        case facts.Lapsed():
            return f"lease {fact.lease} of {fact.process} ended, and {fact.process} lives on"
        case facts.Calm():
            return "from now on nothing fails"
        case facts.ClockStepped():
            return f"the time of the tasks is {fact.now_ms}"
    return _told_of_tasks(fact)


def _told_of_tasks(fact: facts.Fact) -> str:
    match fact:
        case facts.TasksChanged():
            said = "begin" if fact.is_first else ", ".join(_task(fact, each) for each in fact.changed) or "stay"
            return f"tasks {said}; {len(fact.alive)} leases, {len(fact.workers)} workers"
        case facts.TaskCall():
            settled = ", ".join(f"{each.receipt.task[:6]} {each.fate}" for each in fact.settlements)
            wanted = f"wants {fact.want}" if fact.worker is not None else fact.command or f"adds {len(fact.tasks)}"
            return f"{fact.process} calls {fact.call}: {fact.act.kind if fact.act else wanted} {settled}".rstrip()
        case facts.TaskServed():
            return f"call {fact.call} is carried out: {type(fact.answer).__name__}"
        case facts.RunBegan():
            return (
                f"run {fact.run} of {fact.receipt.task[:6]}, attempt {fact.receipt.attempt}, begins in {fact.process}"
            )
        case facts.RunEnded():
            return f"run {fact.run} {'kills its process' if fact.kills else 'ends'}"
    return str(fact)


def _task(fact: facts.TasksChanged, task: str) -> str:
    name, there = task[:6], fact.open.get(task)
    if there is not None:
        held = "" if there.session is None else f" by {there.session}"
        counts = f"{there.failures} failures, {len(there.deaths_of)} deaths, {there.crashes} crashes"
        return f"{name} {there.state}{held} (attempt {there.attempt}, {counts})"
    return f"{name} {fact.ended[task].state if task in fact.ended else 'gone'}"


def _line(value: bytes) -> str:
    """Return the first line of a value. The other lines of a group's target are packed data."""
    text = value.partition(b"\n")[0].decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else f"({len(value)} bytes)"
