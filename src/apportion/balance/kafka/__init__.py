"""Kafka's client assignors: the partitions of each member of a consumer group, as the Java clients decide.

By name from the catalog: `balance.get("kafka.sticky")(topics={"t": 12}, members=[Subscription("c1", topics=["t"])])`.
"""

from apportion.balance.kafka.subscription import Assigned, Partition, Subscription
from apportion.balance.kafka.userdata import (
    Remembered,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
    recall_generation,
    recall_sticky,
)

__all__ = [
    "Assigned",
    "Partition",
    "Remembered",
    "Subscription",
    "decode_cooperative",
    "decode_sticky",
    "encode_cooperative",
    "encode_sticky",
    "recall_generation",
    "recall_sticky",
]
