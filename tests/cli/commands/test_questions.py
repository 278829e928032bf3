"""`questions`, `rerun`: questions for a person are listed, shown in full, and decided by an entry (RUN-13, RUN-18)."""

import json
import os
import subprocess

import pytest

SHELL = {"name": "shell", "input": {"command": "echo ran >> ledger; echo out"}}


@pytest.fixture
def asking(shell, script):
    """A session that waits for approval of a command that counts its runs."""
    model = script({"text": "May I?", "toolCalls": [SHELL]}, {"text": "So be it."}, {"text": "Again."})
    assert shell.process("run", "-q", "--model", model, "hi", typed=b"").code == 6
    return shell


@pytest.fixture
def doubtful(shell, script):
    """A session whose process was killed while a tool ran, with a policy that then asks a person."""
    os.mkfifo(shell.folder / "begun")
    slow = {"name": "shell", "input": {"command": "echo ran >> ledger; echo it has > begun; sleep 600"}}
    model = script({"toolCalls": [slow]}, {"text": "So be it."})
    child = shell.start("run", "--yes", "--unknown", "ask", "--model", model, "hi", stdin=subprocess.DEVNULL)
    (shell.folder / "begun").read_text()
    child.kill()
    child.wait()
    child.stdout.close()
    child.stderr.close()
    assert shell.process("wake", "agent_user_1").code == 6
    return shell


def runs(shell):
    ledger = shell.folder / "ledger"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def results(shell):
    rows = shell("show", "agent_user_1", "--json").rows
    said = [row["message"] for row in rows if row["type"] == "message"]
    return [(said["status"], said["content"][0]["text"]) for said in said if said["role"] == "toolResult"]


def test_questions_are_listed(asking):
    """RUN-13: over all sessions a line each; one session in full; exit code 6 while a question is open."""
    listed = asking.process("questions")
    assert listed.code == 6
    assert listed.out.startswith("agent_user_1:7  ")
    assert listed.out.endswith("shell  requests approval  echo ran >> ledger; echo out\n")
    shown = asking.process("questions", "agent_user_1")
    assert (shown.code, "command: echo ran >> ledger; echo out" in shown.out) == (6, True)
    assert "--approve --deny" in shown.out
    row = asking("questions", "--json").json
    assert (row["name"], row["seq"], row["reason"], row["tool"]) == ("agent_user_1", 7, "approve", "shell")
    assert (row["input"], row["choices"]) == (SHELL["input"], ["approve", "deny"])
    assert asking("ls", "--json").json["state"] == "waiting"


def test_without_questions(shell, story):
    answer = shell("questions")
    assert (answer.code, answer.out) == (0, "")
    assert shell("questions", "crab_user_1", "--approve").code == 3


def test_approved(asking):
    decided = asking("questions", "agent_user_1", "--approve", "--json")
    assert (decided.code, decided.json["decision"]) == (0, "approve")
    assert "`wakelog wake agent_user_1` continues the session" in decided.err
    assert runs(asking) == 0
    assert asking.process("wake", "agent_user_1").out == "So be it.\n"
    assert (runs(asking), results(asking)) == (1, [("ok", "out\n")])
    assert asking("questions").code == 0


def test_denied_and_woken_at_once(asking):
    """The question may be named by its own number or by that of its reply."""
    answer = asking.process("questions", "agent_user_1:5", "--deny", "--wake", typed=b"")
    assert (answer.code, answer.out) == (0, "So be it.\n")
    assert (runs(asking), results(asking)[0][0]) == (0, "denied")
    assert asking("questions", "agent_user_1:7", "--deny").code == 3


@pytest.mark.parametrize(
    "words",
    [("--ran",), ("--approve", "--result", "x"), ("--result", "x"), ("--wake",)],
)
def test_an_answer_that_does_not_fit_is_refused(asking, words):
    """Exit code 2, and nothing is written."""
    log = asking.store / "agent_user_1.jsonl"
    before = log.read_bytes()
    answer = asking("questions", "agent_user_1", *words)
    assert (answer.code, log.read_bytes() == before) == (2, True)
    assert asking("questions", "--approve").code == 2


