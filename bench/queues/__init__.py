"""The queues that figures of tasks compare: ours, and the same work by hand; queues of peers are in `bench/peers`.

By hand is plain SQL in plain Python with the same receipts, the same indexes and the same durability.
"""

AT_ONCE = 1_000  # tasks that are added at once
