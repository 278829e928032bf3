"""`docs/cli.md` is complete and true: it has every command, option and JSON field, and no others."""

import json
import re
from pathlib import Path

import click
import pytest

from tests.cli.reading_commands import reading_commands
from wakelog.cli import ALIASES, COMMANDS, SECTIONS
from wakelog.cli.main import wakelog
from wakelog.decide.policy import Policy, stored_policy
from wakelog.forking import fork
from wakelog.log.content import BlobRef, Prompt, Reply, TextDelta, ToolCall, ToolResult, Usage, encode_delta
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    ContextEntry,
    InstructionSource,
    Message,
    ModelCall,
    ModelChange,
)
from wakelog.log.ids import digest_of
from wakelog.session import Session

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SHARED = {"--store", "--color", "--pager", "--no-pager", "--json", "--help", "-h"}
PARTS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_every_command_is_described_and_no_other():
    assert sorted(PARTS) == sorted(COMMANDS)
    assert list(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)) == list(SECTIONS)
    assert all(f"`wakelog {alias}`" in PARTS[name] for alias, name in ALIASES.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name):
    command = wakelog.get_command(click.Context(wakelog), name)
    options = {opt for param in command.params if isinstance(param, click.Option) for opt in param.opts} - SHARED
    part = PARTS[name]
    assert [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", part)] == []
    named = set(re.findall(r"(?<![\w-])--[a-z-]+", part.split("\n\n")[1])) if "\n\n" in part else set()
    known = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    assert named <= known


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_beginning_of_the_help(name):
    """`wakelog --help` and the help of a command describe it in the same words."""
    command = wakelog.get_command(click.Context(wakelog), name)
    summary = COMMANDS[name][1]
    assert command.name == name
    assert summary.endswith(".")
    assert " ".join(str(command.help).split()).startswith(summary.removesuffix("."))


def fields(value, path=""):
    """Yield every field of an answer, as a path: `damage[].line`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from fields(inner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, f"{path}[]")


def described(name):
    """Return the fields in the table of a command; `wake` has those of `run`."""
    part = PARTS["run"] if "`--json` are those of `run`" in PARTS[name] else PARTS[name]
    return set(re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE))


def is_stored_entry(name, row):
    """Return whether a row is an entry as stored, where the page says that the command prints entries."""
    return "as stored" in " ".join(PARTS[name].split()) and {"type", "id", "seq", "h"} <= row.keys()


# Lists and objects whose content the page describes elsewhere.
ELSEWHERE = re.compile(
    r"messages\[\]\.content|tools\[\]\.schema\.|params\.|^(?:policy|environment|settings|statuses)\.|^input\.|^entry\.|^runs\[\]\.|noted\[\]|leftOut\[\]|findings\[\]\.entries\[\]|entries\[\]\.(?!id|parentId|type|seq|timestamp|link|role|text|inherited)"
    r"|branches\[\]\.(?:alone\.)?(?:calls|input|output|cacheRead|cacheWrite|cost|knownCost|callsWithoutCost|repliesWithoutUsage)"
)


@pytest.fixture
def of_runs(shell, script):
    """Return answers of the commands that run an agent, and of those that read what it did."""
    asks = {"toolCalls": [{"name": "agent", "input": {"prompt": "list ."}}, {"name": "shell", "input": {}}]}
    model = script({"text": "one"}, {"text": "two", "error": {"kind": "busy", "message": "", "retryable": True}}, asks)
    first = shell("run", "--model", model, "--json", "hi", typed="")
    end = first.rows[-1]
    more = shell("run", "-s", end["name"], "--system", "Be brief.", "--strategy", "window:1", "--json", "go", typed="")
    asking, spare = shell("questions", "--json"), shell("questions", end["name"], "--json")
    calls = [row["seq"] for row in shell("show", end["name"], "--json").rows if row["type"] == "call"]
    return {
        "run": first,
        "run more": more,
        "wake": shell("wake", end["name"], "--json"),
        "replay": shell("replay", end["name"], "--json"),
        "replay verified": shell("replay", end["name"], "--verify", "--json"),
        "questions": asking,
        "questions of one": spare,
        "context exact": shell("context", end["name"], "--exact", "--json"),
        "context diff": shell("context", end["name"], "--diff", str(calls[0]), str(calls[-1]), "--json"),
        "tree of runs": shell("tree", end["name"], "--runs", "--json"),
    }


@pytest.fixture
def of_entries(shell, story):
    """Return answers of the commands that print entries as they are stored."""
    store = story.store
    _unfinished(store, "cancelled")
    session = Session.create(store, agent="plain")
    prompt = session.say("go")
    call = ToolCall(id="t1", name="ls", input={})
    session.append(Message(id="asked", message=Reply(content=(call,))))
    result = session.append(Message(message=ToolResult(tool_call_id="t1", reply_id="asked", content="a.txt")))
    name = session.name
    return {
        "append": shell("append", name, "hello", "--json"),
        "rename": shell("rename", name, "a title", "--json"),
        "label": shell("label", f"{name}:{prompt.id}", "x", "--json"),
        "archive": shell("archive", name, "--json"),
        "cancel": shell("cancel", "cancelled_user_1", "--json"),
        "rerun": shell("rerun", f"{name}:{result.id}", "--json"),
        "compact": shell("compact", name, "--summary", "They said hello.", "--json"),
        "show": shell("show", name, "--json"),
        "tail": shell("tail", name, "--json"),
    }


def _audited(store):
    """Create a session with a tool call whose outcome a person decided, and with settings that change."""
    session = Session.create(store, agent="audited", model="a")
    source = InstructionSource(kind="instructions", path="/AGENTS.md", scope="project", hash="sha256:1", bytes=1)
    blob = store.blobs.put(b"[]", "application/json")
    session.append(ContextEntry(sources=(source,), system=blob, tools=blob, policy=stored_policy(Policy())))
    session.say("go")
    session.append(Message(id="doubtful", message=Reply(content=(ToolCall(id="t1", name="pay", input={}),))))
    asked = session.append(Attention(reason="unknown", reply_id="doubtful", tool_call_id="t1"), at="doubtful")
    session.append(AttentionResolved(attention_id=asked.id, decision="ran"), at="doubtful")
    session.append(ModelChange(model="b"))
    session.append(Message(message=Prompt(content="more")))


def _with_a_loss(folder):
    """Return a log, in a folder of its own, that refers to a missing blob."""
    log = folder / "others" / "crab_user_1.jsonl"
    log.parent.mkdir()
    log.write_bytes(b'{"type":"session","id":"s"}\n{"blob":{"digest":"sha256:%s","bytes":1}}\n' % (b"0" * 64))
    return log


@pytest.fixture
def of_config(shell):
    """Return answers about a configuration with an error and an ignored setting."""
    (shell.folder / ".wakelog.toml").write_text("modl = 'x'\nstore = 'y'\n")
    return {"config": shell("config", "--json"), "config check": shell("config", "check", "--json")}


def _unfinished(store, agent):
    """Create a session with an open call, an undelivered reply, and a queued message."""
    session = Session.create(store, agent=agent)
    session.say("go")
    session.append(ModelCall(reply_id="r1", channels=("bot",)))
    asked = ToolCall(id="t1", name="bash", input={})
    session.append(Message(id="r1", message=Reply(content=(asked,))))
    session.say("and then")


@pytest.fixture
def answers(shell, story, of_runs, of_entries, of_config):
    """Return answers of every command that writes JSON, on a store with entries of all kinds."""
    first = story.user("look at the parser")
    reply = story.reply("yes", calls=[("t1", "bash", {})], usage=Usage(input_tokens=1))
    story.result(reply, "t1", status="error")
    story.session.label(first.id, "x")
    story.store.blobs.put(b"a blob that no log names")
    output = BlobRef(digest=digest_of(b"nobody has this"), bytes=15)
    story.session.append(Message(message=ToolResult(tool_call_id="t1", reply_id=reply.id, blob=output)))
    story.store.journal("crab_user_1", "under-way", encode_delta(TextDelta("half a sentence")))
    fork(story.session).say("more")
    _unfinished(story.store, "ended")
    _audited(story.store)
    log = shell.store / "crab_user_1.jsonl"
    fork_words = ("fork", "crab_user_1", "--new-session", "--json")
    sound = {
        "new": shell("new", "--json"),
        "fork": shell(*fork_words),
        "context": shell("context", "crab_user_1", "--json"),
        "head": shell("head", "crab_user_1", "--json"),
        "usage": shell("usage", "crab_user_1", "--json"),
        "usage of all": shell("usage", "--all", "--json"),
        "audit of settings": shell("audit", "audited_user_1", "--context", "--json"),
        "search": shell("search", "parser", "--json"),
        "end": shell("end", "ended_user_1", "--force", "--json"),
        "service": shell("service", "show", "--json"),
    }
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"rubbish\n", lines[2].replace(b"yes", b"YES"), *lines[3:], b"cut"]))
    return (
        _of_other_commands(shell)
        | (of_runs | of_entries | sound | of_config)
        | {
            "tree": shell("tree", "crab_user_2", "--json"),
            "ls": shell("ls", "--json"),
            "verify": shell("verify", "crab_user_1", "--json"),
            "verify of all": shell("verify", "--all", "--json"),
            "doctor": shell("doctor", "crab_user_1", "--salvage", "copy.jsonl", "--json"),
            "doctor the store": _doctor_beside_another_agent(shell),
            "du": shell("du", "--json"),
            "gc": shell("gc", "--dry-run", "--older-than", "0s", "--json"),
            "copy": shell("copy", str(_with_a_loss(shell.folder)), "--to", "elsewhere", "--json"),
            "export": shell("export", "crab_user_1", "--json"),
            "handoff": shell("handoff", "crab_user_2", "--to", "pi", "--dry-run", "--json"),
            "import": shell("import", str(_foreign_file(shell.folder)), "--json"),
        }
    )


def _of_other_commands(shell):
    """Return the answers of commands that read a session and need nothing more than its name."""
    return {
        name: shell(name, *more, "--json")
        for name, *more in reading_commands("crab_user_1")
        if any("--json" in each.opts for each in wakelog.get_command(click.Context(wakelog), name).params)
    }


def _doctor_beside_another_agent(shell):
    """Run `doctor` where another agent has a session."""
    place = shell.folder / ".codex" / "sessions" / "2026"
    place.mkdir(parents=True)
    (place / "rollout-1.jsonl").write_text("{}\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CODEX_HOME", str(shell.folder / ".codex"))
        return shell("doctor", "--json")


def _foreign_file(folder):
    """Write a session of another agent with a record of each kind: mapped, verbatim, left out and unreadable."""
    turn = {"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item"}
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    records = [
        {**turn, "type": "session_meta", "payload": {"id": "019cc1e9-6537-70a3-a8cd-d2957e043dd4", "cwd": "/"}},
        {**turn, "payload": message},
        {**turn, "type": "event_msg", "payload": {"type": "user_message", "message": "hi"}},
    ]
    path = folder / "rollout.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "torn")
    return path


def test_every_field_is_described_and_every_description_is_true(answers):
    """JSON shapes are stable and documented."""
    seen: dict[str, set[str]] = {}
    for name, answer in answers.items():
        assert answer.code == 2 if name == "config check" else answer.code in (0, 4, 6), name
        assert answer.rows, name
        composed = [row for row in answer.rows if not is_stored_entry(name.split()[0], row)]
        paths = {path for row in composed for path in fields(row)}
        if name == "export":
            # Its entries are as stored: the format document describes them.
            paths = {path for path in paths if not path.startswith("entries[]")}
        seen.setdefault(name.split()[0], set()).update(paths)
    for name, paths in seen.items():
        plain = {path.removeprefix("[].") for path in paths}
        missing = {path for path in plain if path not in described(name) and not ELSEWHERE.search(path)}
        assert not missing, (name, missing)
        unknown = {path for path in described(name) if path not in plain} if name != "wake" else set()
        # Fields that are written only with a value: a reply's provider, a kind of total, an inherited mark.
        assert not unknown - {"messages[].provider"}, (name, unknown)


def test_every_command_that_writes_json_is_compared(answers):
    """A command with `--json` is one of those whose fields are compared. Only three commands have nothing to give."""
    commands = {name: wakelog.get_command(click.Context(wakelog), name) for name in COMMANDS}
    writing = {name for name, command in commands.items() if any("--json" in each.opts for each in command.params)}
    assert {name.split()[0] for name in answers} == writing
    assert set(commands) - writing == {"chat", "demo", "completions"}


def test_errors_are_described(shell):
    answer = shell("show", "nobody", "--json")
    assert set(answer.error) == {"kind", "message", "hint"}
    assert all(f"| `{field}` |" in PAGE for field in answer.error)


def test_exit_codes_are_described():
    table = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert table == ["130", "2", "3", "5", "7", "1", "6", "4", "0"]
