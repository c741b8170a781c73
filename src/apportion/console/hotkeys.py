"""`apportion hotkeys`: the most frequent keys of a file, counted in bounded memory.

The counter is that of Apache DataSketches (frequent items), an extra. It keeps a table of candidates and drops the
rare ones when the table is full. Counts are therefore bounds: the least and the most occurrences of a key. A key that
is not listed occurs at most as often as the last line tells. In a file with at most KEYS_COUNTED_EXACTLY different
keys, both bounds are equal to the count.

Promises: every bound holds; the same file gives the same output in every process. `share` is the lower bound divided
by all keys read. Refuses: to guess between the bounds.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from apportion.console.files.key_stream import Column, KeysFile, batches_of
from apportion.console.options.arguments import Json, Whole
from apportion.console.print.output import key_member, print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput, MissingExtra, shown

MOST_LISTED = 10_000
KEYS_COUNTED_EXACTLY = 12_288
_TABLE_BITS = 14  # the table uses three quarters of its 2**14 places

# Keys are bytes, but only the sketch of strings hashes alike in every process. So each byte becomes the character
# with its number. `_NO_KEY` stands for every key that is not in the table: no byte becomes this character.
_NO_KEY = "\u0100"


class Sketch(Protocol):
    """The methods of `datasketches.frequent_strings_sketch` that the command calls."""

    @property
    def total_weight(self) -> int: ...
    def update(self, item: str, /) -> None: ...
    def get_upper_bound(self, item: str, /) -> int: ...
    def get_frequent_items(self, err_type: object, /) -> list[tuple[str, int, int, int]]: ...


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key and the bounds of its number of occurrences."""

    key: bytes
    at_least: int
    at_most: int


def hotkeys(*, keys: KeysFile = None, column: Column = None, top: Whole = 10, json: Json = False) -> None:
    """Print the keys that come most often, with proven bounds.

    Parameters
    ----------
    keys
        File with one key per line, or - for standard input.
    top
        Number of keys to list.
    """
    if not 0 < top <= MOST_LISTED:
        raise InvalidInput("--top", top, f"an int in 1 .. {MOST_LISTED}", "Write --top 10: a few keys are enough.")
    sketch, no_false_negatives = _empty_sketch()
    with Progress("counting", "keys", is_shown=not json) as progress:
        for key in progress.joined(batches_of((), keys, column)):
            sketch.update(key.decode("latin-1"))
    if not sketch.total_weight:
        raise InvalidInput("--keys", keys, "a file with at least one key", "Check the file.")
    candidates = [
        HotKey(item.encode("latin-1"), at_least, at_most)
        for item, _, at_least, at_most in sketch.get_frequent_items(no_false_negatives)
    ]
    candidates.sort(key=lambda hot: (-hot.at_most, hot.key))
    unseen = sketch.get_upper_bound(_NO_KEY)
    others_at_most = max((unseen, *(hot.at_most for hot in candidates[top : top + 1])))
    _print(candidates[:top], sketch.total_weight, others_at_most, json=json)


def _empty_sketch() -> tuple[Sketch, object]:
    """Return a sketch, and the constant that asks it for every key that may be frequent."""
    try:
        package = import_module("datasketches")
    except ImportError as error:
        raise MissingExtra("the counter of hot keys, datasketches,", "hotkeys") from error
    sketch: Sketch = package.frequent_strings_sketch(_TABLE_BITS)
    return sketch, package.frequent_items_error_type.NO_FALSE_NEGATIVES


def _print(hot: list[HotKey], total: int, others_at_most: int, *, json: bool) -> None:
    if json:
        members = [
            {**key_member(each.key), "at_least": each.at_least, "at_most": each.at_most,
             "share_ratio": each.at_least / total}
            for each in hot
        ]  # fmt: skip
        print_json("hotkeys", keys=total, hot=members, others_at_most=others_at_most)
        return
    rows = [(_shown(each.key), f"{each.at_least}", f"{each.at_most}", f"{each.at_least / total:.2%}") for each in hot]
    print_columns(("key", "at least", "at most", "share"), rows)
    print()
    print_text(f"hotkeys: {total} keys read; each other key came at most {others_at_most} times")


def _shown(key: bytes) -> str:
    try:
        return shown(key.decode())
    except UnicodeDecodeError:
        return shown(key)
