"""Story: a trace as lines that can be read aloud: each act with its actor, and the state after it."""

from collections.abc import Iterator, Sequence

from apportion.groups.handover import Phase
from models.parts import IDS, Process, Store
from models.step import Step
from models.world import FIRST, NETWORK, TARGET, State, World

_DOES = {Phase.IDLE: "idle", Phase.ASKING: "asks", Phase.SERVING: "serves", Phase.DRAINING: "drains"}
_DOES |= {Phase.GIVING: "gives"}


def story(world: World, trace: Sequence[Step[State]]) -> Iterator[str]:
    """Yield a line for each step."""
    before = world.initial
    for number, step in enumerate(trace, 1):
        who = {TARGET: "controller", NETWORK: "network"}.get(step.slot) or name(step.slot)
        yield f"{number:4}  {who + ': ' + step.kind:<46}{_stands(world, step.state, before)}"
        before = step.state


def name(slot: int) -> str:
    """Return the name of a process: its id, or that it has a successor."""
    return IDS[slot] if slot < len(IDS) else f"old {slot + 1 - len(IDS)}"


def _stands(world: World, state: State, before: State) -> str:
    """Describe the differences from the state before."""
    store, old = world.stores.of[state[0]], world.stores.of[before[0]]
    said = [] if store == old else [_store(store)]
    for slot, number in enumerate(state[FIRST:]):
        if number != before[FIRST + slot]:
            said.append(f"{name(slot)} {_process(world.processes.of[number])}")
    return " | ".join(said) or "-"


def _store(store: Store) -> str:
    record = store.record
    owner = "nobody" if record.owner is None else f"{record.owner} (session {record.session})"
    there = ", ".join(f"{each} {session}" for each, session in zip(IDS, store.sessions, strict=True) if session > 0)
    deaths = f" after {len(record.ended)} deaths" if record.ended else ""
    return f"owner {owner} at epoch {record.epoch}{deaths}, target {store.target}, sessions {there or 'none'}"


def _process(process: Process) -> str:
    said = [_DOES[process.machine.phase]]
    if process.hold is not None:
        said.append(f"holds epoch {process.hold.epoch} of session {process.hold.session}")
    if process.me is None:
        said.append("has no session")
    return ", ".join(said)
