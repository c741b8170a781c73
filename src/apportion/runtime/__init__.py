"""The run of a process: its clock, its I/O thread, the resources that it opens, signals, and calls of handlers.

Refuses: Windows, which lacks the clock, the forks and the signals that the promises of this room rest on.
"""

import sys

from apportion.errors import InvalidInput

if sys.platform == "win32":
    raise InvalidInput("operating system", "Windows", "Linux or another POSIX system", "Run the program in WSL.")
