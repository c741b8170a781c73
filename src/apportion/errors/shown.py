"""Values in messages: a foreign value in one line, the nearest of the known names, and a list of names.

Promises: foreign values are cut to a line, control characters escaped, URL passwords removed.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """Show a foreign value in one line: cut, escaped, without the password of a URL, and never by its own `repr`.

    >>> print(shown("postgres://app:s3:cr/t@db/x"), shown("a" * 70)[50:], shown(10**80))
    'postgres://***@db/x' aaaaaaaaaa… (70 long) an int of 266 bits
    """
    if isinstance(value, str):
        return _cut(repr(without_password(str.__getitem__(value, slice(4096)))), str.__len__(value))
    if isinstance(value, bytes):
        return _cut(without_password(repr(bytes.__getitem__(value, slice(4096)))), bytes.__len__(value))
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return repr(value) if value.bit_length() <= 128 else f"an int of {value.bit_length()} bits"
    noun = type(value).__name__
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


def nearest(value: object, known: Iterable[str]) -> str | None:
    """Return the known name most like `value`, or None when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed only for an error

    if not isinstance(value, str):
        return None
    found = get_close_matches(value.lower()[:256], list(islice(known, 1000)), n=1, cutoff=0.6)
    return found[0] if found else None


def without_password(text: str) -> str:
    """Hide all between `://` and the last `@`, and all options. A password may itself contain `@ : /` and blanks.

    A text with one slash after the colon is hidden too: a URL that was read as a path has lost the other slash.
    """
    scheme, mark, rest = text.partition(":/")
    if mark and len(text) >= 4096:
        return f"{scheme}://***"  # the text was cut: its last `@` may be missing
    _, at, after = rest.rpartition("@")
    if not mark or not (at or "?" in rest):
        return text
    place, question, _ = after.partition("?")
    return scheme + ("://***@" if at else mark) + place + ("?***" if question else "")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS + 3 else f"{text[:_SHOWN_CHARACTERS]}… ({length} long)"


def listed(names: Sequence[str]) -> str:
    """List some names in one line. Characters that no name may hold are shown as in `shown`."""
    some = ", ".join(
        name if name.isprintable() and "://" not in name and len(name) < 256 else shown(name) for name in names[:8]
    )
    return f"{some}, … {len(names) - 8} more" if len(names) > 8 else some or "none"
