"""Slot owners: the shard that answers for each slot, from the states that all shards show."""

from collections import Counter
from collections.abc import Mapping

from apportion.shards.slot_rows import SlotState

_ANSWER: tuple[SlotState, ...] = ("owner", "fenced", "incoming")


def owners_of(states: Mapping[str, Mapping[int, SlotState]]) -> dict[int, str | None]:
    """Return the shard that answers for each slot. None for a slot that no shard answers for, or two.

    An owner answers. Without an owner, the fenced shard answers, because no other shard has accepted writers. Without a
    fenced shard, the shard with the incoming slot answers.

    >>> owners_of({"one": {7: "fenced"}, "two": {7: "incoming"}}), owners_of({"one": {7: "owner"}, "two": {7: "owner"}})
    ({7: 'one'}, {7: None})
    """
    found: dict[int, str | None] = {}
    for slot in {slot for each in states.values() for slot in each}:
        by_state = Counter(each.get(slot) for each in states.values())
        state = next((state for state in _ANSWER if by_state[state]), None)
        answers = [shard for shard, each in states.items() if state is not None and each.get(slot) == state]
        found[slot] = answers[0] if len(answers) == 1 else None
    return found
