"""`new`, `append`, `compact`, titles and labels: each writes one entry and answers as documented (docs/cli.md)."""

import json
import os
import re

import pytest

from wakelog.log.content import BlobRef
from wakelog.log.entry import Activity


def test_new_prints_id_and_name(shell):
    made = shell("new", "--agent", "Crab!", "--sender", "tg:12345", "--json").json
    assert set(made) == {"id", "name"}
    assert re.fullmatch(r"crab~\w{8}_tg-12345~\w{8}_1", made["name"])
    assert shell("new", "--agent", "crab", "--sender", "tg-12345").out == "crab_tg-12345_1\n"


def test_new_writes_the_session_header(shell):
    """LOG-4: the first line has the given settings; ST-7: an id that exists is left alone."""
    words = ("--title", "T", "--cwd", "sub", "--model", "m", "--provider", "p", "--id", "my-id")
    assert shell("new", *words, "--json").json == {"id": "my-id", "name": "agent_user_1"}
    first = shell("show", "my-id", "--json").rows[0]
    assert (first["title"], first["cwd"], first["model"], first["provider"]) == (
        "T",
        str(shell.folder / "sub"),
        "m",
        "p",
    )
    assert shell("new", "--id", "my-id", "--json").json == {"id": "my-id", "name": "agent_user_1"}


def test_append_prints_the_entry_as_stored(shell):
    name = shell("new").out.strip()
    answer = shell("append", name, "--role", "user", "Hello", "--json")
    assert answer.json["message"] == {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    log = (shell.store / f"{name}.jsonl").read_bytes()
    assert log.endswith(answer.raw)
    assert shell("append", name, "--role", "assistant", "Hi").out.strip() == shell("head", name, "--json").json["head"]


def test_append_reads_standard_input(shell):
    name = shell("new").out.strip()
    assert (
        shell("append", name, "-", "--json", typed="two\nlines\n").json["message"]["content"][0]["text"] == "two\nlines"
    )
    assert shell("append", name, "-", typed=b"\xff\xfe").code == 2
    assert shell("append", name, "-", typed="").code == 2


def test_a_text_too_long_for_a_line_becomes_a_blob(shell, store):
    """LOG-12: the entry has its beginning and its end, and stderr says so."""
    name = shell("new").out.strip()
    typed = "first\n" + "middle\n" * 3_000_000 + "last"
    answer = shell("append", name, "-", "--json", typed=typed)
    (part,) = answer.json["message"]["content"]
    assert (answer.code, part["blob"]["bytes"]) == (0, len(typed))
    assert store.blobs.get(BlobRef(digest=part["blob"]["digest"], bytes=len(typed))).decode() == typed
    assert (part["text"][:6], part["text"][-4:]) == ("first\n", "last")
    assert len(part["text"]) <= 256 * 1024
    assert f"a text of {len(typed):,} bytes is too long for one log line" in answer.err


@pytest.mark.meddled
def test_append_while_a_worker_holds_the_session(shell, store, story):
    """RUN-11: a message of a person needs no lease; it is queued, and the command says so."""
    lease = story.session.acquire("a worker", ttl_s=60)
    answer = shell("append", "crab_user_1", "Are you there?", "--steer", "--json")
    assert (answer.code, answer.json["type"], answer.json["mode"]) == (0, "queued", "steer")
    assert "queue" in answer.err
    assert shell("append", "crab_user_1", "--role", "assistant", "I am").code == 5
    story.session.release(lease)
    assert isinstance(story.session.read().entries[-1].value, Activity)


def test_append_after_an_open_call_is_queued(shell, story):
    """Law 7: a prompt does not come between a call and its result."""
    story.user("run it")
    story.reply("", calls=[("t1", "bash", {})])
    assert shell("append", "crab_user_1", "and now?", "--json").json["type"] == "queued"


def test_append_notes_a_torn_tail(shell, story):
    """LOG-9: the next append records the damage, reports it, and is readable; exit code 0."""
    story.user("one")
    log = shell.store / "crab_user_1.jsonl"
    with open(log, "ab") as file:
        file.write(b'{"v":1,"seq":2,"type":"mess')
    answer = shell("append", "crab_user_1", "two")
    assert answer.code == 0
    assert "never acknowledged" in answer.err
    assert shell("verify", "crab_user_1", "--json").json["ok"] is True
    assert [noted["kind"] for noted in shell("verify", "crab_user_1", "--json").json["noted"]] == ["torn"]


def test_append_to_a_damaged_log_says_so_and_succeeds(shell, story):
    """Law 9: append reports damage but exits 0."""
    story.user("one")
    log = shell.store / "crab_user_1.jsonl"
    log.write_bytes(log.read_bytes() + b"rubbish\n")
    answer = shell("append", "crab_user_1", "two")
    assert answer.code == 0
    assert "doctor crab_user_1" in answer.err


def test_compact_shortens_the_context_and_keeps_the_log(shell, story):
    """VIEW-4: a compaction deletes nothing; the context has the summary, then the kept messages."""
    story.user("a")
    kept = story.reply("b")
    entry = shell("compact", "crab_user_1", "--summary", "In short.", "--keep", "2", "--json").json
    assert (entry["type"], entry["firstKeptEntryId"]) == ("compaction", kept.id)
    said = [message["content"][0]["text"] for message in shell("context", "crab_user_1", "--json").json["messages"]]
    assert said == ["In short.", "b"]
    assert [row["type"] for row in shell("show", "crab_user_1", "--active", "--json").rows] == ["compaction", "message"]
    assert len(shell("show", "crab_user_1", "--json").rows) == 4
    assert shell("compact", "crab_user_1", "--summary", " ").code == 2


def test_rename_archive_label(shell, story):
    """LOG-1, ST-4: titles, archive state and labels are entries; the latest wins."""
    story.user("a")
    assert shell("rename", "crab_user_1", "First", "--json").json["type"] == "session_renamed"
    shell("rename", "crab_user_1", "Second")
    assert [row["title"] for row in shell("ls", "--json").rows] == ["Second"]
    assert os.path.islink(shell.store / "by-title" / "second--crab_user_1.jsonl")
    assert shell("archive", "crab_user_1", "--json").json["type"] == "session_archived"
    assert shell("ls", "--json").rows == []
    assert [row["archived"] for row in shell("ls", "--archived", "--json").rows] == [True]
    assert shell("archive", "crab_user_1", "--undo", "--json").json["archived"] is False
    assert len(shell("ls", "--json").rows) == 1
    label = shell("label", "crab_user_1", "1", "the start", "--json").json
    assert (label["type"], label["label"]) == ("label", "the start")
    assert "[the start]" in shell("show", "crab_user_1:the start").out
    shell("label", "crab_user_1:1", "")
    assert "[the start]" not in shell("show", "crab_user_1").out


@pytest.mark.parametrize("words", [("label", "crab_user_1", "text"), ("label", "crab_user_1", "1", "two", "words")])
def test_a_label_needs_an_entry_and_one_text(shell, story, words):
    assert shell(*words).code == 2


def test_every_write_is_one_line(shell, story):
    """Law 1: commands only add to the log."""
    story.user("a")
    log = shell.store / "crab_user_1.jsonl"
    for words in (("append", "crab_user_1", "b"), ("label", "crab_user_1", "1", "x"), ("head", "crab_user_1", "1")):
        before = log.read_bytes()
        assert shell(*words).code == 0
        after = log.read_bytes()
        assert after.startswith(before)
        assert json.loads(after.removeprefix(before))
