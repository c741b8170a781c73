"""The demonstration of shards: one file of SQLite becomes three while eight processes write to it."""
