"""Refusal: why no distribution can be made here, and the next step."""


class Refusal(Exception):
    """A distribution cannot be made; the message says why and what to do."""
