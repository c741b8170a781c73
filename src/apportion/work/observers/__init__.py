"""Observers: the log, the statistics and the spans of the attempts of a worker."""
