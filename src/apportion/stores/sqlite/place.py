"""The place of an SQLite file: the facts that can be known before the file is opened.

Promises: each error names the fault of the path and the remedy. Refuses: directories, and file systems that several
kernels share, where SQLite's locks and shared memory do not work. A file system of unknown type is accepted.
Source: https://www.sqlite.org/wal.html (all processes must be on the same host).
"""

import os
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from apportion.errors import InvalidInput
from apportion.stores.url import StoreUrl

_FIELD = "file of the store"
# File systems of networks and clusters, and those that a virtual machine shares with its host. There, each kernel keeps
# its own locks and shared memory. A file system in user space (fuse.*) is refused unless it is known to be local.
_REMOTE = {
    *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "auristorfs", "coda", "ncpfs", "acfs", "cvfs"),
    *("ceph", "glusterfs", "lustre", "beegfs", "fhgfs", "gfs", "gfs2", "gpfs", "mmfs", "ocfs2", "orangefs", "pvfs2"),
    *("panfs", "wekafs", "prl_fs", "vboxsf", "virtiofs", "vmhgfs", "drvfs"),
}
_LOCAL_FUSE = {"fuse.fuse-overlayfs", "fuse.fuse-ext2"}  # a disk in user space has the type fuseblk
_IN_MEMORY = {"tmpfs", "ramfs"}
_MOUNTS = Path("/proc/self/mountinfo")


def path_of(url: StoreUrl) -> Path:
    """Return the absolute path that a URL names."""
    if "\0" in url.path:
        raise InvalidInput("path of the store URL", str(url), "a path without the character NUL", "Leave out the %00.")
    if url.hosts or not url.path:
        hint = "Write three slashes for a relative path (sqlite:///work.db) and four for an absolute one."
        raise InvalidInput("path of the store URL", str(url), "sqlite:/// and then a path, without a host", hint)
    url.expect(options=(), parts=("path",))
    return Path(url.path).absolute()


def check(path: Path) -> None:
    """Raise `InvalidInput` when a store cannot have this path."""
    try:
        _check(path)
    except OSError as error:
        hint = "Check the length of its name, and the rights of this user on each directory above it."
        found = f"out of reach ({error.strerror}): {path}"
        raise InvalidInput(_FIELD, found, "a file that this user can reach", hint) from error


def _check(path: Path) -> None:
    field = _FIELD
    parent, mode = _mode(path.parent), _mode(path)
    if parent is None or not S_ISDIR(parent):
        raise InvalidInput(field, str(path), "a file in a directory that exists", f"Create it: mkdir -p {path.parent}")
    place = path.parent if mode is None else path
    if mode is not None and not S_ISREG(mode):
        kind = "a directory" if S_ISDIR(mode) else "no regular file"
        raise InvalidInput(field, f"{kind}: {path}", "a file", "Name a file in it, such as sqlite:///work.db")
    kind = file_system(place)
    if is_remote(kind):
        hint = "SQLite's locks do not work over a network: use a local disk, or PostgreSQL or etcd for several hosts."
        raise InvalidInput("file system of the store", f"{kind} at {place}", "a local one", hint)
    for each in (place, path.parent, *side_files(path)):
        if not os.access(each, os.W_OK):
            hint = f"Members write the file, its -wal and -shm, and its directory: change owner or mode of {each}"
            raise InvalidInput(field, f"read-only: {each}", "a path that this user may write", hint)


def _mode(path: Path) -> int | None:
    """Return the mode of a file, None for no file. From Python 3.14 on, `Path.exists` would hide other errors."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def side_files(path: Path) -> tuple[Path, ...]:
    """Return the paths of the -wal and the -shm beside a file, as far as they exist now."""
    return tuple(each for end in ("-wal", "-shm") if (each := path.with_name(path.name + end)).exists())


def refuse_empty(path: Path) -> None:
    """Raise `InvalidInput` when a file that should hold a store is empty."""
    if path.stat().st_size == 0:
        hint = "Restore it first; connect again if an empty store is wanted."
        raise InvalidInput(_FIELD, f"empty: {path}", "a store of apportion", hint)


def file_system(path: Path) -> str:
    """Return the kernel's name of the type of the file system, empty if it is not known."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split(" ")[2] == number:
            return after.split(" ")[0]
    return ""


def is_remote(file_system: str) -> bool:
    """Say whether files of this kind of file system are on another host."""
    is_in_user_space = file_system == "fuse" or file_system.startswith("fuse.")
    return file_system in _REMOTE or (is_in_user_space and file_system not in _LOCAL_FUSE)


def is_in_memory(file_system: str) -> bool:
    """Say whether files of this kind of file system are gone after a power cut."""
    return file_system in _IN_MEMORY


def identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file, None if it cannot be reached. A file that replaces it has other numbers."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called before each transaction, and twice as fast
    except OSError:
        return None
    return status.st_dev, status.st_ino
