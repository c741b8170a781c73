"""Certificate: why no assignment as even moves fewer replicas, in numbers that anyone can check.

Every node has a price, an integer. Were each partition free to pick its nodes, paying 1 for a node that did not hold it
before and the node's price on top, it could not pay less than it does now; and no loads that are as even as these would
earn the nodes more. Both together say that fewer moves are impossible: linear programming calls that a dual solution.

`balance.verify` checks it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """That one step, from lists to lists, is the smallest.

    Prices, capacities and leader prices are in the order of the topology's nodes. `moves` is how many replicas were
    moved, those of partitions that only grew not counted; `leader_changes` how many partitions got another leader.
    """

    moves: int
    prices: tuple[int, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]
    leader_changes: int
    leader_prices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The proofs of an assignment, and digests of what they speak of.

    `home` proves the lists over all nodes, from the home of the assignment before (from rendezvous lists if there was
    none). `current` proves the lists over the nodes that are up, from home; None where all are.
    """

    previous: str
    topology: str
    options: str
    home: Proof
    current: Proof | None
