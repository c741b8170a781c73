"""Child processes of a worker: where they come from, the jobs they get, and their ends."""
