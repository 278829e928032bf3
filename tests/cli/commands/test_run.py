"""`run`: one prompt, one turn, as a real process with scripted models and the demo model (RUN-3, RUN-19)."""

import json
import re
import shlex
import subprocess
from typing import Any

import pytest

from tests.cli.payloads import PAYLOADS
from wakelog.cli.ui.safe_text import hostile_characters
from wakelog.log.seal import SealChain, unseal
from wakelog.session import Session


def call(name, **given):
    return {"name": name, "input": given}


def entries(shell, name="agent_user_1"):
    return [json.loads(line) for line in (shell.store / f"{name}.jsonl").read_bytes().splitlines()]


def types(shell, name="agent_user_1"):
    return [entry["type"] for entry in entries(shell, name)]


def test_text_on_stdout_and_everything_else_on_stderr(shell):
    """The text of the agent is data; tools and the session's name are not. `--quiet` leaves them out."""
    (shell.folder / "a.txt").write_text("hello\n")
    answer = shell.process("run", "read a.txt", typed=b"")
    assert answer.code == 0
    assert answer.out == "I will read a.txt.\nDone: read a.txt\n    hello\n"
    tool, last = answer.err.splitlines()
    assert tool.startswith("· read  a.txt  ok ")
    assert last == "session agent_user_1"
    assert shell.process("run", "-q", "read a.txt", typed=b"").err == ""


def test_a_prompt_from_a_pipe(shell, script):
    """Piped input is appended to the prompt; with a dash, or without a prompt, it is the prompt."""
    model = script({"text": "ok"})
    for words, said in ((("Review",), "Review\n\ndiff"), (("-",), "diff"), ((), "diff")):
        name = json.loads(
            shell.process("run", "--model", model, "--json", *words, typed=b"diff\n").raw.splitlines()[-1]
        )
        prompt = next(entry for entry in entries(shell, name["name"]) if entry["type"] == "message")
        assert prompt["message"]["content"][0]["text"] == said
    assert shell.process("run", typed=b"").code == 2
    assert shell.process("run", "a", "b", typed=b"").code == 2


def test_events(shell, script):
    """`--json`: deltas with offsets, entries as stored, and the result; nothing else on stdout."""
    model = script({"text": "one two three", "deltaChars": 4})
    answer = shell.process("run", "--model", model, "--json", "hi", typed=b"")
    assert answer.err == ""
    *events, end = answer.rows
    told = [event for event in events if event["event"] == "delta"]
    assert "".join(event["text"] for event in told) == "one two three"
    assert [event["offset"] for event in told] == [0, 4, 8, 12]
    assert [event["entry"] for event in events if event["event"] == "entry"] == entries(shell)
    raw = (shell.store / "agent_user_1.jsonl").read_bytes().splitlines()
    assert all(line in answer.raw for line in raw)
    kinds = [event["entry"]["type"] if event["event"] == "entry" else "delta" for event in events]
    assert kinds.index("call") < kinds.index("delta") < kinds.index("sent")
    assert end == {
        "event": "end",
        "session": entries(shell)[0]["id"],
        "name": "agent_user_1",
        "state": "idle",
        "unknown_outcomes": 0,
        "rows": ["answer", "owed", "rest"],
    }


def test_an_entry_comes_before_the_deltas_that_follow_it(shell, script):
    """A reader of the events knows the call of each delta, and the results of the tools before it."""
    looks = {"text": "I look.", "toolCalls": [call("list", path=".")]}
    rows = shell.process(
        "run", "--model", script(looks, looks, looks, {"text": "Done."}), "--json", "hi", typed=b""
    ).rows
    seen: list[dict[str, Any]] = []
    for row in rows[:-1]:
        if row["event"] == "delta":
            made = next(entry for entry in seen if entry["type"] == "call" and entry["replyId"] == row["reply"])
            assert made["parentId"] in [entry["id"] for entry in seen]
        else:
            seen.append(row["entry"])
    assert [entry["seq"] for entry in seen] == list(range(len(seen)))
    said = [row["text"] for row in rows if row["event"] == "delta"]
    assert "".join(said) == 3 * "I look." + "Done."