@pytest.mark.parametrize(
    ("words", "status", "text", "count"),
    [
        (("--ran",), "ok", "A person has checked: this tool ran.", 1),
        (("--did-not-run",), "skipped", "A person has checked: this tool did not run", 1),
        (("--result", "3 files"), "ok", "3 files", 1),
    ],
)
def test_an_unknown_outcome_is_decided_by_a_person(doubtful, words, status, text, count):
    """RUN-6: the decision becomes the one result; a tool that may not be repeated ran once."""
    row = doubtful("questions", "--json").json
    assert (row["reason"], row["choices"]) == ("unknown", ["ran", "did not run", "run again", "result"])
    answer = doubtful.process("questions", "agent_user_1", *words, "--wake", typed=b"")
    assert (answer.code, answer.out) == (0, "So be it.\n")
    [(said, result)] = results(doubtful)
    assert (said, result[: len(text)]) == (status, text)
    assert runs(doubtful) == count


@pytest.fixture
def uncertain(shell, script):
    """A session whose process was killed while a tool ran, and that was woken; the model has answered."""
    os.mkfifo(shell.folder / "begun")
    slow = {"name": "shell", "input": {"command": "echo ran >> ledger; echo it has > begun; sleep 600"}}
    model = script({"toolCalls": [slow]}, {"text": "Perhaps."}, {"text": "I see."})
    child = shell.start("run", "--yes", "--model", model, "hi", stdin=subprocess.DEVNULL)
    (shell.folder / "begun").read_text()
    child.kill()
    child.wait()
    child.stdout.close()
    child.stderr.close()
    return shell


def test_an_unknown_outcome_is_shown_until_it_is_answered(uncertain):
    """RUN-26: the session is idle; the run, `ls`, `show` and `questions` mark it, in text and JSON."""
    woken = uncertain.process("wake", "agent_user_1")
    assert (woken.code, woken.out) == (0, "Perhaps.\n")
    assert "1 tool call may have run: shell(echo ran >> ledger" in woken.err
    assert "`wakelog questions agent_user_1` with `--ran`, `--did-not-run` or `--dismiss` answers" in woken.err
    assert "idle, 1 unknown outcome" in uncertain.process("ls").out
    row = uncertain("ls", "--json").json
    assert (row["state"], row["unknown_outcomes"]) == ("idle", 1)
    assert "idle · 1 unknown outcome" in uncertain.process("show", "agent_user_1").out
    listed = uncertain.process("questions")
    assert (listed.code, "may have run; the model was told so" in listed.out) == (6, True)
    asked = uncertain("questions", "agent_user_1", "--json").json
    assert (asked["reason"], asked["tool"]) == ("outcome", "shell")
    assert asked["choices"] == ["ran", "did not run", "result", "dismiss"]
    assert uncertain("questions", "agent_user_1", "--approve").code == 2
    end = uncertain("wake", "agent_user_1", "--json").rows[-1]
    assert (end["state"], end["unknown_outcomes"]) == ("idle", 1)


def test_an_unknown_outcome_is_answered(uncertain):
    """RUN-26: the mark is gone, and the model is told with the next prompt."""
    uncertain.process("wake", "agent_user_1")
    seq = uncertain("questions", "--json").json["seq"]
    answer = uncertain("questions", f"agent_user_1:{seq}", "--ran", "--json")
    assert (answer.code, answer.json["decision"]) == (0, "ran")
    assert "continues the session" not in answer.err
    assert (uncertain("questions").code, uncertain("ls", "--json").json["unknown_outcomes"]) == (0, 0)
    assert uncertain.process("run", "-s", "agent_user_1", "and?").out == "I see.\n"
    said = [row for row in uncertain("show", "agent_user_1", "--json").rows if row["type"] == "custom"]
    assert ["it ran" in row["content"][0]["text"] for row in said] == [True]
    assert runs(uncertain) == 1


