"""Wheel: a built wheel as files by their names, with its bill of materials, or without the native twin.

Source: PEP 427 (wheel), PEP 639 (licences), PEP 770 (bills of materials).
"""

import base64
import hashlib
import re

from distributions.bill_of_materials import Crate, cyclonedx

_EXTENSION = re.compile(r"apportion/_native\.[^/]*(so|pyd)")
_TAGS = re.compile(r"(?m)^Tag: .*\n")


def is_extension(name: str) -> bool:
    """Whether a file of the wheel is the compiled twin."""
    return _EXTENSION.fullmatch(name) is not None


def with_materials(content: dict[str, bytes], crates: list[Crate]) -> dict[str, bytes]:
    """Return the wheel with its bill of materials and with the licences of the crates that are linked into it."""
    info = _info(content)
    licences = {f"crates/{crate.name}-{crate.version}/{name}": text for crate in crates
                for name, text in crate.licences.items()}  # fmt: skip
    named = "".join(f"License-File: {name}\n" for name in sorted(licences))
    metadata = content[f"{info}/METADATA"].decode()
    last = metadata.rindex("License-File: ", 0, metadata.index("\n\n"))
    end = metadata.index("\n", last) + 1
    return {
        **content,
        **{f"{info}/licenses/{name}": text for name, text in licences.items()},
        f"{info}/METADATA": (metadata[:end] + named + metadata[end:]).encode(),
        f"{info}/sboms/crates.cdx.json": cyclonedx(crates),
    }


def without_twin(content: dict[str, bytes]) -> dict[str, bytes]:
    """Return the wheel of the reference alone, which every interpreter can install."""
    info = _info(content)
    said = content[f"{info}/WHEEL"].decode().replace("Root-Is-Purelib: false", "Root-Is-Purelib: true")
    plain = {name: text for name, text in content.items() if not is_extension(name)}
    return {**plain, f"{info}/WHEEL": _TAGS.sub("Tag: py3-none-any\n", said, count=1).encode()}


def pure_name(name: str) -> str:
    """Return the file name of the wheel without the twin."""
    return f"{name.rsplit('-', 3)[0]}-py3-none-any.whl"


def recorded(content: dict[str, bytes]) -> dict[str, bytes]:
    """Return the wheel with the digest of each file in its RECORD."""
    record = f"{_info(content)}/RECORD"
    lines = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in sorted(content.items()) if name != record]
    return {**content, record: "\n".join([*lines, f"{record},,", ""]).encode()}


def _info(content: dict[str, bytes]) -> str:
    return next(name for name in content if name.endswith(".dist-info/METADATA")).partition("/")[0]


def _digest(text: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