def test_settings_in_force_stay(shell, script):
    """Law 2: options change an existing session; without options nothing is written."""
    model = script({"text": "a"}, {"text": "b"}, {"text": "c"}, {"text": "d"})
    shell.process("run", "--model", model, "--tools", "read,shell", "--system", "Be brief.", "1", typed=b"")
    before = types(shell)
    shell.process("run", "-s", "agent_user_1", "2", typed=b"", env={"WAKELOG_MODEL": "demo"})
    assert types(shell)[len(before) :] == ["message", "activity", "call", "message", "sent", "activity"]
    shell.process("run", "-s", "agent_user_1", "--yes", "3", typed=b"")
    first, second = (entry for entry in entries(shell) if entry["type"] == "context")
    assert (second["tools"], second["system"]) == (first["tools"], first["system"])
    assert (first["policy"]["approval"], second["policy"]["approval"]) == ("ask", "auto")
    assert first["policy"]["approvals"] == {"read": "auto", "list": "auto", "grep": "auto"}
    assert second["policy"]["approvals"] == {}
    shell.process("run", "-s", "agent_user_1", "--yes", "4", typed=b"")
    assert types(shell).count("context") == 2
    other = script({"text": "x"}, {"text": "y"}, {"text": "z"}, {"text": "w"}, {"text": "other"}, name="other.jsonl")
    assert shell.process("run", "-s", "agent_user_1", "--model", other, "5", typed=b"").out == "other\n"
    assert types(shell).count("model_change") == 1


def test_the_settings_are_in_the_log(shell, script):
    words = ("--compact-at", "9000", "--strategy", "window:8", "--unknown", "ask", "--tools", "none")
    shell.process("run", "--model", script({"text": "ok"}), *words, "hi", typed=b"")
    context = next(entry for entry in entries(shell) if entry["type"] == "context")
    policy = context["policy"]
    assert (policy["compactAt"], policy["strategy"], policy["unknown"], policy["cut"]) == (
        9000,
        "window:8",
        "ask",
        "replace",
    )
    assert "tools" not in context


def test_reasoning_that_is_not_stored(shell, script, monkeypatch):
    """LOG-18: an option of the command line, in force for the session; refused where the provider needs it back."""
    thought = {"text": "ok", "thinking": "hm"}
    model = script(thought, thought)
    shell.process("run", "--model", model, "--reasoning", "drop", "hi", typed=b"")
    shell.process("run", "-s", "agent_user_1", "hi", typed=b"")
    assert not any("thinking" in json.dumps(entry.get("message")) for entry in entries(shell))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    words = ("run", "-s", "agent_user_1", "--model", "anthropic:claude-x", "hi")
    before = len(entries(shell))
    refused = shell(*words)
    assert (refused.code, "does not work with anthropic, which needs signed reasoning back" in refused.err) == (2, True)
    assert len(entries(shell)) == before


def test_a_session_without_settings(shell):
    """`new` sets no model and no tools: the first run writes them."""
    shell("new", "--cwd", str(shell.folder))
    answer = shell.process("run", "-s", "@latest", "list .", typed=b"")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "I will list ..")


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "nosuch:model"),
        ("--model", "scripted:/no/such/file"),
        ("--tools", "read,fly"),
        ("--system", "@/no/such/file"),
        ("--strategy", "some"),
        ("--cwd", "/no/such/folder"),
    ],
)
def test_a_usage_error_writes_nothing(shell, words):
    """An invalid option is found before a session is created."""
    answer = shell.process("run", *words, "hi", typed=b"")
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1)
    assert not list(shell.store.glob("*.jsonl"))


def test_resume_needs_a_model_that_can(shell, script):
    """RUN-8: `resume` is accepted only where the provider declares it."""
    assert shell.process("run", "--resume", "--model", script({"text": "x"}), "hi", typed=b"").code == 2
    able = script({"options": {"canResume": True}}, {"text": "x"})
    assert shell.process("run", "--resume", "--model", able, "hi", typed=b"").out == "x\n"
    assert next(entry for entry in entries(shell) if entry["type"] == "context")["policy"]["cut"] == "resume"


