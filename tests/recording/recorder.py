"""A program that records a session, for tests of its lease: `python -m tests.recording.recorder URL WHAT`.

It prints a line when it holds the lease, then does what it was told: `wait` for a line on its standard input and end,
be `killed`, end with an `exception`, `forget` the session object and wait, or `fork` a child that records too.
"""

import gc
import os
import signal
import sys

from wakelog.errors import Conflict
from wakelog.session import Session
from wakelog.stores import open_store


def main(url: str, what: str) -> None:
    session: Session | None = Session.open(open_store(url), agent="bot", sender="ada")
    assert session is not None
    session.recover()
    session.user("go")
    session.assistant("ok")
    print("recorded", flush=True)
    match what:
        case "wait":
            sys.stdin.readline()
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exception":
            raise RuntimeError("the program fails")
        case "forget":
            session = None
            gc.collect()
            sys.stdin.readline()
        case "fork":
            if os.fork() == 0:
                try:
                    session.assistant("from the child")
                except Conflict:
                    print("refused", flush=True)
                sys.exit()
            os.wait()
            session.assistant("from the parent")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
