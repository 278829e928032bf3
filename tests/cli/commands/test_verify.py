"""`verify` and `doctor`: damage in figures and in words (LOG-9, law 9)."""

import json
import os
import shutil

import pytest

from wakelog.log.content import ToolResult
from wakelog.log.entry import Message
from wakelog.log.integrity import verify_seals
from wakelog.log.lines import Line


@pytest.fixture
def log(shell, story):
    """A log of five entries."""
    story.user("one")
    story.reply("two")
    story.user("three")
    story.reply("four")
    return shell.store / "crab_user_1.jsonl"


def rewrite(log, change):
    """Change the lines of a log, LF included."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(change(lines)))


def test_verify_of_an_intact_log(shell, log):
    answer = shell("verify", "crab_user_1", "--json")
    assert answer.code == 0
    assert answer.json == {
        "ok": True,
        "entries": 5,
        "damage": [],
        "broken": [],
        "unsealed": 0,
        "noted": [],
        "blobs": 0,
        "lost": [],
        "head": verify_seals([Line(line) for line in log.read_bytes().splitlines()]).head,
        "anchored": None,
        "since": None,
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
def test_every_damage_is_found_and_explained(shell, log, what):
    """LOG-9: place and reason from `verify`, meaning and advice from `doctor`, exit code 4; the log is untouched."""
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
    """LOG-9: the copy verifies, contains what could be read, and the damaged log is never touched."""
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


def test_salvage_of_an_unreadable_log(shell, log):
    log.write_bytes(b"rubbish\n")
    assert shell("doctor", "crab_user_1", "--salvage", "x.jsonl").code == 2
    assert not os.path.exists("x.jsonl")


# ── a digest that was kept ───────────────────────────────────────────────────────────────────────


def head_of(shell, session):
    return shell("verify", session, "--json").json["head"]


def test_a_digest_kept_elsewhere_finds_a_cut_tail(shell, log):
    """LOG-9: a log cut at a line's end looks intact, unless its head was kept elsewhere."""
    head = head_of(shell, "crab_user_1")
    same = shell("verify", "crab_user_1", "--head", head, "--json")
    assert (same.code, same.json["anchored"], same.json["since"]) == (0, True, 0)
    shell("append", "crab_user_1", "more")
    shell("append", "crab_user_1", "and more")
    grown = shell("verify", "crab_user_1", "--head", head, "--json")
    assert (grown.code, grown.json["anchored"], grown.json["since"]) == (0, True, 2)
    assert "in the chain; 2 entries appended since" in shell("verify", "crab_user_1", "--head", head).out
    rewrite(log, lambda lines: lines[:-3])
    assert shell("verify", "crab_user_1").code == 0
    cut = shell("verify", "crab_user_1", "--head", head, "--json")
    assert (cut.code, cut.json["ok"], cut.json["anchored"], cut.json["since"]) == (4, False, False, None)


def test_verify_and_doctor_do_not_contradict_each_other(shell, log):
    """Law 9: a digest that is not in the log may be another log's; `doctor` has nothing to explain then."""
    answer = shell("verify", "crab_user_1", "--head", "0" * 64)
    assert answer.code == 4
    assert "it belongs to another log, or this log was cut or rewritten before it" in answer.out
    assert "explains" not in answer.out
    told = shell("doctor", "crab_user_1")
    assert (told.code, "does not show that lines were removed at its end" in told.out) == (0, True)


@pytest.mark.parametrize("kept", ["garbage", "", "0" * 63, "0" * 65, "A" * 64, "sha256:" + "0" * 64, "é" * 64])
def test_an_invalid_digest_is_a_usage_error(shell, log, kept):
    """It says nothing about a log; one line says what a digest is."""
    answer = shell("verify", "crab_user_1", "--head", kept)
    assert (answer.code, answer.out) == (2, "")
    assert "64 hex digits" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_digest_of_another_session_is_told_from_a_cut_log(shell, log):
    """Law 9: a digest that never belonged to this log is recognised."""
    shell("new", "--agent", "other")
    shell("append", "other_user_1", "hi")
    lines = (shell.store / "other_user_1.jsonl").read_text().splitlines()
    for kept in (json.loads(line)["h"] for line in lines):
        answer = shell("verify", "crab_user_1", "--head", kept)
        assert (answer.code, answer.out) == (2, "")
        assert "this digest belongs to other_user_1, not to crab_user_1" in answer.err


def test_a_longer_copy_of_the_same_log_shows_that_it_was_cut(shell, log):
    """Law 9: another log that continues from this one's head to the digest proves the cut."""
    head = head_of(shell, "crab_user_1")
    (shell.store / "backup_user_1.jsonl").write_bytes(log.read_bytes())
    rewrite(log, lambda lines: lines[:-1])
    answer = shell("verify", str(log), "--head", head)
    assert answer.code == 4
    assert "this log was cut: backup_user_1 is the same log" in answer.out


def test_an_intact_session(shell, log):
    answer = shell("doctor", "crab_user_1")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "crab_user_1: healthy, 5 entries read")
    assert "wakelog verify crab_user_1 --head DIGEST" in answer.out


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def output(shell, story):
    """A session whose entry 3 is the result of a tool with its output in a blob; return the blob's file."""
    story.user("go")
    reply = story.reply("yes", calls=[("t1", "grep", {})])
    ref = story.store.blobs.put(b"all of the output")
    result = ToolResult(tool_call_id="t1", tool_name="gr\x1bep", reply_id=reply.id, content="all", blob=ref)
    story.session.append(Message(message=result))
    name = ref.digest.removeprefix("sha256:")
    return shell.store / ".blobs" / name[:2] / name


