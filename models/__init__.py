"""Models: every history of the hand-over, within bounds, with the shipped code deciding the acts and commits.

Run it with `python -m models`; `docs/groups/handover.md` lists the results.
"""
