"""Child processes of a worker: how they are made, their jobs, and their ends."""
