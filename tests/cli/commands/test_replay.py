"""`replay` on the command line (RUN-14, law 11)."""

import json


def _a_turn(shell):
    answer = shell("run", "write hello to note.txt then read note.txt", "--yes", "--quiet")
    assert answer.code == 0
    return answer.out


def test_displayed_text_is_shown_again(shell):
    said = _a_turn(shell)
    answer = shell("replay", "@latest")
    assert (answer.code, answer.out) == (0, said)


def test_displayed_text_as_json(shell):
    said = _a_turn(shell)
    lines = [json.loads(line) for line in shell("replay", "@latest", "--json").out.splitlines()]
    assert {line["channel"] for line in lines} == {"terminal"}
    assert "".join(line["text"] + "\n" for line in lines) == said


def test_it_verifies(shell):
    _a_turn(shell)
    answer = shell("replay", "@latest", "--verify")
    assert answer.code == 0
    assert "reproduced exactly" in answer.out
    assert "no model was called, no tool was run" in answer.out
    verdict = json.loads(shell("replay", "@latest", "--verify", "--json").out)
    assert verdict["ok"]
    assert (verdict["reason"], verdict["workers"]) == (None, 1)


def test_an_edited_entry_is_found(shell):
    """A result that was changed by hand: replay says where the two logs differ, and nothing is written."""
    _a_turn(shell)
    (path,) = shell.store.glob("*.jsonl")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"durationMs":', b'"durationMs": ', 1))
    answer = shell("replay", "@latest", "--verify")
    assert answer.code == 4
    assert "differs" in answer.out
    assert "in the log:" in answer.out
    verdict = json.loads(shell("replay", "@latest", "--verify", "--json").out)
    assert not verdict["ok"]
    assert verdict["line"] > 1


def test_a_session_that_was_never_run(shell):
    shell("new", "--agent", "crab")
    shell("append", "@latest", "Hello")
    answer = shell("replay", "@latest")
    assert (answer.code, answer.out) == (0, "")
    assert "no text was sent to a channel" in answer.err


def test_a_damaged_log_is_replayed_and_reported(shell):
    """LOG-9: the answer is printed, the damage is named, and the exit code says so."""
    said = _a_turn(shell)
    (path,) = shell.store.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + b"{ not an entry\n")
    answer = shell("replay", "@latest")
    assert (answer.code, answer.out) == (4, said)
    assert "damaged" in answer.err


def test_a_verdict_over_nothing_is_not_ok(shell):
    """RUN-14: a log in which the runtime wrote nothing is not reported as reproduced."""
    shell("new", "--agent", "crab")
    shell("append", "@latest", "Hello")
    answer = shell("replay", "@latest", "--verify")
    assert answer.code == 1
    assert "nothing was compared" in answer.out
    assert not json.loads(shell("replay", "@latest", "--verify", "--json").out)["ok"]


def _edit(shell):
    (path,) = shell.store.glob("*.jsonl")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"Hello", b"Jello"))
    assert path.read_bytes() != raw


def test_an_edited_session_that_was_never_run_is_not_ok(shell):
    """Law 9, RUN-14: seals are verified, so that an edited line is found although replay writes no entry."""
    shell("new", "--agent", "crab")
    shell("append", "@latest", "Hello")
    _edit(shell)
    answer = shell("replay", "@latest", "--verify")
    assert answer.code == 4
    assert "its seal does not match" in answer.out


def test_an_unrun_fork_of_an_edited_session_is_not_ok(shell):
    """Law 9, RUN-14: the seals of inherited history are verified too."""
    shell("new", "--agent", "crab")
    shell("append", "@latest", "Hello")
    shell("append", "@latest", "Again")
    (parent,) = shell.store.glob("*.jsonl")
    assert shell("fork", parent.stem, "--new-session").code == 0
    parent.write_bytes(parent.read_bytes().replace(b"Hello", b"Jello"))
    (fork,) = set(shell.store.glob("*.jsonl")) - {parent}
    assert shell("replay", fork.stem, "--verify").code == 4
    assert not json.loads(shell("replay", fork.stem, "--verify", "--json").out)["ok"]
