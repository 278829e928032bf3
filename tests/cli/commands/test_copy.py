"""`copy`: what is asked for goes over, each session is told of, and the exit code is that of the worst."""

import os
import sys

import pytest

from tests.cli.running import run_on_terminal
from wakelog.forking import fork
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores import open_store

# Nobody listens there.
PASSWORD_URL = "postgresql://u:secret@127.0.0.1:1/x"


@pytest.fixture
def target(shell):
    """The folder that is copied to."""
    return shell.folder / "copies"


@pytest.fixture
def talk(story):
    """A session that was talked to."""
    story.user("hello")
    return story


def logs(folder):
    """What a folder holds: the logs by name."""
    return {path.stem: path.read_bytes() for path in folder.glob("*.jsonl")}


def picture(session, content):
    """An entry that names a blob; gives its reference."""
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


def test_only_what_is_new_goes_over(shell, talk, target):
    """LOG-11: a second copy takes the rest."""
    shell("copy", "--all", "--to", "copies")
    before = len(logs(target)["crab_user_1"])
    talk.user("and on")
    (row,) = shell("copy", "--all", "--to", "copies", "--json").rows
    assert (row["status"], row["copied"]) == ("copied", row["bytes"] - before)
    assert logs(target) == logs(shell.store)


def test_as_json(shell, talk, target):
    """DESIGN 8: one object a session, what is unchanged too."""
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


def test_a_dry_run_only_shows(shell, talk, target):
    """Law 9: looking makes nothing."""
    answer = shell("copy", "--all", "--to", "copies", "--dry-run")
    assert answer.code == 0
    assert answer.out.startswith("pending ")
    assert "\n1 session would be copied: " in answer.out
    assert not target.exists()


def test_what_is_needed_is_named(shell, talk, target):
    """TREE-4: a fork's parent goes first, unasked."""
    child = fork(talk.session)
    answer = shell("copy", child.name, "--to", "copies")
    first, second, _ = answer.out.splitlines()
    assert first.endswith("crab_user_1 (needed by crab_user_2)")
    assert second.endswith("crab_user_2")
    assert logs(target) == logs(shell.store)


def test_another_name(shell, talk, target):
    """ST-2: where its name is taken it gets the next number, and the answer says which."""
    Session.create(open_store(str(target)), agent="crab", session_id="theirs")
    answer = shell("copy", "crab_user_1", "--to", "copies")
    assert answer.code == 0
    assert "crab_user_1 as crab_user_2\n" in answer.out


def test_a_conflict_is_one_line_and_the_others_go_on(shell, talk, target):
    """Law 1: exit code 5, and what stands there stands."""
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


def test_the_worst_decides(shell, talk, store, target):
    """DESIGN 8: a conflict weighs more than a loss."""
    shell("copy", "--all", "--to", "copies")
    shell("append", "crab_user_1", "over there", "--store", str(target))
    ref = picture(Session.create(store, session_id="other"), b"gone")
    store.blobs.remove(ref.digest, older_than_s=0)
    assert shell("copy", "--all", "--to", "copies").code == 5


def test_a_reply_under_way_is_told(shell, talk, store):
    """Law 5: what streams stays, and whoever copies knows."""
    store.journal(talk.session.id, "r1", b"{}")
    answer = shell("copy", "--all", "--to", "copies")
    assert answer.code == 0
    assert answer.err.startswith("wakelog: crab_user_1: an unfinished reply is not copied")
    assert shell("copy", "--all", "--to", "copies").err == ""
    store.drop(talk.session.id, "r1")


def test_a_target_that_cannot_be_written(shell, talk):
    """One line, and what was done until then is told."""
    (shell.folder / "file").write_text("not a folder")
    answer = shell("copy", "--all", "--to", "file")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert answer.out == "nothing copied\n"


def test_sessions_by_their_paths(shell, talk, target):
    """DESIGN 8: a path names a session wherever it is; each comes from its own store."""
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
def test_mistakes(shell, talk, target, words, code, said):
    """DESIGN 8: one line, before anything is done; no password in it."""
    (shell.folder / "link").symlink_to("sessions")
    answer = shell("copy", *words)
    assert (answer.code, answer.out) == (code, "")
    # Of a server that does not answer a first line says that it is tried again.
    assert answer.err.count("\n") == (2 if code == 1 else 1)
    assert said in answer.err
    assert "secret" not in answer.err
    assert not target.exists()


def test_an_empty_store(shell):
    """Law 9: nothing from nothing, and nothing is made."""
    answer = shell("copy", "--all", "--to", "copies")
    assert (answer.code, answer.out) == (0, "nothing copied\n")
    assert list(shell.folder.iterdir()) == []


def test_it_runs_as_a_process(shell, talk, target):
    """A module of this package must not hide Python's own `copy`."""
    answer = shell.process("copy", "--all", "--to", "copies")
    assert (answer.code, answer.err) == (0, "")
    assert logs(target) == logs(shell.store)


def test_a_progress_bar_on_what_takes_long(shell, talk):
    """ux: the second that a bar waits for is taken away. The lines come when it is gone."""
    program = (
        "import sys, wakelog.cli.ui.output as progress; progress._BAR_DELAY_S = -1\n"
        "from wakelog.cli.main import run; sys.exit(run(['copy', '--all', '--to', 'copies']))"
    )
    seen = run_on_terminal([sys.executable, "-c", program], 80, {**os.environ, "NO_COLOR": "1"})
    assert seen.code == 0
    assert seen.out.rindex("Copying sessions") < seen.out.index("crab_user_1")
    assert "1 session copied" in seen.out


def test_other_words_for_it(shell):
    """ux: what people type instead leads here."""
    for word in ("cp", "backup", "sync"):
        assert "did you mean copy?" in shell(word).err