def test_options_for_new_sessions_only(shell, story):
    for option in ("--agent", "--sender", "--cwd"):
        assert shell.process("run", "-s", "crab_user_1", option, "x", "hi", typed=b"").code == 2
    assert [entry.type for entry in story.session.read().entries] == ["session"]


def test_instructions_from_a_file(shell, script):
    (shell.folder / "rules.md").write_text("Be kind.\n")
    shell.process("run", "--model", script({"text": "ok"}), "--system", "@rules.md", "hi", typed=b"")
    assert shell("context", "agent_user_1", "--exact", "--json").json["system"] == "Be kind.\n"


def test_a_script_is_found_from_any_folder(shell, script, tmp_path_factory):
    """RUN-19: the path in the log is absolute, so the next process may be in another folder."""
    script({"text": "one"}, {"text": "two"})
    assert shell.process("run", "--model", "scripted:script.jsonl", "1", typed=b"").out == "one\n"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert shell.process("run", "-s", "agent_user_1", "2", typed=b"", cwd=elsewhere).out == "two\n"


def test_a_turn_that_fails(shell, script):
    """RUN-12: exit code 1, and one line that says why."""
    model = script({"text": "I be", "error": {"kind": "auth", "message": "no such key\x1b[2J"}})
    answer = shell.process("run", "-q", "--model", model, "hi", typed=b"")
    assert answer.code == 1
    retry = "`wakelog wake agent_user_1 --retry` tries again"
    assert answer.err == f"wakelog: agent_user_1: the turn failed: no such key␛[2J ({retry})\n"
    assert "state" in (end := shell.process("run", "--model", model, "--json", "hi", typed=b"").rows[-1])
    assert end["state"] == "failed"


def test_a_model_that_never_answers(shell, script):
    """RUN-12: each failure and each retry have a line; after the last failure no retry is announced."""
    fault = {"kind": "busy", "message": "later", "retryable": True, "delayMs": 1}
    answer = shell.process("run", "--model", script(*[{"error": fault}] * 5), "hi", typed=b"")
    *lines, end, _ = answer.err.splitlines()
    failed = "· the model call failed: later; next attempt in 1 ms at the earliest"
    again = [f"· retrying (attempt {number})" for number in range(2, 6)]
    assert lines == [failed, *(line for words in again for line in (words, failed))]
    assert "the turn failed: 5 calls in a row came to nothing; the last: later (" in end


def resealed(raw):
    """Return a log with new seals, as if its changed lines had been written like that."""
    chain = SealChain()
    bodies = (unseal(line) for line in raw.splitlines())
    return b"".join(chain.seal(body, seq) + b"\n" for seq, body in enumerate(bodies))


def test_another_process_continues_the_count(shell, script):
    """RUN-15: failed attempts and their number are in the log."""
    fault = {"kind": "busy", "message": "later", "retryable": True}
    model = script({"error": {**fault, "delayMs": 3_600_000}}, {"text": "Now."})
    with shell.start("run", "--model", model, "hi", stdin=subprocess.DEVNULL) as child:
        child.stderr.readline()
        child.kill()
    log = shell.store / "agent_user_1.jsonl"
    log.write_bytes(resealed(log.read_bytes().replace(b"3600000", b"1")))
    answer = shell.process("wake", "agent_user_1")
    assert (answer.out, answer.err.splitlines()[0]) == ("Now.\n", "· retrying (attempt 2)")


