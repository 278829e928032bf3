"""The examples run: each as a process in an empty folder, without a network, and prints what its page says."""

import ast
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.loopback.server import Loopback
from tests.patience import PATIENCE_S
from tests.recording.loops import answer
from wakelog import Session, open_store
from wakelog.identity import latest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("[0-9]*.py"))
# Examples use the public names of the package, and the tools that it ships.
PUBLIC = {"wakelog", "wakelog.tools"}


@pytest.fixture
def example(tmp_path):
    """Start an example in a folder of its own, isolated from the files of the user who runs the tests."""
    empty = {name: str(tmp_path / name) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}

    def begin(number, typed=None, **variables):
        (path,) = FOLDER.glob(f"{number:02}_*.py")
        begun = subprocess.Popen(
            [sys.executable, "-W", "error", str(path)],
            cwd=tmp_path,
            env={**kept, **empty, "HOME": str(tmp_path), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if typed is not None:
            begun.stdin.write(typed)
        return begun

    return begin


def output_of(begun):
    """Return what an example prints until it exits, which must be with code 0."""
    out, err = begun.communicate(timeout=PATIENCE_S)
    assert (begun.returncode, err) == (0, "")
    return out.splitlines()


def test_they_are_all_listed_and_run():
    """Numbered without a gap, on the page, and each has a test here."""
    numbers = [int(path.name[:2]) for path in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    page = (FOLDER / "README.md").read_text()
    assert re.findall(r"^\| \[(\S+)\]\(\1\)", page, re.MULTILINE) == [path.name for path in EXAMPLES]
    assert all(f"example({number}" in Path(__file__).read_text() for number in numbers)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_short_and_uses_public_names(path):
    """Under sixty lines; begins with what it shows and how to run it; public names only; names a real model."""
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) < 60
    assert f"python {path.name}" in (ast.get_docstring(tree) or "")
    assert re.search(r"(anthropic|openai):NAME|^MODEL = ", text, re.MULTILINE)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import)]
    rooms = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in found}
    ours = {room for room in rooms if room.split(".")[0] == "wakelog"}
    assert ours <= PUBLIC
    assert {room.split(".")[0] for room in rooms - ours} <= sys.stdlib_module_names | {"anthropic", "openai"}


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", (FOLDER / "README.md").read_text()):
        assert (FOLDER / target).exists(), target


def test_a_tool_with_receipts(example, tmp_path):
    """Law 6: killed between the effect and its result, the tool is asked for a receipt and not run again."""
    assert output_of(example(1)) == [
        "the first process was killed: True",
        "the second process continued its session: Done: use charge",
        "    charged Ada 500 cents",
        "charges in the bank: 1",
    ]
    kinds = [entry.type for entry in Session(open_store(str(tmp_path / "sessions")), "agent_user_1").read().entries]
    assert kinds.count("tool_started") == 1


def test_a_bot(example, tmp_path):
    """RUN-10: a message for each reply, in a session for each sender; the next process continues them."""
    typed = '17: use hours with {"day": "Sunday"}\n18: hello\n'
    lines = output_of(example(2, typed=typed))
    assert lines[0] == "bot: I will use hours."
    assert "    closed" in lines
    again = output_of(example(2, typed='17: use hours with {"day": "Monday"}\n'))
    assert again[-1] == "    9 to 18"
    assert sorted(path.name for path in (tmp_path / "sessions").glob("*.jsonl")) == ["bot_17_1.jsonl", "bot_18_1.jsonl"]
    assert len(list((tmp_path / "room").iterdir())) == 5


def test_the_bot_keeps_senders_apart(example, tmp_path):
    """ST-1: senders whose ids look alike, or are in any script, have their own sessions, in the next process too."""
    people = ["tg:12345", "TG 12345", "tg-12345", "Иван", "Мария", "王小明", "李雷"]
    for word in ("my PIN is", "once more, my PIN is"):
        output_of(example(2, typed="".join(f"{person}: {word} 77{at}77\n" for at, person in enumerate(people))))
    store = open_store(str(tmp_path / "sessions"))
    logs = {stat.name: b"".join(line.bytes for line in store.load(stat.name)).decode() for stat in store.sessions()}
    assert len(logs) == len(people)
    for at, person in enumerate(people):
        name = latest(store, "bot", person)
        assert name is not None
        # With the word before it: digits alone may stand in a seal.
        assert {other for other in range(len(people)) if f"PIN is 77{other}77" in logs[name]} == {at}
        assert logs[name].count('"role":"user"') == 2
    store.close()


