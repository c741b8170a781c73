"""The versions of the schemas of the stores that speak SQL, a file for each engine."""
