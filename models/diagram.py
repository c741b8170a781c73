"""Diagram: the table of transitions as a picture, in the words of Mermaid; the docs show this and nothing else."""

from collections.abc import Mapping

from apportion.groups.handover import TRANSITIONS, Act, HandOverEvent, Phase


def diagram(transitions: Mapping[tuple[Phase, HandOverEvent], tuple[Act | None, Phase]] = TRANSITIONS) -> str:
    """Return the state diagram: an arrow for each row, that says what became known, and what is done.

    >>> print(diagram({(Phase.IDLE, HandOverEvent.WANTED_FREE): (Act.CLAIM, Phase.ASKING)}))
    stateDiagram-v2
        [*] --> IDLE
        IDLE --> ASKING: WANTED_FREE / CLAIM
    """
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.IDLE.name}"]
    rows = sorted(transitions.items(), key=lambda row: (row[0][0].value, row[0][1].value))
    for (phase, event), (act, after) in rows:
        does = "" if act is None else f" / {act.name}"
        lines.append(f"    {phase.name} --> {after.name}: {event.name}{does}")
    return "\n".join(lines)
