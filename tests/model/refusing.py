"""A process of its own that refuses a snapshot and says how many bytes it grew by: `python -m tests.model.refusing`.

It takes a file and the name of a kind. The system counts the pages, which costs the refusal nothing, where Python's own
tracing makes it fifteen times as slow. What it can use again of the little that it took before is not counted.
"""

import sys
from pathlib import Path

import apportion
from tests.model.snapshots import is_refused

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"


def main() -> None:
    """Refuse what was asked for; print the growth."""
    path, name = sys.argv[1:]
    data, kind = Path(path).read_bytes(), getattr(apportion, name)
    assert is_refused(data[:1000], kind)  # loads what is loaded when it is needed
    CLEAR.write_text(RESET_PEAK)
    before = _bytes("VmRSS")
    assert is_refused(data, kind)
    print(_bytes("VmHWM") - before)


def _bytes(name: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return 1024 * int(lines[name].split()[0])


if __name__ == "__main__":
    main()
