"""Takeover: tables with rows become the tables of a shard, while programs write to them."""
