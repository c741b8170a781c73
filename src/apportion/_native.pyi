"""The native twin (see `native/`), which is absent where it could not be built; `placement.native` loads it."""

from collections.abc import Iterable
from typing import Final

from apportion.model.plan import Key

PROFILE: Final[str]
VERSION: Final[str]

def keys_handled() -> int: ...
def position(hasher: str, key: Key, secret: bytes | None = None) -> int: ...
def positions(hasher: str, keys: Iterable[Key], secret: bytes | None = None, threads: int = 1) -> bytes: ...
