"""kafka-python: its sticky assignor, asked as the leader of a group asks it, with what members say decoded already."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from bench.contender import installed, missing

ABSENT = missing("kafka-python")
DESCRIBED = installed("kafka-python")
GENERATION = 1

Owned = Mapping[str, Sequence[tuple[str, int]]]


class StickyGroup:
    """A group with members that want all topics, and the partitions that each of them owned."""

    def __init__(self, topics: Mapping[str, int], owned: Owned) -> None:
        from kafka.coordinator.assignors.sticky.sticky_assignor import (  # noqa: PLC0415 - perhaps not installed
            StickyPartitionAssignor,
        )
        from kafka.structs import TopicPartition  # noqa: PLC0415

        self._assignor = StickyPartitionAssignor()
        self._cluster = SimpleNamespace(
            topics=lambda: set(topics), partitions_for_topic=lambda topic: set(range(topics[topic]))
        )
        self._members = [
            SimpleNamespace(
                member_id=member_id,
                group_instance_id=None,
                metadata=StickyPartitionAssignor._metadata(
                    list(topics), [TopicPartition(*partition) for partition in theirs], GENERATION
                ),
            )
            for member_id, theirs in owned.items()
        ]

    def assign(self) -> dict[str, int]:
        """Assign, and return how many partitions each member has."""
        found = self._assignor.assign(self._cluster, self._members)
        return {
            member_id: sum(len(numbers) for _, numbers in each.assigned_partitions) for member_id, each in found.items()
        }
