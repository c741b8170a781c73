"""The keeper: the process that starts and ends the commands of `apportion group run`.

    python -I -S keeper.py SOCKET COMMAND [ARGUMENTS]

The keeper inherits SOCKET from the runner. An order is one line of JSON. `live` sets a deadline on the elapsed clock
of the machine; `start` has an id and variables; `ask` asks the command with an id to end; `kill` kills it. The keeper
replies with the process id and, at the end, with the outcome. Each command has a supervisor, a fork of this process.
On Linux the supervisor adopts all descendants of the command, so that none of them can leave the tree.

Promises: no command runs past the deadline, even when the runner is paused. The end of the runner, of the keeper or of
a supervisor ends the whole tree of its commands. An outcome is told after the last process of the tree has ended. The
socket closes after the last tree has ended.
Refuses: to import anything but the standard library, so a module of the working directory is never run. It does not
promise to end a whole tree if SIGKILL ends the runner, the keeper and a supervisor at the same moment. Then only the
command itself ends with them.
"""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import NoReturn

_REPORT = struct.Struct("128s")  # a supervisor reports twice: the process id of its command, then the outcome
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_LONGEST_WAIT_SECONDS = 0.5  # timers stand still while the machine is suspended; the clock does not
_LAST_SECONDS = 0.02  # time that a process needs to end after SIGKILL
_ASK, _END = signal.SIGUSR1, signal.SIGTERM
_HEARD = {signal.SIGCHLD, _ASK, _END, signal.SIGINT, signal.SIGHUP}
_IS_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class _Kept:
    """A command that runs: its number, and the pipe on which its supervisor reports."""

    def __init__(self, number: int, report: int) -> None:
        self.number, self.report, self.has_begun = number, report, False


class Keeper:
    """All commands that run, by the process id of their supervisor."""

    def __init__(self, orders: socket.socket, command: list[str]) -> None:
        self._orders, self._command = orders, command
        self._until = float("-inf")
        self._is_ending = False
        self._kept: dict[int, _Kept] = {}
        self._torn: list[int] = []  # commands with a killed supervisor; their descendants may still run
        self._unread, self._unsent = b"", b""
        self._children, woken = os.pipe()
        for each in (self._children, woken, orders.fileno()):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # noqa: ARG005 - the pipe wakes us

    def run(self) -> None:
        """Follow orders until the runner has gone and every tree has ended."""
        while not self._is_ending or self._kept or self._torn:
            self._wait()
            self._read_orders()
            if self._is_ending or time.clock_gettime(_CLOCK) >= self._until:
                for supervisor in self._kept:
                    os.kill(supervisor, _END)
            for kept in self._kept.values():
                self._hear_pid(kept)
            self._reap()
            self._send()

    def _wait(self) -> None:
        poll, left = select.poll(), self._until - time.clock_gettime(_CLOCK)
        new = [kept.report for kept in self._kept.values() if not kept.has_begun]
        for each in (self._children, *new):
            poll.register(each, select.POLLIN)
        if self._unsent or not self._is_ending:
            wanted = (0 if self._is_ending else select.POLLIN) | (select.POLLOUT if self._unsent else 0)
            poll.register(self._orders, wanted)
        seconds = min(left, _LONGEST_WAIT_SECONDS) if left > 0 else _LONGEST_WAIT_SECONDS
        poll.poll(seconds * 1000 if self._kept or self._torn else None)

    def _read_orders(self) -> None:
        read = _read(self._orders.fileno())
        self._is_ending |= read == b""  # the runner has ended, or has closed its side
        *lines, self._unread = (self._unread + (read or b"")).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if order["do"] == "live":
                self._until = order["until"]
            elif order["do"] == "start":
                self._start(order["id"], order["environ"])
            else:
                for supervisor in [each for each, kept in self._kept.items() if kept.number == order["id"]]:
                    os.kill(supervisor, _ASK if order["do"] == "ask" else _END)

    def _start(self, number: int, environ: dict[str, str]) -> None:
        """Fork a supervisor; a failed start counts as a command that ended."""
        if self._is_ending or time.clock_gettime(_CLOCK) >= self._until:
            self._tell(number, end="not started: our session is over")
            return
        try:
            report, write = os.pipe()
        except OSError as error:
            self._tell(number, end=f"not started: {error.strerror}")
            return
        os.set_blocking(report, False)
        keeper, before = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        try:
            supervisor = os.fork()
            if supervisor == 0:
                _supervise(self._command, environ, keeper, write, before)
            self._kept[supervisor] = _Kept(number, report)
        except OSError as error:
            os.close(report)
            self._tell(number, end=f"not started: {error.strerror}")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(write)

    def _hear_pid(self, kept: _Kept) -> None:
        if not kept.has_begun and (pid := _said(kept.report)) is not None:
            kept.has_begun = True
            if pid:
                self._tell(kept.number, pid=int(pid))

    def _reap(self) -> None:
        """Report commands that have ended.

        If a supervisor was killed, its orphans are children of this process, and are killed too.
        """
        _read(self._children)
        while supervisor := _reaped():
            if (kept := self._kept.pop(supervisor, None)) is not None:
                self._hear_pid(kept)
                if end := _said(kept.report):
                    self._tell(kept.number, end=end)
                else:
                    self._torn.append(kept.number)
                os.close(kept.report)
        if self._torn:
            strays = [pid for pid in _children() if pid not in self._kept]
            for pid in strays:
                _kill(pid)
            if not strays:
                for number in self._torn:
                    self._tell(number, end="its supervisor was killed")
                self._torn.clear()

    def _tell(self, number: int, *, pid: int | None = None, end: str | None = None) -> None:
        self._unsent += json.dumps({"id": number, "pid": pid, "end": end}).encode() + b"\n"

    def _send(self) -> None:
        """Send as much as possible without waiting. A runner that has ended receives nothing."""
        with suppress(OSError):
            self._unsent = self._unsent[self._orders.send(self._unsent) :] if self._unsent else b""


