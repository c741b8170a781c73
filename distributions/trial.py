"""Trial: one interpreter with the built files. Every method yields the faults that it finds."""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from distributions.interpreters import Interpreter
from distributions.source import ROOT

LOCKED = ROOT / "requirements" / "dev.lock"
SMOKE = Path(__file__).with_name("smoke.py")
FAST = "not live and not slow and not soak"
PIP = ("--quiet", "--disable-pip-version-check", "--root-user-action", "ignore", "--only-binary", ":all:")
WITHOUT_WHEEL = {"hotkeys": (3, 14)}  # datasketches has no wheel for this release and later ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One interpreter and the folder with the files that it tries."""

    interpreter: Interpreter
    place: Path

    @classmethod
    def of(cls, interpreter: Interpreter, files: Path, kept: Path) -> "Trial":
        """Copy the built files to where the interpreter sees them, with a pip for environments that have none."""
        is_here = interpreter.root == Path("/")
        place = kept / f"{interpreter}".replace(" ", "-") if is_here else interpreter.root / "tmp" / "trial"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for path in (*files.glob("apportion-*"), SMOKE):
            shutil.copy(path, place)
        pins = [line.rstrip(" \\\n") for line in LOCKED.read_text().splitlines() if "==" in line]
        (place / "pins.txt").write_text("\n".join(pins) + "\n")
        pip = kept / "pip"
        if not pip.exists():
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", pip, "pip"], check=True)
        shutil.copytree(pip, place / "pip")
        return cls(interpreter=interpreter, place=place)

    def smoke(self, tag: str, extras: list[str], *, installed: str = "", is_compiled: bool = True) -> Iterator[str]:
        """Install the wheel of a tag with extras into a new environment, and let each extra act there.

        Without `is_compiled`, files get their bytecode at their first import: that installs in a third of the time.
        """
        twin = "native" if tag == "abi3" else "reference"
        python = self._environment(f"{tag}-{installed or 'core'}")
        wheel = f"{self._file(f'*-{tag}-*.whl')}" + (f"[{installed}]" if installed else "")
        began = monotonic()
        compiled = () if is_compiled else ("--no-compile",)
        yield from self._install(python, wheel, "--constraint", "pins.txt", *compiled)
        print(
            f"{self.interpreter}, {twin}, {installed or 'core'}: installed in {monotonic() - began:.1f} s", flush=True
        )
        for extra in extras:
            if self.interpreter.release >= WITHOUT_WHEEL.get(extra, (4, 0)):
                continue
            acted = self.interpreter.run("smoke.py", extra, twin, python=python, cwd=self.place)
            print(f"{self.interpreter}, {twin}, {extra}: {'well' if acted.returncode == 0 else 'FAILED'}", flush=True)
            if acted.returncode:
                yield f"{self.interpreter}, {twin}, {extra}: {acted.stderr.strip()}"

    def test(self) -> Iterator[str]:
        """Run the fast tests of the sdist against the installed wheel."""
        with tarfile.open(self.place / self._file("*.tar.gz")) as file:
            file.extractall(self.place, filter="data")
        sources = next(path for path in self.place.glob("apportion-*") if path.is_dir())
        python = self._environment("tests")
        yield from self._install(python, "--require-hashes", "-r", f"{sources.name}/requirements/dev.lock")
        yield from self._install(python, "--no-deps", self._file("*-abi3-*.whl").name)
        start = "import os, pytest, sys; os.chdir(sys.argv.pop(1)); sys.path.insert(0, ''); sys.exit(pytest.main())"
        asked = ("-c", start, sources.name, "-q", "-n", "2", "-m", FAST, "tests")
        ran = self.interpreter.run(*asked, python=python, cwd=self.place, seconds=3600)
        last = (ran.stdout.strip().splitlines() or [ran.stderr.strip()])[-1]
        print(f"{self.interpreter}, fast tests: {last}", flush=True)
        if ran.returncode:
            failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            yield from (f"{self.interpreter}: {line}" for line in failed or [last])

    def _file(self, pattern: str) -> Path:
        return next(self.place.glob(pattern)).relative_to(self.place)

    def _environment(self, name: str) -> str:
        """Make an environment without pip; return the path of its python, as the interpreter sees it."""
        made = self.interpreter.run("-m", "venv", "--without-pip", name, cwd=self.place)
        made.check_returncode()
        return f"{self.interpreter.inside(self.place)}/{name}/bin/python"

    def _install(self, python: str, *words: str) -> Iterator[str]:
        pip = {"PYTHONPATH": f"{self.interpreter.inside(self.place)}/pip"}
        done = self.interpreter.run(
            "-m", "pip", "install", *PIP, *words, python=python, cwd=self.place, environment=pip
        )
        if done.returncode:
            yield f"{self.interpreter}: pip install {' '.join(words)}: {done.stderr.strip()}"
