"""Sites: the stores of a world, each with faults and invariants of its own."""
