"""A path that this user may not read is an access error that names it: not damage, not "there is no file" (LOG-16).

Root is not bound by permissions, so the commands here run in a process of their own without root's capabilities.
"""

import os
import subprocess

import pytest

from tests.cli.reading_commands import reading_commands
from tests.cli.running import Answer
from tests.permissions import bound
from wakelog.forking import fork
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.session import Session


@pytest.fixture
def asked(shell):
    """Run a command as a user who is bound by permissions."""

    def run(*words):
        done = subprocess.run([*bound(), *shell.command(*words)], capture_output=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr.decode())

    return run


@pytest.fixture
def locked():
    """Remove all permissions from a file or folder until the test is over."""
    before = []

    def lock(path):
        before.append((path, os.stat(path).st_mode))
        os.chmod(path, 0)

    yield lock
    for path, mode in reversed(before):
        os.chmod(path, mode)


@pytest.fixture
def two(shell, store):
    """Two sessions, each with an image; return the log of the first and the path of its image."""
    for agent in ("crab", "whale"):
        session = Session.create(store, agent=agent)
        session.say("one")
        ref = store.blobs.put(agent.encode())
        session.append(Message(message=Prompt(content=(Image(blob=ref),))))
        name = ref.digest.removeprefix("sha256:")
        if agent == "crab":
            image = shell.store / ".blobs" / name[:2] / name
    return shell.store / "crab_user_1.jsonl", image


def check_no_access(answer, path):
    """Assert one line that names the path and what to do, and the exit code of a failure."""
    assert (answer.code, answer.out) == (1, ""), answer.err
    (line,) = answer.err.splitlines()
    assert "Permission denied" in line
    assert str(path) in line
    assert "permissions" in line
    assert "damage" not in line
    assert "no file" not in line


# `copy` prints how much it has copied, and has a test of its own.
READING = [words for words in reading_commands("crab_user_1") if words[0] != "copy"]


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_an_unreadable_log(asked, locked, two, words):
    """LOG-16: by name and by path, one line says which file may not be read."""
    log, _ = two
    locked(log)
    command, _, *more = words
    check_no_access(asked(command, "crab_user_1", *more), log)
    check_no_access(asked(command, str(log), *more), log)


def test_a_log_in_an_unsearchable_folder(asked, locked, two, shell):
    """LOG-16: the error does not claim that the file does not exist."""
    log, _ = two
    locked(shell.store)
    check_no_access(asked("show", str(log)), log)
    check_no_access(asked("show", "crab_user_1"), shell.store)
    for command in ("ls", "doctor"):
        check_no_access(asked(command), shell.store)


def test_the_kind_of_the_error(asked, locked, two):
    """Programs recognise an access error by its kind."""
    log, _ = two
    locked(log)
    assert asked("show", "crab_user_1", "--json").error["kind"] == "no_access"


@pytest.mark.parametrize("known", [False, True])
def test_lists_continue_with_the_other_sessions(asked, locked, two, known):
    """LOG-16: an unreadable session is reported as such, and the others are listed and found."""
    log, _ = two
    locked(log)
    if known:
        assert asked("ls").code == 0
    for words in (("ls",), ("search", "one"), ("questions",)):
        answer = asked(*words)
        assert answer.code == 0, answer.err
        assert "no access to 1 session: crab_user_1" in answer.err
        assert "damaged" not in answer.err
        assert ("whale_user_1" in answer.out) == (words[0] != "questions")
    states = {row["name"]: (row["state"], row["damage"]) for row in asked("ls", "--json").rows}
    assert states["crab_user_1"] == ("inaccessible", 0)


def test_a_list_after_access_is_restored(asked, two):
    """Law 2: the index forgets that a log was unreadable when it can be read."""
    log, _ = two
    os.chmod(log, 0)
    assert "no access" in asked("ls").err
    os.chmod(log, 0o600)
    answer = asked("ls", "--json")
    assert answer.err == ""
    assert [row["entries"] for row in answer.rows] == [3, 3]


