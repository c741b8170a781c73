"""Kafka's client assignors."""
