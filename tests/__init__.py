"""The tests. A package, so that they share twins and invariants, and `python -m tests.soak` finds them."""
