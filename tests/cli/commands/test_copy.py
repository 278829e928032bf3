"""`copy`: the named sessions are copied, each is reported, and the exit code is that of the gravest problem."""

import os
import sys

import pytest

from tests.cli.running import run_on_terminal
from wakelog.forking import fork
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores import open_store

# A port on which no server listens.
PASSWORD_URL = "postgresql://u:secret@127.0.0.1:1/x"


@pytest.fixture
def target(shell):
    """The folder that is copied to."""
    return shell.folder / "copies"


@pytest.fixture
def talk(story):
    """A session with messages."""
    story.user("hello")
    return story


def logs(folder):
    """Return the logs in a folder by name."""
    return {path.stem: path.read_bytes() for path in folder.glob("*.jsonl")}


def picture(session, content):
    """Append an entry that refers to a blob; return the reference."""
    ref = session.store.blobs.put(content)
    session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))
    return ref


@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "postgres"])
def test_there_and_back(shell, talk, kind, request):
    """Law 12: through another store and back, byte for byte."""
    picture(talk.session, b"picture")
    size = (shell.store / "crab_user_1.jsonl").stat().st_size
    there, back = f"{kind}:{shell.folder / 'there'}", shell.folder / "back"
    if kind == "postgres":
        there = request.getfixturevalue("postgres_url")
    answer = shell("copy", "crab_user_1", "--to", there)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        f"copied    {size / 1_000:>5.1f} kB  crab_user_1, 1 blob\n"
        f"1 session copied: {size / 1_000:.1f} kB and 1 blob of 7 B\n"
    )
    assert shell("copy", "--all", "--store", there, "--to", str(back)).code == 0
    assert logs(back) == logs(shell.store)
    assert shell("copy", "--all", "--store", str(back), "--to", there).out == "nothing copied; 1 unchanged\n"


def test_only_new_entries_are_copied(shell, talk, target):
    """ST-6: a second copy adds the rest."""
    shell("copy", "--all", "--to", "copies")
    before = len(logs(target)["crab_user_1"])
    talk.user("and on")
    (row,) = shell("copy", "--all", "--to", "copies", "--json").rows
    assert (row["status"], row["copied"]) == ("copied", row["bytes"] - before)
    assert logs(target) == logs(shell.store)


def test_as_json(shell, talk, target):
    """One object a session, unchanged ones included."""
    ref = picture(talk.session, b"picture")
    rows = {}
    for words in (("--dry-run",), (), ()):
        answer = shell("copy", "@latest", "--to", "copies", *words, "--json")
        assert (answer.code, answer.err) == (0, "")
        (row,) = answer.rows
        rows[row["status"]] = row
    size = (shell.store / "crab_user_1.jsonl").stat().st_size
    same = {
        "session": talk.session.id,
        "name": "crab_user_1",
        "bytes": size,
        "damage": [],
        "lost": [],
        "journals": 0,
        "neededBy": None,
        "reason": None,
    }
    went = {"copied": size, "blobs": 1, "blobBytes": ref.bytes}
    stayed = dict.fromkeys(went, 0)
    assert rows == {
        "pending": {**same, **went, "status": "pending", "to": None},
        "copied": {**same, **went, "status": "copied", "to": "crab_user_1"},
        "unchanged": {**same, **stayed, "status": "unchanged", "to": "crab_user_1"},
    }


def test_a_dry_run_copies_nothing(shell, talk, target):
    """Law 9: it creates no file."""
    answer = shell("copy", "--all", "--to", "copies", "--dry-run")
    assert answer.code == 0
    assert answer.out.startswith("pending ")
    assert "\n1 session would be copied: " in answer.out
    assert not target.exists()


def test_the_parent_of_a_fork_is_copied_too(shell, talk, target):
    """TREE-4: the parent is copied first, without being named."""
    child = fork(talk.session)
    answer = shell("copy", child.name, "--to", "copies")
    first, second, _ = answer.out.splitlines()
    assert first.endswith("crab_user_1 (needed by crab_user_2)")
    assert second.endswith("crab_user_2")
    assert logs(target) == logs(shell.store)


def test_a_taken_name_gets_the_next_number(shell, talk, target):
    """ST-2: the answer says which."""
    Session.create(open_store(str(target)), agent="crab", session_id="theirs")
    answer = shell("copy", "crab_user_1", "--to", "copies")
    assert answer.code == 0
    assert "crab_user_1 as crab_user_2\n" in answer.out


def test_a_conflict_is_one_line_and_the_others_are_copied(shell, talk, target):
    """Law 1: exit code 5, and the existing log stays."""
    shell("copy", "--all", "--to", "copies")
    shell("append", "crab_user_1", "over there", "--store", str(target))
    there = logs(target)["crab_user_1"]
    shell("new", "--agent", "other")
    answer = shell("copy", "--all", "--to", "copies")
    assert answer.code == 5
    hint = "copy it in the other direction, or leave it out"
    assert answer.err == f"wakelog: crab_user_1 has more entries in the target store; {hint}\n"
    assert "1 session copied" in answer.out
    assert answer.out.endswith("; 1 in conflict\n")
    assert logs(target)["crab_user_1"] == there
    assert "other_user_1" in logs(target)
    again = shell("copy", "--all", "--to", "copies", "--json")
    assert [(row["status"], row["reason"]) for row in again.rows] == [
        ("conflict", "crab_user_1 has more entries in the target store"),
        ("unchanged", None),
    ]
    assert again.error["kind"] == "conflict"


