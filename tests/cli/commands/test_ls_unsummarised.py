"""One log that cannot be summarised costs its own row, not the list (ST-5): real processes, real memory limits."""

import subprocess
import sys

import pytest

from wakelog.log.codec import encode
from wakelog.log.content import Prompt
from wakelog.log.entry import Message
from wakelog.session import Session

MEGABYTES = 30
# Lists the sessions of a store in a process that may use so much more memory than it has after loading its modules.
LISTING = """
import resource, sys
import wakelog.cli.commands.ls, wakelog.stores.catalog.indexing, wakelog.stores.catalog.full_text
from wakelog.cli import main
more = int(sys.argv.pop(1)) * 1_000_000
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))
sys.exit(main())
"""


@pytest.fixture
def large(store):
    """The name of a session with one entry that needs far more memory than its line is long."""
    session = Session.create(store, agent="whale")
    session.say("one")
    body = encode(Message(id="large", parent_id=session.tree.head, message=Prompt(content="PARTS")))
    parts = b",".join([b'{"type":"text","text":"%b"}' % (b"a" * 25)] * 240_000)
    store.append(session.name, body.replace(b'"PARTS"', b"[%b]" % parts), after=session.read().next_seq - 1)
    Session(store, session.name).say("three")
    return session.name


@pytest.fixture
def listed(shell):
    """List the sessions with so many megabytes of memory."""

    def run(megabytes, *words):
        command = [sys.executable, "-c", LISTING, str(megabytes), "--store", str(shell.store), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("words", [("ls",), ("search", "small")])
def test_the_others_are_listed(shell, store, listed, large, words):
    """The list is printed, and one line on stderr says which session is missing in it, and why."""
    names = []
    for _ in range(3):
        names.append(Session.create(store, agent="crab").name)
        Session(store, names[-1]).say("small talk")
    done = listed(MEGABYTES, *words)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in names)
    (line,) = done.stderr.splitlines()
    assert f"cannot summarise {large}: there is not enough memory" in line
    assert (large in done.stdout) == (words == ("ls",))


def test_its_row_has_what_is_known(shell, store, listed, large):
    """Name, identity and size are known without a summary; with enough memory the row is complete again."""
    done = listed(MEGABYTES, "ls", "--json")
    assert '"state":"unknown"' in done.stdout, done.stderr
    assert '"agent":"whale"' in done.stdout
    done = listed(4_000, "ls", "--json")
    assert '"state":"pending"' in done.stdout, done.stderr
    assert '"messages":3' in done.stdout
    assert done.stderr == ""
