"""Certificate: numbers that prove that no equally even assignment moves fewer replicas; anyone can check them.

Every node has a price per replica, an integer. The numbers prove two facts: no partition has a cheaper list of nodes,
and no equally even loads have a higher total price. The two facts imply that fewer moves are impossible; see
docs/balance/optimal.md. `balance.verify` checks a certificate.
"""

from dataclasses import dataclass

from apportion.errors.brief import brief


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A proof that one step, from old lists to new lists, is the smallest possible.

    `prices`, `least`, `most` and `leader_prices` have one number per node, in the order of the topology. The load of a
    node lies between `least` and `most`. `moves` counts the moved replicas. A replica that only makes a list longer
    does not count. `leader_changes` counts the partitions with another leader than before.
    """

    moves: int
    prices: tuple[int, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]
    leader_changes: int
    leader_prices: tuple[int, ...]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The proofs of an assignment, and digests of the inputs that they are about.

    `home` proves the step to the lists over all nodes. This step starts from the home of the previous assignment, or
    from rendezvous lists if there was none. `current` proves the step from home to the lists over the nodes that are
    up. It is None if all nodes are up.
    """

    previous: str
    topology: str
    options: str
    home: Proof
    current: Proof | None
