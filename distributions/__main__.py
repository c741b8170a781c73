"""Build the sdist and both wheels of a commit: python -m distributions [--to FOLDER]

    apportion-VERSION.tar.gz                        the sources, whole: both wheels are built from them
    apportion-VERSION-cp311-abi3-PLATFORM.whl       with the native twin, for every CPython from 3.11 on
    apportion-VERSION-py3-none-any.whl              the reference alone, for every other interpreter

Promises: equal commits and compilers give equal files, whatever the folder, umask, locale and hash seed. No path of the
builder is inside. A file is complete or absent.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from distributions import archive, bill_of_materials, source, wheel
from distributions.refusal import Refusal

HOOK = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def main() -> int:
    """Build the three files, print their digests, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m distributions", description="Build the sdist and both wheels")
    parser.add_argument("--to", type=Path, default=source.ROOT / "dist", help="folder of the three files")
    folder = parser.parse_args().to
    try:
        commit = source.commit()
        with tempfile.TemporaryDirectory(prefix="apportion-dist-") as place:
            files = _built(commit, Path(place))
        _write(files, folder)
    except (Refusal, OSError) as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    for name, content in files.items():
        print(f"{hashlib.sha256(content).hexdigest()}  {len(content) / 1e6:5.2f} MB  {folder / name}")
    return 0


def _built(commit: source.Commit, place: Path) -> dict[str, bytes]:
    """Return the files by their names. The wheels are built from the sdist, so it lacks nothing."""
    tree, out = place / "tree", place / "out"
    out.mkdir()
    source.export(commit, tree)
    print(f"commit {commit.name[:12]}: the sdist", flush=True)
    _hook("build_sdist", tree, out, commit)
    (sdist,) = out.glob("*.tar.gz")
    packed = archive.packed_tar(archive.read_tar(sdist), commit.seconds)
    sdist.write_bytes(packed)
    with tarfile.open(sdist) as file:
        file.extractall(place, filter="data")
    print("the native twin is compiled: one or two minutes the first time", flush=True)
    unpacked = place / sdist.name.removesuffix(".tar.gz")
    _hook("build_wheel", unpacked, out, commit)
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as file:
        content = {name: file.read(name) for name in file.namelist()}
    if not any(wheel.is_extension(name) for name in content):
        raise Refusal("the native twin was not compiled. Look at what the compiler says: make check")
    crates = bill_of_materials.crates(unpacked / "native")
    native = wheel.with_materials(content, crates)
    pure = wheel.without_twin(content)
    found = {sdist.name: packed, built.name: archive.packed_zip(wheel.recorded(native), commit.seconds)}
    return found | {wheel.pure_name(built.name): archive.packed_zip(wheel.recorded(pure), commit.seconds)}


def _hook(name: str, tree: Path, out: Path, commit: source.Commit) -> None:
    """Call one hook of the build backend (PEP 517), with nothing of this machine in what the compiler writes."""
    target = os.environ.get("CARGO_TARGET_DIR", f"{source.ROOT / '.venv' / 'cargo'}")
    shown = {Path.home(): "~", Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo"): "~/.cargo"}
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": f"{commit.seconds}",
        "CARGO_TARGET_DIR": f"{target}-dist",
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in shown.items()),
        "PYTHONHASHSEED": "0",
    }
    call = subprocess.run(
        [sys.executable, "-c", HOOK, name, f"{out}"],
        cwd=tree, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if call.returncode:
        raise Refusal(f"{name} failed:\n{call.stdout}{call.stderr}")


def _write(files: dict[str, bytes], folder: Path) -> None:
    """Write each file under another name first, so that none is ever half there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        part = folder / f".{name}.part"
        try:
            part.write_bytes(content)
            part.replace(folder / name)
        finally:
            part.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
