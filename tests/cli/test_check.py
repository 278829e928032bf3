"""`verify` and `doctor`: what is wrong, in figures and in words (LOG-9, law 9)."""

import json
import os
import shutil

import pytest

from wakelog.log.lines import Line
from wakelog.log.proof import prove


@pytest.fixture
def log(shell, story):
    """A log of five entries."""
    story.user("one")
    story.reply("two")
    story.user("three")
    story.reply("four")
    return shell.store / "crab_user_1.jsonl"


def rewrite(log, change):
    """Changes the lines of a log, LF included."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(change(lines)))


def test_verify_of_a_sound_log(shell, log):
    answer = shell("verify", "crab_user_1", "--json")
    assert answer.code == 0
    assert answer.json == {
        "ok": True,
        "entries": 5,
        "damage": [],
        "broken": [],
        "unsealed": 0,
        "noted": [],
        "head": prove([Line(line) for line in log.read_bytes().splitlines()]).head,
        "anchored": None,
    }
    assert "crab_user_1: ok, 5 entries" in shell("verify", "crab_user_1").out


DAMAGES = {
    "a changed word": (lambda lines: [*lines[:2], lines[2].replace(b"two", b"tow"), *lines[3:]], "broken"),
    "a dropped line": (lambda lines: [*lines[:2], *lines[3:]], "damage"),
    "swapped lines": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "damage"),
    "a repeated line": (lambda lines: [*lines, lines[-1]], "damage"),
    "rubbish": (lambda lines: [*lines[:3], b"\x00\xff rubbish\n", *lines[3:]], "damage"),
    "two on one line": (lambda lines: [*lines[:2], lines[2].rstrip(b"\n") + lines[3], *lines[4:]], "damage"),
    "a torn tail": (lambda lines: [*lines[:4], lines[4][:30]], "damage"),
    "a line added by hand": (
        lambda lines: [*lines, b'{"type":"message","id":"x","message":{"role":"user","content":"x"}}\n'],
        "unsealed",
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_every_harm_is_noticed_and_explained(shell, log, what):
    """LOG-9: where and why from `verify`, meaning and advice from `doctor`, exit code 4, and the log is untouched."""
    change, found_in = DAMAGES[what]
    rewrite(log, change)
    before = log.read_bytes()
    answer = shell("verify", "crab_user_1", "--json")
    assert answer.code == 4
    assert answer.json["ok"] is False
    assert answer.json[found_in]
    assert all(set(hurt) == {"line", "offset", "reason", "kind"} for hurt in answer.json["damage"])
    told = shell("doctor", "crab_user_1", "--json")
    assert told.code == 4
    assert all(finding["meaning"] and finding["advice"] for finding in told.json["findings"])
    shown = shell("doctor", "crab_user_1").out
    assert told.json["findings"][0]["reason"] in shown
    assert "NOT OK" in shell("verify", "crab_user_1").out
    assert log.read_bytes() == before


@pytest.mark.parametrize("what", DAMAGES)
def test_a_salvaged_copy_is_ok(shell, log, what):
    """DESIGN 3: the copy verifies, holds what could be read, and the damaged log is never touched."""
    rewrite(log, DAMAGES[what][0])
    before = log.read_bytes()
    saved = shell("doctor", "crab_user_1", "--salvage", "clean.jsonl", "--json").json["salvage"]
    assert saved["file"] == "clean.jsonl"
    verdict = shell("verify", "clean.jsonl", "--json")
    assert (verdict.code, verdict.json["ok"]) == (0, True)
    assert saved["entries"] >= 4
    assert shell("doctor", "clean.jsonl").code == 0
    assert os.stat("clean.jsonl").st_mode & 0o777 == 0o600
    assert log.read_bytes() == before


def test_salvage_overwrites_nothing(shell, log):
    (shell.folder / "there.jsonl").write_text("mine")
    answer = shell("doctor", "crab_user_1", "--salvage", "there.jsonl")
    assert answer.code == 2
    assert (shell.folder / "there.jsonl").read_text() == "mine"
    assert shell("doctor", "crab_user_1", "--salvage", "no/such/folder/x.jsonl").code == 1
    assert shell("doctor", "--salvage", "x.jsonl").code == 2


def test_salvage_of_nothing(shell, log):
    log.write_bytes(b"rubbish\n")
    assert shell("doctor", "crab_user_1", "--salvage", "x.jsonl").code == 2
    assert not os.path.exists("x.jsonl")


def test_a_digest_kept_elsewhere_finds_a_cut_tail(shell, log):
    """DESIGN 3: a log cut at a line's end looks sound, unless somebody kept its head."""
    head = shell("verify", "crab_user_1", "--json").json["head"]
    shell("append", "crab_user_1", "more")
    grown = shell("verify", "crab_user_1", "--head", head, "--json")
    assert (grown.code, grown.json["anchored"]) == (0, True)
    rewrite(log, lambda lines: lines[:-2])
    assert shell("verify", "crab_user_1").code == 0
    cut = shell("verify", "crab_user_1", "--head", head, "--json")
    assert (cut.code, cut.json["ok"], cut.json["anchored"]) == (4, False, False)
    assert "NOT in the chain" in shell("verify", "crab_user_1", "--head", head).out


