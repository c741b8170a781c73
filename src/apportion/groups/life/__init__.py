"""Life: one session of a member, from its lease to its end, and the parts that carry it."""