LOSSES = {
    "removed": (lambda path: path.unlink(), "missing blob"),
    "changed": (lambda path: path.write_bytes(b"ALL of the output"), "damaged blob"),
    "cut": (lambda path: path.write_bytes(b"all of"), "damaged blob"),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_blob_is_found_and_explained(shell, output, how):
    """LOG-16, law 9: `verify` exits with 4; `doctor` says which entry, by number and type, loses what."""
    sound = shell("verify", "crab_user_1", "--json")
    assert (sound.code, sound.json["blobs"], sound.json["lost"]) == (0, 1, [])
    assert "ok, 4 entries, 1 blob" in shell("verify", "crab_user_1").out
    lose, kind = LOSSES[how]
    lose(output)
    answer = shell("verify", "crab_user_1", "--json")
    assert (answer.code, answer.json["ok"], answer.json["damage"]) == (4, False, [])
    (lost,) = answer.json["lost"]
    assert (lost["kind"], lost["digest"], lost["bytes"]) == (kind, f"sha256:{output.name}", 17)
    (entry,) = lost["entries"]
    assert (entry["seq"], entry["type"], entry["line"]) == (3, "message", 4)
    told = shell("doctor", "crab_user_1", "--json")
    (finding,) = told.json["findings"]
    assert (told.code, finding["kind"], finding["line"], finding["entries"]) == (4, kind, 4, lost["entries"])
    assert "Entry 3 (message) loses the full output of the tool" in finding["meaning"]
    assert finding["advice"]
    drawn = " ".join(shell("doctor", "crab_user_1").out.split())
    assert "Entry 3 (message) loses the full output of the tool gr␛ep" in drawn
    assert f"sha256:{output.name}" in shell("verify", "crab_user_1").out


def test_a_lost_blob_of_inherited_history_is_found(shell, output):
    """LOG-16: a fork inherits the entries of its parent, and with them their blobs."""
    assert shell("fork", "crab_user_1", "--new-session").code == 0
    assert shell("verify", "crab_user_2", "--json").json["blobs"] == 1
    output.unlink()
    for command in ("verify", "doctor"):
        assert shell(command, "crab_user_2").code == 4, command
    (lost,) = shell("verify", "crab_user_2", "--json").json["lost"]
    assert (lost["kind"], lost["digest"]) == ("missing blob", f"sha256:{output.name}")


def test_a_damaged_line_and_a_lost_blob_are_both_reported(shell, output):
    """Law 9: one fault does not hide another."""
    output.unlink()
    log = shell.store / "crab_user_1.jsonl"
    log.write_bytes(log.read_bytes() + b"rubbish\n")
    found = shell("verify", "crab_user_1", "--json").json
    assert [len(found[what]) for what in ("damage", "lost")] == [1, 1]


def test_doctor_of_the_store_finds_lost_blobs(shell, output):
    """LOG-16: `doctor` without a session finds a session that refers to a missing blob."""
    assert (shell("doctor").code, shell("doctor", "--json").json["lost"]) == (0, [])
    output.write_bytes(b"cut")
    answer = shell("doctor", "--json")
    assert (answer.code, answer.json["lost"]) == (4, [{"name": "crab_user_1", "blobs": 1}])
    drawn = shell("doctor")
    assert (drawn.code, "crab_user_1: 1 blob missing" in drawn.out) == (4, True)


# ── the store ────────────────────────────────────────────────────────────────────────────────────


def test_doctor_checks_the_store(shell, log):
    assert shell("doctor").code == 0
    assert "no problems found" in shell("doctor").out
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
    lists: dict[str, list[object]] = {"damaged": [], "lost": [], "inaccessible": []}
    whole = {"store", "sessions", "bytes", "index", "indexBytes", "problems", "relinked", "redacted", "tools", *lists}
    whole |= {"verified", "unverified", "unverifiedBytes", "unreadBlobs"}
    assert set(report) == whole
    assert (report["sessions"], {name: report[name] for name in lists}) == (1, lists)


def test_doctor_makes_missing_links(shell, log):
    """ST-2: missing links are made from the logs and reported; a second run has nothing to do."""
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


def test_doctor_reports_links_it_cannot_make(shell, log):
    """ST-2: the rest of the report is printed all the same."""
    shutil.rmtree(shell.store / "by-id")
    (shell.store / "by-id").write_text("x")
    report = shell("doctor", "--json")
    assert report.code == 0
    assert (report.json["relinked"], report.json["sessions"]) == ([], 1)
    assert any("by-id is not a folder" in problem for problem in report.json["problems"])


def test_doctor_names_damaged_sessions(shell, log):
    """Law 9: a store with a damaged session is not intact, and the exit code says so."""
    log.write_bytes(log.read_bytes() + b"rubbish\n")
    answer = shell("doctor", "--json")
    assert (answer.code, answer.json["damaged"]) == (4, ["crab_user_1"])
    drawn = shell("doctor")
    assert drawn.code == 4
    assert "wakelog doctor crab_user_1" in drawn.out


def test_doctor_creates_no_store(shell):
    assert shell("doctor").code == 0
    assert not shell.store.exists()


def test_a_store_that_is_not_a_folder(shell):
    shell.store.write_text("x")
    assert shell("doctor", "--json").json["problems"] == [f"{shell.store} is not a folder"]
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
    assert "in total" in shell("du").out


def test_doctor_counts_redacted_secrets_by_kind(shell, story):
    """LOG-20: of a session, and of all sessions of the store."""
    story.user("ADMIN_TOKEN=q7Zk2Vw9Xr4Tb8Lm3Np6")
    for words in (("doctor", "crab_user_1"), ("doctor",)):
        assert shell(*words, "--json").json["redacted"] == {"assignment": 1}
        assert "1 secret redacted: 1 assignment\n" in shell(*words).out
