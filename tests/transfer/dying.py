"""A process that copies and kills itself: `python -m tests.transfer.dying SOURCE TARGET WHEN AT`.

It dies before or after the run of that number, counted from 0, by a signal that nothing can catch.
"""

import os
import signal
import sys

from tests.transfer.rigs import Between
from wakelog.stores import open_store
from wakelog.transfer import copy, copying


def main(source, target, when, at):
    """Copy everything, in short runs, until it dies."""
    copying._RUN_BYTES = 2_000

    def adopt(real, *given, **more):
        is_last = len(dying.seen) == int(at) + 1
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        name = real(*given, **more)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return name

    dying = Between(open_store(target), adopt=adopt)
    for done in copy(open_store(source), dying):
        print(done.status)


if __name__ == "__main__":
    main(*sys.argv[1:])
