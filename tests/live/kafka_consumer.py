"""One consumer of a group, a process of its own: says in JSON lines what it was given, what was taken, what it read.

It commits what it read only after it has said so: a message that was lost with a killed consumer is read again.
`python -m tests.live.kafka_consumer '{"client": ..., "assignor": ..., ...}'`
"""

import asyncio
import json
import sys
from importlib import import_module

PLUGINS = "apportion.balance.kafka.plugins"
KAFKA_PYTHON_S_OWN = "kafka.coordinator.assignors.sticky.sticky_assignor"
SESSION_MS, HEARTBEAT_MS = 2000, 200
# Longer than a rebalance takes. A leader of kafka-python may join again because a topic has changed. If its `poll` ends
# meanwhile, it forgets that it has joined, and sends no heartbeat any more (3.0.12).
POLL_MS = 5000


def say(**event):
    """Print an event."""
    print(json.dumps(event), flush=True)


def listed(partitions):
    """Return the numbers of partitions of the one topic."""
    return sorted(number for _, number in partitions)


def numbers(records):
    """Return the content of messages."""
    return [int(record.value) for found in records.values() for record in found]


def options(asked):
    """Return the options that both clients take."""
    is_own = asked["assignor"] == "StickyPartitionAssignor"
    module = KAFKA_PYTHON_S_OWN if is_own else f"{PLUGINS}.{asked['client']}"
    assignor = getattr(import_module(module), asked["assignor"])
    return {
        "bootstrap_servers": asked["address"],
        "group_id": asked["group"],
        "client_id": asked["name"],
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": 1000,
        # aiokafka takes an object, kafka-python makes one of a class.
        "partition_assignment_strategy": [assignor() if asked["client"] == "aiokafka" else assignor],
    }


def with_kafka_python(asked):
    """Consume with kafka-python until killed."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import CommitFailedError

    consumer = KafkaConsumer(**options(asked))

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            say(revoked=listed(revoked))

        def on_partitions_assigned(self, assigned):
            say(assigned=listed(assigned), owned=listed(consumer.assignment()))

        def on_partitions_lost(self, lost):
            say(lost=listed(lost))

    consumer.subscribe([asked["topic"]], listener=Listener())
    owned = None
    while True:
        records = consumer.poll(timeout_ms=POLL_MS)
        if owned != (owned := listed(consumer.assignment())):
            say(owned=owned)
        if records:
            say(read=numbers(records))
            try:
                consumer.commit()
            except CommitFailedError as gone:
                say(refused=str(gone))


async def with_aiokafka(asked):
    """Consume with aiokafka until killed."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import CommitFailedError

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            say(revoked=listed(revoked))

        async def on_partitions_assigned(self, assigned):
            say(assigned=listed(assigned), owned=listed(assigned))

    consumer = AIOKafkaConsumer(**options(asked))
    consumer.subscribe([asked["topic"]], listener=Listener())
    await consumer.start()
    while True:
        records = await consumer.getmany(timeout_ms=POLL_MS)
        if records:
            say(read=numbers(records))
            try:
                await consumer.commit()
            except CommitFailedError as gone:
                say(refused=str(gone))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if asked["client"] == "aiokafka":
        asyncio.run(with_aiokafka(asked))
    else:
        with_kafka_python(asked)