def test_the_bot_delivers_undelivered_replies(example, tmp_path):
    """RUN-9: a reply that was not sent is sent by the next process as the same message, without a new prompt."""
    output_of(example(2, typed='17: use hours with {"day": "Sunday"}\n'))
    (log,) = (tmp_path / "sessions").glob("bot_17_*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if json.loads(line)["type"] == "sent")
    log.write_bytes(b"".join(lines[:last]))
    room = {path.name: path.read_text() for path in (tmp_path / "room").iterdir()}
    newest = max(tmp_path.glob("room/*"), key=lambda path: path.name)
    newest.unlink()
    assert output_of(example(2, typed=""))[-1] == "    closed"
    assert {path.name: path.read_text() for path in (tmp_path / "room").iterdir()} == room


def test_a_hook(example):
    """VIEW-7: made fresh in each run, never stored as history."""
    assert output_of(example(3)) == [
        "the model gets: Open tickets of ann: 7: the door squeaks.",
        "the model gets: Open tickets of ann: 7: the door squeaks; 8: the door is gone.",
        "in the history: False",
    ]


def test_a_policy_for_compaction(example):
    """VIEW-4: compacted above the threshold, and nothing is lost."""
    lines = output_of(example(4))
    sizes = [int(line.split()[1]) for line in lines if re.fullmatch(r"\w+: \d+ characters in the context", line)]
    assert len(sizes) == 6
    assert max(sizes) <= 500 * 4
    assert lines[-3:-1] == ["compactions: 2", "results in the log, unchanged: 6 of 6"]
    assert int(lines[-1].split()[-2]) > sizes[-1]


def test_sub_agents(example):
    """TREE-6: each is a session of its own, and its last reply is the tool result."""
    lines = output_of(example(5))
    assert "        Cold, and the wind comes from ahead." in lines
    assert lines[-2:] == [f"agent_user_{number}: change → prompt → reply → call → reply" for number in (2, 3)]


def test_a_regression_test(example, tmp_path):
    """RUN-14: recorded once, replayed many times; an edited log or a changed tool is noticed."""
    assert output_of(example(6)) == output_of(example(6)) == ["replayed: agent_user_1"]
    (log,) = (tmp_path / "recorded").glob("*.jsonl")
    recorded = log.read_bytes()
    log.write_bytes(recorded.replace(b'"text":"XIV"', b'"text":"XVI"'))
    _, err = (changed := example(6)).communicate(timeout=PATIENCE_S)
    assert changed.returncode == 1
    assert "AssertionError" in err


def events(address):
    """Yield the events of a page to the end of the stream."""
    with urllib.request.urlopen(f"{address}events", timeout=PATIENCE_S) as stream:
        text = stream.read().decode()
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    return [(kind, json.loads(what)) for kind, what in found]


def test_a_web_page(example):
    """The log is followed: the reply in pieces, then whole; a late reader gets the same, another origin nothing."""
    begun = example(7)
    address = begun.stdout.readline().split()[1]
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as page:
        assert b"new EventSource" in page.read()
    elsewhere = urllib.request.Request(f"{address}events", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(elsewhere, timeout=PATIENCE_S)
    refused.value.close()
    told = events(address)
    pieces = [what["text"] for kind, what in told if kind == "piece"]
    messages = [what["message"] for kind, what in told if kind == "entry" and what["type"] == "message"]
    assert pieces
    assert messages[-1]["content"][0]["text"] == "One wave, one <wave> more, and a third."
    # The journal is removed when the reply is complete, so a reader that polls may miss its end.
    assert messages[-1]["content"][0]["text"].startswith("".join(pieces))
    assert told[-1] == ("end", {})
    assert [what for kind, what in events(address) if kind == "entry"] == [
        what for kind, what in told if kind == "entry"
    ]
    out, err = begun.communicate("\n", timeout=PATIENCE_S)
    assert (begun.returncode, out.startswith("All is said.")) == (0, True)
    assert "Traceback" not in err


def test_an_anthropic_loop(example, tmp_path):
    """ST-10: two tools and an answer; `tests/recording/test_example_loops.py` kills it."""
    with Loopback(answer) as server:
        assert output_of(example(8, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="k")) == ["Done: paid 30 euros"]
    assert (tmp_path / "payments.txt").read_text() == "30\n"


def test_an_openai_loop(example, tmp_path):
    """ST-10: the same with the Responses API."""
    with Loopback(answer) as server:
        assert output_of(example(9, OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="k")) == ["Done: paid 30 euros"]
    assert (tmp_path / "payments.txt").read_text() == "30\n"


def _stream(address, user, prompt):
    """Send a prompt to the web server and return the events of its answer."""
    request = urllib.request.Request(f"{address}/{user}", data=prompt.encode(), method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as stream:
        text = stream.read().decode()
    return [(kind, json.loads(data)) for kind, data in re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)]


def test_a_web_server(example, tmp_path):
    """RUN-2: many users at once in one process, each with a session; a killed server is continued by the next."""
    begun = example(10)
    address = begun.stdout.readline().strip()
    users = [f"user{number}" for number in range(12)]
    with ThreadPoolExecutor(len(users)) as pool:
        streams = pool.map(lambda user: _stream(address, user, f"Hello from {user}!"), users)
        answers = dict(zip(users, streams, strict=True))
    assert all(events[-1] == ("done", "idle") for events in answers.values())
    assert all(any(kind == "text" for kind, _ in events) for events in answers.values())
    begun.kill()
    begun.communicate()
    store = open_store(str(tmp_path / "sessions"))
    for user in users:
        session = Session.open(store, agent="web", sender=user)
        assert [row.text for row in session.transcript() if row.kind == "prompt"] == [f"Hello from {user}!"]
        assert "".join(text for kind, text in answers[user] if kind == "text") in str(session.messages()[-1])
    left = Session.open(store, agent="web", sender="user3")
    left.say("left behind")
    again = example(10)
    address = again.stdout.readline().strip()
    assert _stream(address, "user4", "Once more.")[-1] == ("done", "idle")
    messages = (entry.value.message for entry in left.follow(timeout_s=PATIENCE_S) if entry.type == "message")
    assert next(messages).text
    again.kill()
    again.communicate()
    store.close()
