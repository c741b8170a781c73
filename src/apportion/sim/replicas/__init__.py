"""Replicas in a world: nodes behind its network, the history of calls, and the checker of their promises."""