def test_a_healthy_session(shell, log):
    answer = shell("doctor", "crab_user_1")
    assert (answer.code, answer.out) == (0, "crab_user_1: healthy, 5 entries read\n")


def test_every_command_that_reads_one_session_says_that_it_is_damaged(shell, log):
    """DESIGN 8: exit code 4, and the output is still given."""
    rewrite(log, lambda lines: [*lines[:4], b"rubbish\n", lines[4]])
    for words in (
        ("show", "crab_user_1"),
        ("show", "crab_user_1", "--json"),
        ("tree", "crab_user_1"),
        ("context", "crab_user_1", "--json"),
        ("export", "crab_user_1", "-f", "md"),
        ("export", "crab_user_1", "-f", "jsonl"),
        ("usage", "crab_user_1", "--json"),
        ("tail", "crab_user_1", "-n", "2", "--json"),
        ("head", "crab_user_1"),
    ):
        answer = shell(*words)
        assert answer.code == 4, words
        assert answer.raw
        assert "line 5" in answer.err


# ── the store ────────────────────────────────────────────────────────────────────────────────────


def test_doctor_looks_the_store_over(shell, log):
    assert shell("doctor").code == 0
    assert "nothing to complain about" in shell("doctor").out
    (shell.store / "notes.txt").write_text("x")
    (shell.store / ".new-1-x").write_text("x")
    (shell.store / "link.jsonl").symlink_to(log)
    os.chmod(log, 0o644)
    os.chmod(shell.store, 0o755)
    (shell.store / "by-id" / "gone").symlink_to("../gone.jsonl")
    report = shell("doctor", "--json").json
    told = "\n".join(report["problems"])
    for word in ("notes.txt", ".new-1-x", "link.jsonl", "chmod 600", "chmod 700", "by-id/gone"):
        assert word in told
    assert set(report) == {"store", "sessions", "bytes", "index", "indexBytes", "damaged", "problems", "relinked"}
    assert (report["sessions"], report["damaged"]) == (1, [])


def test_doctor_makes_missing_links(shell, log):
    """ST-2: links that are gone are made anew from the logs, and it says so; a second look finds nothing to do."""
    assert shell("rename", "crab_user_1", "修复 tests").code == 0
    assert shell("doctor", "--json").json["relinked"] == []
    for folder in ("by-id", "by-title"):
        shutil.rmtree(shell.store / folder)
    before = log.read_bytes()
    told = shell("doctor")
    assert told.code == 0
    assert "relinked  by-title/修复-tests--crab_user_1.jsonl\n" in told.out
    assert "relinked  by-id/" in told.out
    assert os.path.islink(shell.store / "by-title" / "修复-tests--crab_user_1.jsonl")
    assert shell("doctor", "--json").json["relinked"] == []
    assert log.read_bytes() == before


def test_doctor_says_what_it_cannot_link(shell, log):
    """ST-2: where links cannot be made, the rest of the report is given all the same."""
    shutil.rmtree(shell.store / "by-id")
    (shell.store / "by-id").write_text("x")
    report = shell("doctor", "--json")
    assert report.code == 0
    assert (report.json["relinked"], report.json["sessions"]) == ([], 1)
    assert any("by-id is not a folder" in problem for problem in report.json["problems"])


def test_doctor_names_damaged_sessions(shell, log):
    log.write_bytes(log.read_bytes() + b"rubbish\n")
    assert shell("doctor", "--json").json["damaged"] == ["crab_user_1"]
    assert "wakelog doctor crab_user_1" in shell("doctor").out


def test_doctor_makes_no_store(shell):
    assert shell("doctor").code == 0
    assert not shell.store.exists()


def test_a_store_that_is_no_folder(shell):
    shell.store.write_text("x")
    assert shell("doctor", "--json").json["problems"] == [f"{shell.store} is no folder"]
    assert shell("new").code == 1


# ── du ───────────────────────────────────────────────────────────────────────────────────────────


def test_du(shell, log, story):
    story.store.journal("crab_user_1", "r1", b"a piece")
    story.store.blobs.put(b"x" * 5_000)
    rows = shell("du", "--json").rows
    assert rows[0] == {"kind": "session", "name": "crab_user_1", "log": log.stat().st_size, "journals": 8}
    total = rows[-1]
    assert (total["kind"], total["sessions"], total["logs"], total["journals"]) == ("total", 1, log.stat().st_size, 8)
    assert total["blobs"] == 5_000
    parts = ("logs", "journals", "locks", "blobs", "index")
    assert total["bytes"] == sum(total[part] for part in parts)
    assert json.loads(shell("du", "crab_user_1", "--json").raw)["name"] == "crab_user_1"
    assert "crab_user_1" in shell("du").out
    assert "in all" in shell("du").out
