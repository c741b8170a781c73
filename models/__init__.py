"""Models: every history of the hand-over, within bounds, with the shipped code deciding what members do and commit.

Run it with `python -m models`; `docs/groups/handover.md` says what it shows.
"""
