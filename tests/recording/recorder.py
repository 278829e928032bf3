"""A program that records a session, for tests of its lease: `python -m tests.recording.recorder URL WHAT`.

It prints a line when it holds the lease, then does what it was told: `wait` for a line on its standard input and end,
be `killed`, end with an `exception`, `forget` the session object and wait, or `fork` a child that records too.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable

from wakelog.errors import UsageError
from wakelog.session import Session
from wakelog.stores import open_store


def attempts(session: Session) -> list[Callable[[], object]]:
    """Ways to use the session object of the parent in a forked child."""
    return [
        lambda: session.assistant("from the child"),
        lambda: session.user("from the child"),
        lambda: session.say("from the child"),
        session.messages,
        session.streaming,
    ]


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
                with session:
                    for act in attempts(session):
                        try:
                            act()
                        except UsageError as error:
                            print("refused" if "os.fork" in error.hint else error, flush=True)
                Session.open(open_store(url), agent="bot", sender="ada").say("from the child")
                sys.exit()
            os.wait()
            session.assistant("from the parent")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
