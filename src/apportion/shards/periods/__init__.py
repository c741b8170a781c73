"""Periods: tables that keep their rows by time, so that old periods leave a shard as a whole."""
