"""What the zoo keeps."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """In `file` of a `tree`, `old` becomes `new`; it must be found in a scenario over a store, within `seeds`."""

    name: str
    file: str
    old: str
    new: str
    store: str = "memory"
    seeds: int = 80
    scenario: str = "store"
    tree: str = "apportion"
