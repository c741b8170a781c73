"""The named statements of the stores that speak SQL, a file for each engine."""
