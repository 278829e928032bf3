"""`doctor` and `verify --all` over a whole store: what was changed behind the index is found, in every store."""

import json
import os
import sqlite3
import sys
from pathlib import Path

import psycopg
import pytest

from tests.cli.running import run_on_terminal
from wakelog.forking import fork
from wakelog.log.content import Image, Prompt, Reply, Text
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores import open_store

KINDS = ("files", "sqlite", "postgresql")


class StoredLines:
    """Changes stored lines in place, as a disk or another program does: without a trace in size or time if possible."""

    def __init__(self, url):
        self.url = url
        self.store = open_store(url)

    def change(self, session, number, change):
        """Replace line `number` (from 1) of a session by `change(line)`; None removes it."""
        if self.url.startswith("jsonl:"):
            path = Path(self.url.removeprefix("jsonl:")) / f"{session.name}.jsonl"
            found = path.stat()
            lines = path.read_bytes().splitlines(keepends=True)
            lines[number - 1] = change(lines[number - 1]) or b""
            path.write_bytes(b"".join(lines))
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        elif self.url.startswith("sqlite:"):
            with sqlite3.connect(self.url.removeprefix("sqlite:")) as db:
                where = f"number = {number} AND session = (SELECT key FROM logs WHERE id = '{session.id}')"
                self._change_row(db.execute, where, "?", change)
        else:
            with psycopg.connect(self.url) as connection:
                self._change_row(connection.execute, f"number = {number} AND session = '{session.id}'", "%s", change)

    def _change_row(self, execute, where, value, change):
        table = "lines" if self.url.startswith("sqlite:") else "wakelog.lines"
        (raw,) = execute(f"SELECT bytes FROM {table} WHERE {where}").fetchone()
        changed = change(bytes(raw))
        if changed is None:
            execute(f"DELETE FROM {table} WHERE {where}")
        else:
            execute(f"UPDATE {table} SET bytes = {value} WHERE {where}", (changed,))