def test_an_unknown_outcome_is_dismissed(uncertain):
    uncertain.process("wake", "agent_user_1")
    assert uncertain("questions", "agent_user_1", "--dismiss").code == 0
    assert (uncertain("questions").code, uncertain("questions", "agent_user_1", "--dismiss").code) == (0, 3)
    assert "unknown outcome" not in uncertain.process("ls").out


def test_several_questions(shell, script):
    """With several questions one must be named; each has its own decision."""
    model = script({"toolCalls": [SHELL, SHELL]}, {"text": "both"})
    shell.process("run", "-q", "--model", model, "hi", typed=b"")
    answer = shell("questions", "agent_user_1", "--approve")
    assert (answer.code, "agent_user_1:7, agent_user_1:8" in answer.err) == (2, True)
    first = shell("questions", "agent_user_1:7", "--approve")
    assert (first.code, "1 more question" in first.err) == (0, True)
    answer = shell.process("questions", "agent_user_1:8", "--deny", "--wake", typed=b"")
    assert answer.out == "both\n"
    assert sorted(status for status, _ in results(shell)) == ["denied", "ok"]
    assert runs(shell) == 1


def test_a_question_of_a_sub_agent(shell):
    """TREE-6: it is listed as the sub-agent's, and waking continues with the parent."""
    answer = shell.process("run", "-q", "ask a sub-agent to run `touch ran`", typed=b"")
    assert answer.code == 6
    answer = shell.process("questions", "agent_user_1", "--approve", "--wake", typed=b"")
    assert (answer.code, "agent_user_2 waits for a decision" in answer.err) == (6, True)
    assert [row["name"] for row in shell("questions", "--json").rows] == ["agent_user_2"]
    answer = shell("questions", "agent_user_2", "--approve")
    assert "`wakelog wake agent_user_1` continues the session" in answer.err
    assert shell.process("wake", "agent_user_1").code == 0
    assert (shell.folder / "ran").exists()


def test_rerun(asking):
    """RUN-18: a fork before the result, a new call, approval asked; the old result stays on its branch."""
    asking.process("questions", "agent_user_1", "--approve", "--wake", typed=b"")
    result = next(
        row["seq"] for row in asking("show", "agent_user_1", "--json").rows if "toolResult" in json.dumps(row)
    )
    answer = asking("rerun", f"agent_user_1:{result}", "--json")
    assert (answer.code, answer.json["type"], answer.json["reason"]) == (0, "attention", "approve")
    assert "moves the head back to the previous branch" in answer.err
    assert runs(asking) == 1
    answer = asking.process("questions", "agent_user_1", "--approve", "--wake", typed=b"")
    assert answer.code == 0
    assert runs(asking) == 2
    assert [status for status, _ in results(asking)] == ["ok", "ok"]


def test_rerun_at_once(asking):
    asking.process("questions", "agent_user_1", "--approve", "--wake", typed=b"")
    assert asking.process("rerun", "agent_user_1:5", "--yes", "--wake", typed=b"").code == 0
    assert runs(asking) == 2
    assert asking("rerun", "agent_user_1").code == 2
    assert asking("rerun", "agent_user_1:2").code == 2


def test_two_decisions_at_once_are_refused(shell, script):
    """RUN-13: nothing is decided."""
    model = script({"toolCalls": [{"name": "shell", "input": {"command": "echo hi"}}]})
    assert shell("run", "Go.", "--model", model, "--tools", "shell").code == 6
    for flags in (("--approve", "--deny"), ("--deny", "--result", "done")):
        answer = shell("questions", "@latest", *flags)
        assert answer.code == 2
        assert "2 decisions" in answer.err
    assert shell("questions", "@latest").code == 6
