"""Files of other users at the command line: code 7 where they would be run, one line of warning where they are read.

Where root does not run the tests, a log is exposed by its mode alone.
"""

import json
import os

import pytest

from tests.cli.reading_commands import LISTS, WRITES, ways_to_read
from tests.faults.foreign import IS_ROOT, STRANGER, STRANGERS, runnable_session
from wakelog.forking import fork
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.sqlite import SqliteStore
from wakelog.testing.builders import SessionBuilder
from wakelog.testing.store_rig import log_bytes

pytestmark = pytest.mark.meddled


def expose(path):
    """Give a file to another user or, without the right to do so, let every user write to it."""
    if IS_ROOT:
        os.chown(path, STRANGER, STRANGERS)
    else:
        os.chmod(path, 0o602)


@pytest.fixture
def marker(shell):
    """The file that the tool of a session creates when it is run."""
    return shell.folder / "marker"


@pytest.fixture
def foreign(shell, store, marker):
    """A session of another user with an unanswered prompt, whose tool runs without approval."""
    session = runnable_session(store, str(marker))
    expose(store.folder.log_path(session.name))
    return session


def check_refused(answer, name):
    """Assert code 7 and one line: the path, what is wrong with it and what to do."""
    assert (answer.code, answer.out) == (7, ""), answer.err
    (line,) = answer.err.splitlines()
    assert f"{name}.jsonl" in line
    assert f"owned by uid {STRANGER}" in line if IS_ROOT else "can be written by all users, with mode 0602" in line
    assert ("`chown " if IS_ROOT else "`chmod go-w ") in line
    assert "trusted_owners" in line


RUNNING = {
    "wake": ("wake", "agent_user_1"),
    "wake --retry": ("wake", "agent_user_1", "--retry"),
    "run -s": ("run", "-s", "agent_user_1", "more"),
    "run -s without a prompt": ("run", "-s", "agent_user_1"),
    "compact": ("compact", "agent_user_1"),
}


@pytest.mark.parametrize("way", RUNNING)
def test_commands_that_run_refuse(shell, store, foreign, marker, way):
    """One error with its own code; no tool is run and no byte is written."""
    before = log_bytes(store, foreign.name)
    check_refused(shell(*RUNNING[way], typed=""), foreign.name)
    check_refused(
        shell(*(word.replace("agent_user_1", f"{shell.store}/agent_user_1.jsonl") for word in RUNNING[way]), typed=""),
        foreign.name,
    )
    assert (marker.exists(), log_bytes(store, foreign.name)) == (False, before)


def test_a_chat_is_refused(shell, store, foreign, marker):
    """A session of another user, and a new one in a store that all users may write to."""
    before = log_bytes(store, foreign.name)
    answer = shell.terminal("chat", foreign.name, columns=1000)
    assert answer.code == 7, answer.out
    assert "cannot be run: " in answer.out
    os.chmod(shell.store, 0o777)
    answer = shell.terminal("chat", columns=1000)
    assert answer.code == 7, answer.out
    assert "no session can be created: " in answer.out
    assert (marker.exists(), log_bytes(store, foreign.name)) == (False, before)


def test_the_kind_of_the_error(shell, foreign):
    """Programs recognise the error by its kind."""
    assert shell("wake", foreign.name, "--json").error["kind"] == "untrusted"


def test_waking_all_refuses_one_and_continues(shell, store, foreign, marker):
    """The other sessions are woken, and the exit code reports the refusal."""
    ours = runnable_session(store, f"{marker}-ours")
    answer = shell("wake", "--all", "--json")
    assert answer.code == 7, answer.err
    states = {row["name"]: row["state"] for row in answer.rows if row["event"] == "end"}
    assert states == {foreign.name: "untrusted", ours.name: "idle"}
    assert (marker.exists(), os.path.exists(f"{marker}-ours")) == (False, True)
    assert [json.loads(line)["error"]["kind"] for line in answer.err.splitlines()] == ["untrusted"]
    shown = shell("wake", "--all")
    assert (shown.code, shown.out) == (7, f"{foreign.name}  refused: other users own or may write to its files\n")
    assert len(shown.err.splitlines()) == 1