@pytest.fixture(params=KINDS)
def lines(request, shell, monkeypatch):
    """A store of each kind, which the command line uses."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    else:
        url = f"jsonl:{shell.folder}/kept" if request.param == "files" else f"sqlite:{shell.folder}/kept.db"
    monkeypatch.setenv("WAKELOG_STORE", url)
    made = StoredLines(url)
    yield made
    made.store.close()


def talk(store, agent):
    """A session of three lines: header, prompt, reply."""
    session = Session.create(store, agent=agent, sender="user")
    session.say("one")
    session.append(Message(message=Reply(content=(Text(text="two"),))))
    return session


DAMAGES = {
    "an edited line": lambda raw: raw.replace(b"two", b"tow"),
    "a row of NULs": lambda raw: b"\0" * (len(raw) - 1) + b"\n",
    "a flipped bit": lambda raw: raw.replace(b"two", b"tWo"),
    "a removed row": lambda _: None,
}


@pytest.mark.meddled
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_place_is_found_after_the_index_was_made(shell, lines, damage):
    """LOG-16, law 9: `doctor` and `verify --all` read what the index does not; the fork that inherits it is damaged."""
    sound, hurt = talk(lines.store, "sound"), talk(lines.store, "hurt")
    hurt.say("three")
    child = fork(hurt)
    assert (shell("ls").code, shell("doctor").code, shell("verify", "--all").code) == (0, 0, 0)
    lines.change(hurt, 3, DAMAGES[damage])
    answer = shell("verify", "--all", "--json")
    assert answer.code == 4
    assert {row["name"]: row["ok"] for row in answer.rows} == {sound.name: True, hurt.name: False, child.name: False}
    report = shell("doctor", "--json")
    assert (report.code, sorted(report.json["damaged"])) == (4, sorted([hurt.name, child.name]))
    assert (report.json["verified"], report.json["unverified"]) == (3, 0)
    told = shell("verify", "--all").out
    assert f"{hurt.name}: NOT OK" in told
    assert told.endswith("3 sessions: 1 ok, 2 NOT OK\n")


@pytest.mark.meddled
def test_doctor_reads_damaged_sessions_into_the_index(shell, lines):
    """Law 2: the index is derived: after `doctor` has found a damaged line, `ls` shows the session as damaged."""
    hurt = talk(lines.store, "hurt")
    assert [row["state"] for row in shell("ls", "--json").rows] == ["idle"]
    lines.change(hurt, 2, DAMAGES["a row of NULs"])
    assert shell("doctor").code == 4
    assert [row["state"] for row in shell("ls", "--json").rows] == ["damaged"]


@pytest.mark.meddled
def test_a_log_without_lines_is_damaged(shell, lines):
    """LOG-16: a session is created with its header; a verdict over nothing is not ok."""
    hurt = talk(lines.store, "hurt")
    shell("ls")
    for number in (1, 2, 3) if not lines.url.startswith("jsonl:") else (1, 1, 1):
        lines.change(hurt, number, lambda _: None)
    assert (shell("verify", "--all").code, shell("doctor").code, shell("verify", hurt.name).code) == (4, 4, 4)
    assert "the log is empty" in shell("verify", "--all").out


def with_an_image(store, agent):
    session = Session.create(store, agent=agent, sender="user")
    image = store.blobs.put(b"bytes of an image", "image/png")
    session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=image),))))
    return session, image


def test_a_missing_blob_is_found(shell, lines):
    """LOG-16: of the fork that inherits it too. `doctor` says that it did not read the bytes of blobs."""
    session, image = with_an_image(lines.store, "crab")
    child = fork(session)
    report = shell("doctor", "--json")
    assert (report.code, report.json["unreadBlobs"]) == (0, 1)
    drawn = shell("doctor").out
    assert "the bytes of 1 blob; `wakelog verify --all` checks everything" in drawn
    assert "no problems found in what was checked" in drawn
    assert [(row["ok"], row["blobs"]) for row in shell("verify", "--all", "--json").rows] == [(True, 1)] * 2
    assert lines.store.blobs.remove(image.digest, older_than_s=0)
    assert shell("verify", "--all").code == 4
    assert {row["name"]: row["lost"][0]["kind"] for row in shell("verify", "--all", "--json").rows} == dict.fromkeys(
        (session.name, child.name), "missing blob"
    )
    report = shell("doctor", "--json")
    assert (report.code, {lost["name"] for lost in report.json["lost"]}) == (4, {session.name, child.name})


def test_a_blob_of_many_sessions_is_read_once(shell, lines, monkeypatch):
    """Forks inherit blobs: `verify --all` does not read them again for each fork."""
    session, _ = with_an_image(lines.store, "crab")
    for _ in range(3):
        fork(session)
    checked = []
    blobs = type(lines.store.blobs)
    check = blobs.check

    def counted(self, ref):
        checked.append(ref)
        check(self, ref)

    monkeypatch.setattr(blobs, "check", counted)
    assert [row["blobs"] for row in shell("verify", "--all", "--json").rows] == [1] * 4
    assert len(checked) == 1


def test_doctor_says_which_sessions_it_did_not_verify(shell, lines, monkeypatch):
    """LOG-16: beyond its limit of bytes it verifies the sessions changed last, and counts the others."""
    first, second = talk(lines.store, "first"), talk(lines.store, "second")
    sizes = {stat.name: stat.size for stat in lines.store.sessions()}
    monkeypatch.setattr("wakelog.app.store_checks._VERIFIED_MAX_BYTES", sizes[second.name])
    lines.change(first, 3, DAMAGES["an edited line"])
    report = shell("doctor", "--json")
    assert report.code == 0
    assert (report.json["verified"], report.json["unverified"]) == (1, 1)
    assert report.json["unverifiedBytes"] == sizes[first.name]
    drawn = shell("doctor").out
    assert "1 session (" in drawn
    assert "no problems found\n" not in drawn
    lines.change(second, 3, DAMAGES["an edited line"])
    assert shell("doctor", "--json").json["damaged"] == [second.name]


@pytest.mark.meddled
def test_a_session_that_cannot_be_read_does_not_end_the_check(shell, store):
    """LOG-16: a log in a newer format is not verified, and not called damaged; the others are verified."""
    names = [talk(store, agent).name for agent in ("a", "b", "c")]
    log = shell.store / f"{names[1]}.jsonl"
    header = {**json.loads(log.read_bytes().splitlines()[0]), "version": 99}
    del header["h"]  # A header whose seal is broken is damaged, and its version is not believed.
    log.write_text(json.dumps(header) + "\n")
    answer = shell("verify", "--all", "--json")
    assert {row["name"]: row["ok"] for row in answer.rows} == {names[0]: True, names[1]: False, names[2]: True}
    (error,) = [row["error"] for row in answer.rows if row["error"]]
    assert (answer.code, "newer" in error or "format 99" in error) == (1, True)
    assert "2 ok, 1 not verified" in shell("verify", "--all").out
    assert shell("doctor", "--json").json["damaged"] == []


def test_a_session_or_all(shell):
    assert shell("verify").code == 2
    assert shell("verify", "crab_user_1", "--all").code == 2
    assert shell("verify", "--all", "--head", "0" * 64).code == 2
    assert (shell("verify", "--all").code, shell("verify", "--all").out) == (0, "0 sessions: 0 ok\n")


def test_progress_is_drawn_on_a_terminal(shell, store):
    """A check that takes long shows how far it is."""
    for agent in ("a", "b"):
        talk(store, agent)
    patched = (
        "import sys, wakelog.cli.ui.output as output\noutput._BAR_DELAY_S = -1\nfrom wakelog.cli import main\nmain()"
    )
    drawn = run_on_terminal([sys.executable, "-c", patched, "verify", "--all"], 80, dict(os.environ))
    assert "Verifying sessions" in str(drawn)
