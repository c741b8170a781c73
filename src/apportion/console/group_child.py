"""Become a command that does not outlive the process that started it.

    python -m apportion.console.group_child PARENT COMMAND [ARGUMENTS]

Promises: on Linux the kernel kills the command as soon as PARENT ends, however that ends; so a runner that was killed
leaves nobody behind who works on what others own by now. Elsewhere only fencing tokens protect from that.
Refuses: to run our code between fork and exec in a process with threads, which may hang; hence it is one of its own.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Ask to be killed with the parent, look whether it still is there, and become the command."""
    parent, *command = arguments
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return  # it ended before it could be asked
    try:
        os.execvp(command[0], command)  # noqa: S606 - what the user asked for
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main(sys.argv[1:])
