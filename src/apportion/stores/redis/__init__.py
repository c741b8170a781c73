"""The Redis store: one server, fast, with the fewest promises of all stores."""