def test_doctor_of_a_store(asked, locked, two):
    """LOG-16: `doctor` names the unreadable session, and does not call it damaged."""
    log, _ = two
    locked(log)
    answer = asked("doctor", "--json")
    assert answer.code == 1
    assert (answer.json["inaccessible"], answer.json["damaged"], answer.json["sessions"]) == (["crab_user_1"], [], 2)
    assert "no access crab_user_1" in asked("doctor").out


def test_a_session_by_id_among_unreadable_ones(asked, locked, two, shell):
    """LOG-16: a log of another user does not prevent finding one's own."""
    log, _ = two
    (session,) = [row["id"] for row in shell("ls", "--agent", "whale", "--json").rows]
    for link in (shell.store / "by-id").iterdir():
        link.unlink()
    locked(log)
    assert asked("show", session).code == 0
    assert asked("show", "nothing").code == 3


def test_waking_all_reports_an_unreadable_session_and_continues(asked, locked, two):
    """LOG-16: only that session fails."""
    log, _ = two
    locked(log)
    answer = asked("wake", "--all")
    assert answer.code == 1
    assert f"cannot open {log}: Permission denied" in answer.err
    assert "whale_user_1" in answer.out


def test_a_copy_reports_an_unreadable_session_and_continues(asked, locked, two):
    """LOG-16: that session is not copied, and the others are."""
    log, _ = two
    locked(log)
    answer = asked("copy", "--all", "--to", "elsewhere", "--json")
    assert answer.code == 1
    assert {row["name"]: row["status"] for row in answer.rows} == {"crab_user_1": "failed", "whale_user_1": "copied"}
    assert '"kind":"no_access"' in answer.err


def test_an_unreadable_blob(asked, locked, two):
    """LOG-16: its content is unknown, so it is not called damaged."""
    _, image = two
    locked(image)
    answer = asked("verify", "crab_user_1", "--json")
    assert (answer.code, answer.json["ok"], [loss["kind"] for loss in answer.json["lost"]]) == (
        1,
        False,
        ["inaccessible blob"],
    )
    assert str(image) in answer.json["lost"][0]["reason"]
    told = asked("doctor", "crab_user_1")
    assert (told.code, "inaccessible blob" in told.out, "Permission denied" in told.out) == (1, True, True)


def test_an_unreadable_folder_of_blobs(asked, locked, two, shell):
    """LOG-16: `doctor` still checks the logs, and says that it could not check the blobs."""
    locked(shell.store / ".blobs")
    answer = asked("doctor", "--json")
    assert (answer.code, answer.json["inaccessible"], answer.json["lost"]) == (1, ["the blobs"], [])


@pytest.mark.parametrize("what", ["file", "folder"])
def test_an_unreadable_sqlite_file(asked, locked, shell, what):
    """LOG-16: it is not taken for an empty database."""
    folder = shell.folder / "kept"
    url = f"sqlite:{folder}/sessions.db"
    assert shell("new", "--store", url).code == 0
    locked(folder if what == "folder" else folder / "sessions.db")
    for words in (("ls",), ("show", "agent_user_1"), ("doctor",), ("search", "x"), ("verify", "agent_user_1")):
        check_no_access(asked(*words, "--store", url), folder / "sessions.db")


def test_a_missing_file_is_not_found(asked, two):
    """A file that does not exist is no access error."""
    assert asked("show", "./nothing.jsonl").code == 3
    assert asked("show", "nothing").code == 3


def test_an_unreadable_parent(asked, locked, store, two):
    """LOG-16: a fork whose parent this user may not read gives the same error, and no damage."""
    log, _ = two
    child = fork(Session(store, "crab_user_1"))
    child.say("mine")
    locked(log)
    for command in ("show", "verify", "context"):
        check_no_access(asked(command, child.name), log)
