"""A program that migrates a set, and kills itself with the signal 9 at an event: python killed.py URL CONFIG EVENT."""

import asyncio
import os
import signal
import sys

from apportion.shards import admin
from tests.shards.sample import SET

left = int(sys.argv[3])


def heard(_):
    global left  # noqa: PLW0603
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(admin.migrate(sys.argv[1], SET, config=sys.argv[2], parallel=1, observer=heard))
