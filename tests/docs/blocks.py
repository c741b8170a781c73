"""The fenced blocks of the documents, and how each kind of them is run.

- `python`: executed in one namespace for the page; blocks that start with `>>>` are doctests.
- `console`: lines that start with `$ ` are commands (one that ends in a backslash goes on in the next line), those
  after it must be what it prints on both outputs. A line `...` stands for any lines. `# exit 2` after the output is the
  exit code, otherwise 0. Our own commands run in this process where nothing needs a shell. `make` is only checked to
  have the target, `pip install` to name this project and its extras.
- Any other block is written to a file if `<!-- file: NAME -->` stands right above it, and else only read by people.

Blocks of a page run in their order, in a directory of the page that is empty at first.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from apportion.console.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND_SECONDS = 60
SHOWN = {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
# Run by a shell: what a shell reads, what runs until a signal, and what imports a program of the page.
OF_A_SHELL = re.compile(
    r"[|&;<>()$`*?{}~]|^(?!apportion )|^apportion (?:demo|group run|group watch|tasks worker)| \w+:\w+( |$)"
)

_FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its place, its language, its text, and the file to write it to."""

    page: Path
    line: int
    language: str
    text: str
    file: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, its output and its exit code."""

    line: str
    output: tuple[str, ...] = ()
    exit_code: int = 0


def blocks_of(page: Path, text: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    source = page.read_text() if text is None else text
    found = _FENCE.finditer(source)
    return [
        Block(page, source.count("\n", 0, match.start("text")) + 1, match["language"], match["text"], match["file"])
        for match in found
    ]


def commands_of(text: str) -> list[Command]:
    """Return the commands of a console block."""
    commands: list[Command] = []
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
            continue
        last = commands.pop()
        code = re.fullmatch(r"# exit (\d+)", line)
        if code:
            commands.append(Command(last.line, last.output, int(code[1])))
        else:
            commands.append(Command(last.line, (*last.output, line), last.exit_code))
    return commands


def run_blocks(blocks: list[Block], directory: Path) -> Iterator[str]:
    """Run the blocks of a page in `directory`, which is the current one; yield each fault, with its place."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        if block.file is not None:
            (directory / block.file).write_text(block.text)
        elif block.language == "console":
            for command in commands_of(block.text):
                yield from (f"{block.place}: {fault}" for fault in _faults_of_command(command, directory))
        elif block.language == "python" and block.text.startswith(">>>"):
            yield from _faults_of_examples(block, namespace)
        elif block.language == "python":
            # The empty lines let a traceback show the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), namespace)


def _faults_of_command(command: Command, directory: Path) -> Iterator[str]:
    program, *arguments = command.line.split()
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        yield from (f"make has no target {word}" for word in arguments if "=" not in word and word not in targets)
    elif (program, *arguments[:1]) == ("pip", "install"):
        yield from _faults_of_requirement(arguments[1].strip("'"))
    else:
        yield from _faults_of_run(command, directory)


def _faults_of_requirement(requirement: str) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {project["name"], *(f"{project['name']}[{extra}]" for extra in project["optional-dependencies"])}
    if requirement not in known:
        yield f"pip install {requirement!r} is none of {sorted(known)}"


def _faults_of_run(command: Command, directory: Path) -> Iterator[str]:
    code, said = _by_a_shell(command.line, directory) if OF_A_SHELL.search(command.line) else _within(command.line)
    printed = "".join(line.rstrip() + "\n" for line in said.splitlines())
    if code != command.exit_code:
        yield f"$ {command.line}\nexits with {code}, not {command.exit_code}:\n{printed}"
    elif not re.fullmatch(_pattern(command.output), printed):
        yield f"$ {command.line}\nprints\n{printed}not\n" + "\n".join(command.output)


def _within(line: str) -> tuple[int, str]:
    """Run our own command in this process, in the current folder: it starts ten times as fast."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with mock.patch.dict(os.environ, SHOWN), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(shlex.split(line)[1:])
    return code, said.buffer.getvalue().decode()


def _by_a_shell(line: str, directory: Path) -> tuple[int, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=directory,
        env={**os.environ, "PATH": path, **SHOWN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def _pattern(output: tuple[str, ...]) -> str:
    return "".join(r"(?:.*\n)*" if line == "..." else re.escape(line.rstrip()) + r"\n" for line in output)


def _faults_of_examples(block: Block, namespace: dict[str, object]) -> Iterator[str]:
    test = doctest.DocTestParser().get_doctest(block.text, namespace, block.place, str(block.page), block.line - 1)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
    namespace.update(test.globs)
    if said:
        yield "".join(said)