def _supervise(
    command: list[str], environ: dict[str, str], keeper: int, report: int, mask: "set[signal.Signals | int]"
) -> NoReturn:
    """Start the command, wait for its end or for a signal, end its tree, and report."""
    try:
        _control(_PR_SET_CHILD_SUBREAPER, 1)
        _ends_with(keeper, _END)
        supervisor, pid = os.getpid(), os.fork()
        if pid == 0:
            _become(command, environ, supervisor, mask)
        with suppress(OSError):  # the command makes the same call, and either process may be first
            os.setpgid(pid, pid)
        _say(report, str(pid))
        _say(report, _how(_ended(pid)))
    except OSError as error:
        _say(report, "")
        _say(report, f"not started: {error.strerror}")
    finally:
        os._exit(0)


def _ended(command: int) -> int:
    """Wait until the whole tree of a command has ended.

    Return the exit code of the command. If a signal ended the command, return the negative number of the signal.
    """
    code = None
    while code is None:
        heard = signal.sigwait(_HEARD)
        if heard == _ASK:
            _kill(-command, signal.SIGTERM)
        elif heard == signal.SIGCHLD:
            code = _code_of(command)
        else:
            break
    _kill(-command)
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return -signal.SIGKILL if code is None else code
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
        elif pid == 0 and _IS_LINUX and signal.sigtimedwait({signal.SIGCHLD}, _LAST_SECONDS) is None:
            for child in _children():  # orphans that have left the process group are our children now
                _kill(child)


def _code_of(command: int) -> int | None:
    """Reap all processes that have ended; return the exit code of the command if it is among them."""
    code = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(ended[1]) if ended[0] == command else code
    return code


def _become(
    command: list[str], environ: dict[str, str], supervisor: int, mask: "set[signal.Signals | int]"
) -> NoReturn:
    """Become the command, in a process group of its own, with the signals of a fresh process."""
    code = 126
    try:
        os.setpgid(0, 0)
        _ends_with(supervisor, signal.SIGKILL)
        for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
            signal.signal(number, signal.SIG_DFL)  # Python ignores these signals, and the command must not inherit that
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], command, os.environ | environ)  # noqa: S606 - the command of the user
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(code)


def _ends_with(parent: int, number: int) -> None:
    """Get a signal as soon as the parent ends; end now if it has ended already."""
    _control(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(0)


def _control(option: int, value: int) -> None:
    if _IS_LINUX:
        _LIBC.prctl(option, value, 0, 0, 0)


def _children() -> list[int]:
    """Return the children of this process; orphans of its descendants are among them."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc") if _IS_LINUX else ()):  # noqa: PTH208 - imports little
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123
            if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def _kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process, or the process group of a negative number; ignore one that has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _reaped() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def _read(descriptor: int, size: int = 65_536) -> bytes | None:
    """Return the bytes that have arrived: None if there are none yet, and empty bytes at the end of the stream."""
    try:
        return os.read(descriptor, size)
    except BlockingIOError:
        return None
    except ConnectionResetError:
        return b""


def _say(report: int, text: str) -> None:
    os.write(report, _REPORT.pack(text.encode()))


def _said(report: int) -> str | None:
    """Return the next message of a supervisor: None if there is none yet, and an empty text at the end."""
    said = _read(report, _REPORT.size)
    return None if said is None else said.rstrip(b"\0").decode()


def _how(code: int) -> str:
    names = {each.value: each.name for each in signal.Signals}
    return f"exit code {code}" if code >= 0 else f"signal {names.get(-code, -code)}"


_LIBC = ctypes.CDLL(None)


if __name__ == "__main__":
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    Keeper(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]).run()