def test_a_sub_agent_of_another_user(shell, store, marker):
    """Waking the parent does not run a sub-agent whose log another user may have written."""
    assert shell("run", "--model", "demo", f"ask an agent to run `touch {marker}`", typed="").code == 6
    parent, child = "agent_user_1", "agent_user_2"
    assert shell("questions", parent, "--approve", "--wake", typed="").code == 6
    log = store.folder.log_path(child)
    expose(log)
    check_refused(shell("questions", child, "--approve", "--wake"), child)
    os.chown(log, os.geteuid(), os.getegid())
    os.chmod(log, 0o600)
    assert shell("questions", child, "--approve").code == 0
    expose(log)
    before = log_bytes(store, parent), log_bytes(store, child)
    check_refused(shell("wake", parent), child)
    assert (log_bytes(store, parent), log_bytes(store, child)) == before
    assert not marker.exists()
    os.chown(log, os.geteuid(), os.getegid())
    os.chmod(log, 0o600)
    assert shell("wake", parent).code == 0
    assert marker.exists()


def test_a_store_that_all_may_write(shell, store, marker):
    """Nothing in it is run and nothing is created there; it is listed with a warning."""
    session = runnable_session(store, str(marker))
    os.chmod(shell.store, 0o1777)
    for words in (("wake", session.name), ("run", "hello"), ("run", "-s", session.name, "hello")):
        answer = shell(*words, typed="")
        assert answer.code == 7, answer.err
        assert f"{shell.store} can be written by all users, with mode 1777" in answer.err
    assert shell("wake", "--all").code == 7
    listed = shell("ls")
    assert (listed.code, len(listed.out.splitlines()), len(listed.err.splitlines())) == (0, 1, 1)
    assert not marker.exists()


def test_a_database_that_all_may_write(shell, marker):
    """The same for a SQLite file and each file beside it."""
    store, url = SqliteStore(str(shell.folder / "s.db")), f"sqlite:{shell.folder}/s.db"
    session = runnable_session(store, str(marker))
    for ending in ("", "-wal", "-shm", "-lock"):
        os.chmod(f"{shell.folder}/s.db{ending}", 0o602)
        assert shell("wake", session.name, "--store", url).code == 7
        read = shell("show", session.name, "--store", url)
        assert (read.code, f"s.db{ending} can be written by all users" in read.err) == (0, True)
        os.chmod(f"{shell.folder}/s.db{ending}", 0o600)
    assert shell("show", session.name, "--store", url).err == ""
    assert shell("wake", session.name, "--store", url).code == 0
    assert marker.exists()


def test_a_link_to_a_log_of_another_user_is_refused(shell, store, foreign, marker):
    """The opened file is checked, not the link."""
    link = shell.folder / "mine.jsonl"
    link.symlink_to(store.folder.log_path(foreign.name))
    check_refused(shell("wake", str(link)), foreign.name)
    assert not marker.exists()


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def told(store):
    """A session with entries of many types, for the commands that read."""
    story = SessionBuilder(store)
    story.user("one")
    reply = story.reply("two", calls=[("t1", "grep", {})])
    story.result(reply, "t1")
    story.user("three")
    return store.folder.log_path("crab_user_1")


def readers():
    """Return the commands that read a session, with each flag, those that list, and those that only write."""
    yield from ways_to_read()
    yield from ([name, *words] for name, words in (*LISTS.items(), *WRITES.items()))
    yield from (["du"], ["doctor"], ["verify", "crab_user_1", "--json"], ["ls", "--json"])


@pytest.mark.parametrize("words", list(readers()), ids=" ".join)
def test_reading_warns_once(shell, told, words):
    """Output and code are the same, and one line names the log and how to change that."""
    expose(told)
    answer = shell(*words)
    warnings = [line for line in answer.err.splitlines() if "no agent is run on it" in line]
    assert len(warnings) == 1, answer.err
    assert told in warnings[0]
    assert answer.code in (0, 1, 6), answer.err


def test_json_output_is_unchanged(shell, told):
    """The warning is on stderr."""
    for words in (
        ("show", "crab_user_1", "--json"),
        ("verify", "crab_user_1", "--json"),
        ("context", "crab_user_1", "--json"),
    ):
        before = shell(*words)
        assert before.err == ""
        os.chmod(told, 0o602)
        after = shell(*words)
        os.chmod(told, 0o600)
        assert (after.code, after.raw) == (before.code, before.raw)
        assert "no agent is run on it" in after.err


