"""Capacity: the part of a throttle that each wave has used, and the first wave with room for one more copy.

Every limit has a counter per wave: for a node's copies, for its bytes, for a zone's copies, for all copies. A copy
uses several limits, and fits into a wave where each of them has room. The full waves of a limit are one number: its
bit w says whether wave w is full. So thousands of full waves are skipped at once.
"""

from collections.abc import Hashable, Mapping, Sequence

from apportion.model.throttle import Throttle

Use = tuple[Hashable, int, int]
"""A limit, the amount that a copy uses of it, and the most that a wave may use."""


class Room:
    """The room in each wave, given the zone of each node."""

    def __init__(self, throttle: Throttle, zones: Mapping[str, Hashable]) -> None:
        self._throttle = throttle
        self._zones = zones
        self._used: dict[tuple[Hashable, int], int] = {}
        self._full: dict[Hashable, int] = {}

    def uses(self, nodes: Sequence[str], *, size_bytes: int) -> list[Use]:
        """Return the use of every limit by a copy in which these nodes take part."""
        throttle = self._throttle
        uses: list[Use] = []
        if throttle.per_node is not None:
            uses += [(("copies", node), 1, throttle.per_node) for node in nodes]
        if throttle.per_node_bytes is not None and size_bytes:
            uses += [(("bytes", node), size_bytes, throttle.per_node_bytes) for node in nodes]
        if throttle.per_zone is not None:
            uses += [(("zone", zone), 1, throttle.per_zone) for zone in {self._zones[node] for node in nodes}]
        if throttle.per_cluster is not None:
            uses.append(("all", 1, throttle.per_cluster))
        return uses

    def first_wave(self, uses: Sequence[Use], *, start: int) -> int:
        """Return the first wave from `start` on that has room for all these uses. O(waves)."""
        full = (1 << start) - 1
        for what, _, _ in uses:
            full |= self._full.get(what, 0)
        wave = _lowest_unset(full)
        # A copy counts as 1, so it fits unless a wave is full. Its bytes can be too many for a wave that is not full.
        while any(self._used.get((what, wave), 0) + amount > most for what, amount, most in uses):
            full |= 1 << wave
            wave = _lowest_unset(full)
        return wave

    def take(self, uses: Sequence[Use], wave: int) -> None:
        """Use up these amounts in a wave."""
        for what, amount, most in uses:
            self._used[what, wave] = used = self._used.get((what, wave), 0) + amount
            if used >= most:
                self._full[what] = self._full.get(what, 0) | 1 << wave


def _lowest_unset(bits: int) -> int:
    return (~bits & (bits + 1)).bit_length() - 1
