"""Size text: a number of bytes as a person reads it."""

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size_text(size: float) -> str:
    """Return a number of bytes as a person reads it.

    >>> size_text(999), size_text(12_345), size_text(4_000_000)
    ('999 B', '12.3 kB', '4.0 MB')
    """
    amount, unit = float(size), 0
    while amount >= 1_000 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1_000, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