def test_other_files_that_are_read_are_warned_of(shell, store, marker):
    """A blob, and the log that a fork inherits from."""
    session = runnable_session(store, str(marker))
    child = fork(session)
    (blob,) = [blob for blob in store.blobs.stored() if blob.bytes == len(b"an image")]
    path = shell.store / ".blobs" / blob.digest[7:9] / blob.digest[7:]
    os.chmod(path, 0o602)
    assert str(path) in shell("verify", session.name).err
    os.chmod(path, 0o600)
    log = store.folder.log_path(session.name)
    os.chmod(log, 0o620)
    assert log in shell("show", child.name).err
    assert shell("wake", child.name).code == 7


# ── trusted owners ───────────────────────────────────────────────────────────────────────────────


MUST_BE = 'trusted_owners must be a list of users and groups, as ["ada", "uid:1000", "group:agents"]'


def trust(*words):
    return f"trusted_owners = {json.dumps(words)}\n"


def covering(path):
    """Return the words that trust the owner and the group of a file."""
    found = os.stat(path)
    return (f"uid:{found.st_uid}", "everyone" if found.st_mode & 0o002 else f"gid:{found.st_gid}")


def test_trusted_owners_end_the_refusal(shell, store, foreign, marker, mine):
    """Set in the user's own file; the reading commands do not warn any more."""
    mine(trust(*covering(store.folder.log_path(foreign.name))))
    assert shell("show", foreign.name).err == ""
    answer = shell("wake", foreign.name)
    assert answer.code == 0, answer.err
    assert marker.exists()


def test_no_project_can_set_trusted_owners(shell, store, foreign, marker, mine):
    """Not even a trusted project; the setting in its file is an error with its line."""
    (shell.folder / ".wakelog.toml").write_text(trust(*covering(store.folder.log_path(foreign.name))))
    for own in ("", f"[trust]\nprojects = [{json.dumps(str(shell.folder))}]\n"):
        mine(own)
        assert shell("wake", foreign.name).code == 7
        checked = shell("config", "check")
        assert checked.code == 2
        assert "a project cannot set trusted_owners; set trusted_owners in your own file only" in checked.out
    assert not marker.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "trusted_owners = 'ada'",
            MUST_BE,
        ),
        (
            "trusted_owners = [1000]",
            MUST_BE,
        ),
        (
            "trusted_owners = ['a b']",
            MUST_BE,
        ),
        ("trusted_owner = ['root']", "unknown key trusted_owner; did you mean trusted_owners?"),
        ("trusted_owners = ['no-such-user-here']", "there is no user 'no-such-user-here' on this system"),
        ("trusted_owners = ['group:no-such-group']", "there is no group 'no-such-group' on this system"),
    ],
)
def test_an_error_in_trusted_owners_is_one_line(shell, foreign, marker, mine, line, said):
    """Code 2 and one line where an agent would run; commands that read report it and continue."""
    mine(line + "\n")
    answer = shell("wake", foreign.name)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1), answer.err
    assert said in answer.err
    read = shell("show", foreign.name)
    assert (read.code, len(read.err.splitlines())) == (0, 1), read.err
    assert said in read.err
    assert not marker.exists()


def test_an_error_elsewhere_in_the_file_does_not_matter(shell, store, foreign, marker, mine):
    """Trusted owners do not depend on other keys."""
    mine(trust(*covering(store.folder.log_path(foreign.name))) + "modl = 'x'\n")
    assert shell("wake", foreign.name).code == 0
    assert marker.exists()


# ── the default folder ───────────────────────────────────────────────────────────────────────────


def test_the_default_folder_is_private(shell, monkeypatch):
    """`$XDG_DATA_HOME/wakelog` has mode 0700 whatever the umask; so has the cache."""
    monkeypatch.delenv("WAKELOG_STORE")
    before = os.umask(0)
    try:
        assert shell("run", "--model", "demo", "hello", typed="").code == 0
        assert shell("ls").code == 0
    finally:
        os.umask(before)
    for path in ("data", "data/wakelog", "data/wakelog/sessions", "cache", "cache/wakelog"):
        assert os.stat(shell.folder / path).st_mode & 0o777 == 0o700, path
    assert JsonlStore(str(shell.folder / "data/wakelog/sessions")).custody("agent_user_1") == ()