def test_a_lost_blob_is_one_line_and_the_rest_is_copied(shell, talk, store, target):
    """LOG-12: exit code 4."""
    ref = picture(talk.session, b"picture")
    store.blobs.remove(ref.digest, older_than_s=0)
    answer = shell("copy", "--all", "--to", "copies")
    assert answer.code == 4
    assert answer.err.startswith(f"wakelog: crab_user_1: no blob {ref.digest}")
    assert answer.err.count("\n") == 1
    assert logs(target) == logs(shell.store)
    (row,) = shell("copy", "--all", "--to", "copies", "--json").rows
    assert [lost["what"] for lost in row["lost"]] == [ref.digest]


def test_the_gravest_problem_decides_the_exit_code(shell, talk, store, target):
    """A conflict is graver than a loss."""
    shell("copy", "--all", "--to", "copies")
    shell("append", "crab_user_1", "over there", "--store", str(target))
    ref = picture(Session.create(store, session_id="other"), b"gone")
    store.blobs.remove(ref.digest, older_than_s=0)
    assert shell("copy", "--all", "--to", "copies").code == 5


def test_a_reply_in_progress_is_reported(shell, talk, store):
    """Law 5: the journal stays, and the answer says so."""
    store.journal(talk.session.id, "r1", b"{}")
    answer = shell("copy", "--all", "--to", "copies")
    assert answer.code == 0
    assert answer.err.startswith("wakelog: crab_user_1: an unfinished reply is not copied")
    assert shell("copy", "--all", "--to", "copies").err == ""
    store.drop(talk.session.id, "r1")


def test_a_target_that_cannot_be_written(shell, talk):
    """One line, and the sessions copied before are reported."""
    (shell.folder / "file").write_text("not a folder")
    answer = shell("copy", "--all", "--to", "file")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert answer.out == "nothing copied\n"


def test_sessions_by_their_paths(shell, talk, target):
    """A path names a session in any store; each is read from its own store."""
    Session.create(open_store("others"), session_id="other")
    answer = shell("copy", "crab_user_1", "./others/agent_user_1.jsonl", "--to", "copies")
    assert answer.code == 0
    assert logs(target) == logs(shell.store) | logs(shell.folder / "others")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "copies"), 2, "give the sessions to copy, or --all"),
        (("--to", "copies", "crab_user_1", "--all"), 2, "give the sessions to copy, or --all"),
        (("crab_user_1",), 2, "--to"),
        (("nobody", "--to", "copies"), 3, "no session nobody"),
        (("crab_user_1", "nobody", "--to", "copies"), 3, "no session nobody"),
        (("crab_user_1:0", "--to", "copies"), 2, "names an entry"),
        (("--all", "--to", "sessions"), 2, "onto itself"),
        (("--all", "--to", "jsonl:./sessions/"), 2, "onto itself"),
        (("--all", "--to", "link"), 2, "onto itself"),
        (("sessions/crab_user_1.jsonl", "--to", "link", "--store", "copies"), 2, "onto itself"),
        (("--all", "--to", "memory:"), 2, "a memory store is lost"),
        (("--all", "--to", "gopher://x"), 2, "unknown store scheme"),
        (("crab_user_1", "--to", "copies", "--store", PASSWORD_URL), 1, ""),
        (("--all", "--store", PASSWORD_URL, "--to", PASSWORD_URL), 2, "onto itself"),
    ],
)
def test_usage_errors(shell, talk, target, words, code, said):
    """One line, before anything is done, without a password."""
    (shell.folder / "link").symlink_to("sessions")
    answer = shell("copy", *words)
    assert (answer.code, answer.out) == (code, "")
    # For a server that does not answer, a first line says that it is tried again.
    assert answer.err.count("\n") == (2 if code == 1 else 1)
    assert said in answer.err
    assert "secret" not in answer.err
    assert not target.exists()


def test_an_empty_store(shell):
    """Law 9: nothing is copied, and nothing is created."""
    answer = shell("copy", "--all", "--to", "copies")
    assert (answer.code, answer.out) == (0, "nothing copied\n")
    assert list(shell.folder.iterdir()) == []


def test_it_runs_as_a_process(shell, talk, target):
    """A module of this package must not hide Python's own `copy`."""
    answer = shell.process("copy", "--all", "--to", "copies")
    assert (answer.code, answer.err) == (0, "")
    assert logs(target) == logs(shell.store)


def test_a_progress_bar_for_long_work(shell, talk):
    """The delay of the bar is removed. The lines come when it is gone."""
    program = (
        "import sys, wakelog.cli.ui.output as progress; progress._BAR_DELAY_S = -1\n"
        "from wakelog.cli.main import run; sys.exit(run(['copy', '--all', '--to', 'copies']))"
    )
    seen = run_on_terminal([sys.executable, "-c", program], 80, {**os.environ, "NO_COLOR": "1"})
    assert seen.code == 0
    assert seen.out.rindex("Copying sessions") < seen.out.index("crab_user_1")
    assert "1 session copied" in seen.out


def test_other_words_for_copy(shell):
    """Words of other programs lead to this command."""
    for word in ("cp", "backup", "sync"):
        assert "did you mean copy?" in shell(word).err
