"""Zone levels: the levels of a zone that the command line gives as one text, outermost first."""


def zone_levels(text: str | None) -> tuple[str, ...] | None:
    """Return the levels, and None without a text. An empty text is no zone; an empty level is kept, to be refused.

    >>> zone_levels("eu/r1"), zone_levels(""), zone_levels(None)
    (('eu', 'r1'), (), None)
    """
    if text is None:
        return None
    return tuple(text.split("/")) if text else ()
