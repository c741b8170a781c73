"""Fork server: a process that makes the children of a worker by forks. It has loaded apportion, and has one thread.

    main(SOCKET)

Per child, the worker sends a byte and two sockets: the first is for the jobs of the child, the second is its leash. The
server writes the exit code of the child to the leash. When the worker shuts the leash down, the server kills the child.
Promises: the end of the worker ends the server. The end of the server ends its children: at once on Linux, elsewhere
when they notice the end of their sockets.
Refuses: to import the application, which may start threads. The children import it.
"""

import os
import selectors
import signal
import socket
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from apportion.stores import catalog
from apportion.work.children import child

_MOST_BYTES = 4_096
_LOADED = ("apportion.runtime.entry_points", "apportion.work.facade")  # every application needs these


class ForkServer:
    """The children of the workers of one event loop, by their process ids, each with its leash."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders, self._pid = orders, os.getpid()
        self._leashes: dict[int, socket.socket] = {}
        self._woken, self._waking = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._orders, self._woken):
            self._selector.register(each, selectors.EVENT_READ)
        for each in (self._woken, self._waking):
            each.setblocking(False)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _ignored)

    def serve(self) -> None:
        """Follow the orders of the worker until the worker ends."""
        while True:
            ready = [key.fileobj for key, _ in self._selector.select()]
            self._reap()
            for pid in [pid for pid, leash in self._leashes.items() if leash in ready]:
                os.kill(pid, signal.SIGKILL)  # the child was not reaped yet, so the number is still its own
                self._selector.unregister(self._leashes[pid])
            if self._orders in ready and not self._follow():
                return

    def _follow(self) -> bool:
        """Make a child; return False if there will be no more orders."""
        order, sockets, _, _ = socket.recv_fds(self._orders, 1, 2)
        if not order:
            return False
        jobs, leash = (socket.socket(fileno=each) for each in sockets)
        child.flush_outputs()
        if (pid := os.fork()) == 0:
            self._become(jobs)
        jobs.close()
        self._leashes[pid] = leash
        self._selector.register(leash, selectors.EVENT_READ)
        return True

    def _become(self, jobs: socket.socket) -> NoReturn:
        """Become the child: nothing of the server stays open in it."""
        try:
            child.end_with(self._pid)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for each in (self._orders, self._woken, self._waking, *self._leashes.values()):
                each.close()
            child.serve(jobs)
        finally:
            traceback.print_exc()
            child.flush_outputs()
            os._exit(1)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(_MOST_BYTES)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                leash = self._leashes.pop(ended[0])
                with suppress(KeyError):  # the server has killed the child
                    self._selector.unregister(leash)
                with suppress(OSError), leash:  # the worker has ended
                    leash.sendall(str(os.waitstatus_to_exitcode(ended[1])).encode())


def main(orders: str, worker: str) -> None:
    """Serve the worker at the other end of an inherited socket."""
    child.end_with(int(worker))
    for each in _LOADED:
        import_module(each)
    catalog.get("sqlite")  # loads the specs of all stores of apportion
    ForkServer(socket.socket(fileno=int(orders))).serve()


def _ignored(number: int, frame: object) -> None:
    """Do nothing on a signal. SIGCHLD only wakes the server, and the worker handles the other signals."""