def test_a_tool_that_needs_approval(shell, script):
    """Without a terminal: exit code 6, nothing was run, and the line says what to do."""
    model = script({"toolCalls": [call("shell", command="touch ran")]}, {"text": "done"})
    answer = shell.process("run", "-q", "--model", model, "hi", typed=b"")
    assert answer.code == 6
    assert not (shell.folder / "ran").exists()
    assert answer.err.count("\n") == 1
    assert "shell(touch ran) requests approval" in answer.err
    assert "`wakelog questions agent_user_1`" in answer.err
    assert shell.process("run", "--model", model, "--yes", "hi", typed=b"").out == "done\n"
    assert (shell.folder / "ran").exists()


@pytest.mark.meddled
def test_a_session_that_is_running(shell, store, story):
    """RUN-11: the prompt is queued; the settings cannot be changed meanwhile (exit code 5)."""
    lease = story.session.acquire("a worker", ttl_s=60)
    answer = shell.process("run", "-s", "crab_user_1", "--model", "demo", "hi", typed=b"")
    assert (answer.code, "being run" in answer.err) == (5, True)
    story.session.release(lease)
    shell.process("run", "-s", "crab_user_1", "list .", typed=b"")
    lease = story.session.acquire("a worker", ttl_s=60)
    answer = shell.process("run", "-s", "crab_user_1", "--steer", "and now?", typed=b"")
    assert (answer.code, answer.out, "waits in its queue" in answer.err) == (0, "", True)
    answer = shell.process("run", "-s", "crab_user_1", "--json", "later", typed=b"")
    assert [row["event"] for row in answer.rows] == ["entry", "end"]
    assert (answer.rows[0]["entry"]["type"], answer.rows[1]["state"]) == ("queued", "queued")
    queued = [entry for entry in entries(shell, "crab_user_1") if entry["type"] == "queued"]
    assert [entry.get("mode", "followUp") for entry in queued] == ["steer", "followUp"]
    story.session.release(lease)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_leaves(shell, script, more):
    """RUN-23: a closed pipe ends the process quietly after the reply, which is then sent without a second call."""
    model = script({"text": "word " * 4_000, "deltaChars": 5})
    child = subprocess.Popen(
        shell.command("run", "--model", model, "hi", *more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdout.read(10)
    child.stdout.close()
    assert b"Traceback" not in child.stderr.read()
    child.stderr.close()
    assert child.wait() == 141
    assert shell("ls", "--json").json["state"] == "undelivered"
    assert shell.process("wake", "agent_user_1").out.rstrip("\n") == "word " * 4_000
    kinds = [entry["type"] for entry in shell("show", "agent_user_1", "--json").rows]
    assert [kinds.count(kind) for kind in ("call", "send_failed", "sent")] == [1, 1, 1]


def test_text_that_cannot_be_written(shell, script):
    """RUN-23: a full device behind stdout: one line and exit code 1; the reply is kept, and `wake --all` writes it."""
    model = script({"text": "Hello."})
    with open("/dev/full", "wb") as full:
        command = shell.command("run", "-q", "--model", model, "hi")
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "wakelog: agent_user_1: 1 reply not delivered: [Errno 28] No space left on device "
        "(`wakelog wake agent_user_1` tries again)\n"
    )
    assert "undelivered" in shell("ls").out
    assert "undelivered" in shell("show", "agent_user_1").out
    assert "send_failed  to terminal, attempt 1: [Errno 28]" in shell("tree", "agent_user_1", "--annotations").out
    assert shell.process("wake", "--all").out == "agent_user_1 | Hello.\nagent_user_1  idle\n"
    assert shell.process("replay", "agent_user_1").code == 0


def test_hostile_text_is_escaped(shell, script):
    """Law 13: text, names of tools, inputs and results, on stdout and stderr; in deltas they are escaped."""
    model = script(
        {"text": "\n".join(PAYLOADS), "toolCalls": [call(text, command=text) for text in PAYLOADS]},
        {"text": "read", "toolCalls": [call("read", path=text) for text in PAYLOADS]},
        {"error": {"kind": "x", "message": "".join(PAYLOADS)}},
    )
    answer = shell.process("run", "--yes", "--model", model, "hi", typed=b"")
    assert answer.code == 1
    for shown in (answer.out, answer.err):
        assert len(shown) > 1_000
        assert not hostile_characters().search(shown.replace("\n", ""))
    events = shell.process("run", "--yes", "--model", model, "--json", "hi", typed=b"")
    deltas = [line for line in events.raw.splitlines() if line.startswith(b'{"event":"delta"')]
    assert deltas
    assert not any(hostile_characters().search(line.decode()) for line in deltas)
    questions = script({"toolCalls": [call("shell", command=text) for text in PAYLOADS]}, name="questions.jsonl")
    asking = shell.process("run", "--model", questions, "hi", typed=b"")
    listed = shell.process("questions"), shell.process("questions", "agent_user_3"), asking
    assert [answer.code for answer in listed] == [6, 6, 6]
    assert not any(hostile_characters().search((answer.out + answer.err).replace("\n", "")) for answer in listed)
    assert all(line.isascii() for line in shell.process("questions", "--json").raw.splitlines())


def test_a_finished_sub_agent_can_be_continued(shell):
    """TREE-6: a sub-agent's run is a session like any other: read, found from its parent, and continued."""
    assert shell("run", "ask an agent to list .", "--yes", "--quiet").code == 0
    parent, child = "agent_user_1", "agent_user_2"
    assert child in shell("tree", parent, "--runs").out
    before = shell("show", parent, "--json").out
    answer = shell("run", "-s", child, "list .", "--quiet")
    assert answer.code == 0
    assert "Done: list" in answer.out
    assert shell("show", child, "--json").out.count('"role":"user"') == 2
    assert shell("show", parent, "--json").out == before


# ── the first minutes of a new user ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [("run", "--help"), ("--help",)])
def test_the_first_example_works(shell, words, monkeypatch):
    """As it is printed in the help, in an empty folder, without configuration and without a key."""
    for name in ("WAKELOG_MODEL", "WAKELOG_STORE"):
        monkeypatch.delenv(name)
    example = next(line for line in shell.process(*words).out.splitlines() if line.startswith("  wakelog run "))
    typed = shlex.split(re.split(r" {3,}", example.strip())[0])[1:]
    folder = shell.folder / "empty"
    folder.mkdir()
    answer = shell.process(*typed, typed=b"", cwd=folder)
    assert (answer.code, "That did not work" in answer.out) == (0, False), answer
    assert answer.out.startswith("I will list .")


def test_a_waiting_prompt_is_answered_without_another(shell):
    """RUN-2: `new`, `append`, and `run` with a model: the prompt in the log is answered."""
    shell("new", "--cwd", str(shell.folder))
    shell("append", "agent_user_1", "list .")
    answer = shell.process("run", "-s", "agent_user_1", "--model", "demo", stdin=subprocess.DEVNULL)
    assert (answer.code, answer.out.splitlines()[0]) == (0, "I will list ..")
    assert sum(row.get("message", {}).get("role") == "user" for row in entries(shell)) == 1


def test_without_a_prompt_a_message_must_wait(shell):
    """Nothing is written where there is nothing to do, and the line says what to type."""
    shell("new", "--cwd", str(shell.folder))
    for words, told in (
        ((), "the prompt is empty; give a prompt"),
        (
            ("-s", "agent_user_1", "--model", "demo"),
            "no prompt is given, and nothing is pending in agent_user_1; give a prompt",
        ),
        (("-s", "agent_user_1", "--steer"), "--steer requires a prompt"),
    ):
        answer = shell.process("run", *words, stdin=subprocess.DEVNULL)
        assert (answer.code, told in answer.err) == (2, True), answer
    assert types(shell) == ["session"]


def test_without_a_prompt_a_running_session_is_a_conflict(shell, store):
    shell("new", "--cwd", str(shell.folder))
    shell("append", "agent_user_1", "list .")
    session = Session(store, "agent_user_1")
    lease = session.acquire("another", ttl_s=60)
    answer = shell.process("run", "-s", "agent_user_1", stdin=subprocess.DEVNULL)
    assert (answer.code, "is being run by another" in answer.err) == (5, True)
    session.release(lease)
