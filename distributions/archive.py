"""Archive: the same files always packed into the same bytes.

Promises: names are sorted, dates are one date, owners are absent, and a file is executable or not: no other mode.
"""

import gzip
import io
import tarfile
import time
import zipfile
from pathlib import Path

_FIRST_YEAR_OF_ZIP = 1980
_EXECUTABLE, _PLAIN = 0o755, 0o644


def read_tar(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return the members of an archive, each with its content."""
    with tarfile.open(path) as file:
        members = [each for each in file if each.isfile() or each.isdir()]
        return [(each, held.read() if (held := file.extractfile(each)) else b"") for each in members]


def packed_tar(members: list[tuple[tarfile.TarInfo, bytes]], seconds: int) -> bytes:
    """Return a .tar.gz of these members, all of one date."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as file:
        for found, content in sorted(members, key=lambda member: member[0].name):
            member = tarfile.TarInfo(found.name)
            member.type, member.size, member.mtime = found.type, len(content), seconds
            member.mode = _EXECUTABLE if found.isdir() or found.mode & 0o100 else _PLAIN
            file.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=seconds)


def packed_zip(content: dict[str, bytes], seconds: int) -> bytes:
    """Return a zip of these files, all of one date. The folder of metadata comes last, as PEP 427 recommends."""
    date = max(time.gmtime(seconds)[:6], (_FIRST_YEAR_OF_ZIP, 1, 1, 0, 0, 0))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name in sorted(content, key=lambda each: (".dist-info/" in each, each)):
            member = zipfile.ZipInfo(name, date)
            member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3
            member.external_attr = (0o100000 | (_EXECUTABLE if name.endswith(".so") else _PLAIN)) << 16
            file.writestr(member, content[name])
    return packed.getvalue()
