"""Schedules beside the tasks of a store: their values, their rules, and the protocol of a store that keeps them."""
