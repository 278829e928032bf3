"""VIEW-10: displayed text of a reply or a tool that is not in the log yet is shown, marked, on every store."""

import json
import os
import signal
import subprocess

import pytest

from tests.patience import PATIENCE_S
from wakelog.log.content import Reply, Text, TextDelta, ToolCall, encode_delta
from wakelog.log.entry import ContextEntry, Message, ModelCall, Partial, Resumed, ToolStarted
from wakelog.session import Session
from wakelog.stores import open_store

pytestmark = pytest.mark.meddled
NAME = "crab_user_1"
WAKE = f"wakelog wake {NAME}"
ESCAPES = "\x1b[2J\x1b]0;gone\x07"


@pytest.fixture(params=["files", "sqlite", "postgres"])
def kept(request, shell, tmp_path, monkeypatch):
    """A store of each kind, which the command line uses."""
    url = {"files": str(shell.store), "sqlite": f"sqlite:{tmp_path / 'own.db'}"}.get(request.param)
    url = url or request.getfixturevalue("postgres_url")
    monkeypatch.setenv("WAKELOG_STORE", url)
    store = open_store(url)
    yield store
    store.close()


class InterruptedSession:
    """A session whose worker is in the middle of a reply; `stop` leaves what a crash leaves."""

    def __init__(self, store, *pieces):
        self.store = store
        self.session = Session.create(store, agent="crab", provider="demo", model="demo")
        self.session.append(ContextEntry())
        self.session.say("Tell me a story.")
        self.lease = self.session.acquire("worker", ttl_s=60)
        self.ask()
        for piece in pieces:
            self.say(piece)

    def ask(self, reply_id="r"):
        self.session.append(ModelCall(reply_id=reply_id, model="demo", provider="demo"), lease=self.lease)

    def say(self, text, journal="r"):
        self.store.journal(self.session.name, journal, encode_delta(TextDelta(text)), fence=self.lease.fence)

    def reply(self, *parts, reply_id="r"):
        return self.session.append(Message(id=reply_id, message=Reply(content=parts)), lease=self.lease)

    def stop(self):
        self.store.release(self.lease)
        return self


def _interrupted(store, *pieces):
    return InterruptedSession(store, *pieces).stop()


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["show", "tail"])
def test_an_interrupted_reply_is_shown_with_how_to_continue(shell, kept, command):
    _interrupted(kept, "Once upon ", "a time")
    answer = shell(command, NAME)
    assert answer.code == 0
    assert "assistant, interrupted" in answer.out
    assert "Once upon a time" in answer.out
    assert f"interrupted; `{WAKE}` continues it" in answer.out


@pytest.mark.parametrize("command", ["show", "tail"])
def test_as_json_it_is_a_line_of_its_own_after_the_entries(shell, kept, command):
    """The entries stay as stored; text that is not an entry has the type `journal`."""
    cut = _interrupted(kept, "Once upon ", "a time")
    *entries, journal = shell(command, NAME, "--json").rows
    assert [entry["id"] for entry in entries] == [entry.id for entry in cut.session.read().entries]
    prompt = entries[2]["id"]
    assert journal.pop("timestamp") == entries[-1]["timestamp"]
    assert journal == {
        "type": "journal",
        "replyId": "r",
        "toolCallId": None,
        "parentId": prompt,
        "state": "interrupted",
        "text": "Once upon a time",
        "continue": WAKE,
    }


def test_a_reply_that_is_being_written_is_not_interrupted(shell, kept):
    """The lease is held: the text is marked as being written, and there is nothing to continue."""
    InterruptedSession(kept, "Once upon")
    for command in ("show", "tail"):
        answer = shell(command, NAME)
        assert "assistant, being written" in answer.out
        assert "Once upon" in answer.out
        assert "interrupted" not in answer.out
    journal = shell("show", NAME, "--json").rows[-1]
    assert (journal["state"], journal["continue"]) == ("running", None)
    assert "Assistant, being written" in shell("export", NAME, "-f", "md").out


def test_exports_contain_it_and_the_log_does_not(shell, kept):
    """`-f jsonl` and `copy` give the log's bytes."""
    cut = _interrupted(kept, "Once upon a time")
    markdown = shell("export", NAME, "-f", "md").out
    assert "## Assistant, interrupted" in markdown
    assert "> Once upon a time\n\n*interrupted: `wakelog wake crab_user_1` continues it*" in markdown
    (journal,) = shell("export", NAME, "-f", "json").json["journals"]
    assert (journal["text"], journal["state"]) == ("Once upon a time", "interrupted")
    log = b"".join(line.bytes for line in kept.load(cut.session.name))
    assert shell("export", NAME, "-f", "jsonl").raw == log
    assert b"Once upon" not in log


def test_a_journal_whose_reply_is_in_the_log_is_not_shown(shell, kept):
    """A worker that died before it removed the journal lost nothing."""
    cut = InterruptedSession(kept, "Once upon a time")
    cut.reply(Text(text="Once upon a time."))
    cut.stop()
    assert shell("show", NAME).out.count("Once upon") == 1
    assert [row["type"] for row in shell("tail", NAME, "--json").rows][-1] == "message"
    assert shell("export", NAME, "-f", "json").json["journals"] == []
    assert [hit["type"] for hit in shell("search", "upon", "--json").rows] == ["message"]


def test_a_resumed_reply_is_shown_whole(shell, kept):
    """Law 5: the journal of a resumed reply has its continuation; the text before it is shown in front."""
    cut = InterruptedSession(kept)
    cut.session.append(Partial(reply_id="r", content=(Text(text="Once upon "),)), lease=cut.lease)
    cut.session.append(Resumed(reply_id="r", strategy="resume", prior_chars=10), lease=cut.lease)
    cut.ask()
    cut.say("a time")
    cut.stop()
    out = shell("show", NAME).out
    assert (out.count("Once upon a time"), out.count("Once upon")) == (1, 1)


def test_the_output_of_an_interrupted_tool_is_shown_below_its_call(shell, kept):
    cut = InterruptedSession(kept)
    cut.reply(Text(text="Building."), ToolCall(id="c", name="shell", input={"command": "make"}))
    started = ToolStarted(id="began", reply_id="r", tool_call_id="c", name="shell", replay="never")
    cut.session.append(started, lease=cut.lease)
    cut.say("compiling main.c\n", journal="began")
    cut.stop()
    out = shell("show", NAME).out
    assert out.index("shell  make") < out.index("compiling main.c") < out.index(f"`{WAKE}` continues it")
    markdown = shell("export", NAME, "-f", "md").out
    assert markdown.index("**shell**") < markdown.index("compiling main.c") < markdown.index("*interrupted:")
    journal = shell("show", NAME, "--json").rows[-1]
    assert (journal["replyId"], journal["toolCallId"], journal["text"]) == ("r", "c", "compiling main.c\n")
    assert "compiling main.c" in shell("tail", NAME).out


def test_streamed_text_is_escaped(shell, kept):
    """Law 13: no escape sequence and no tag of a journal is printed."""
    _interrupted(kept, f"<script>alert(1)</script>{ESCAPES}")
    for words in (("show", NAME), ("tail", NAME), ("search", "alert"), ("export", NAME, "-f", "md")):
        raw = shell(*words).raw
        assert b"alert" in raw, words
        assert b"\x1b" not in raw, words
        assert b"\x07" not in raw, words
    assert "<script" not in shell("export", NAME, "-f", "md").out
    assert b"\x1b" not in shell("show", NAME, "--json").raw


# ── searching ────────────────────────────────────────────────────────────────────────────────────


def test_an_interrupted_reply_is_found(shell, kept):
    """It is not in the index: journals are searched directly, with the same query language."""
    cut = _interrupted(kept, "The marmalade ", "was gone")
    other = Session.create(kept, agent="crab")
    other.say("marmalade for breakfast")
    hits = shell("search", "marmalade", "--json").rows
    assert [(hit["name"], hit["type"]) for hit in hits] == [(NAME, "journal"), (other.name, "message")]
    assert (hits[0]["entry"], hits[0]["session"], hits[0]["seq"]) == ("r", cut.session.id, None)
    assert "«marmalade»" in hits[0]["excerpt"]
    assert NAME in shell("search", "marmalade").out
    assert shell("search", "-l", '"marmalade was"').out == f"{NAME}\n"
    assert shell("search", "marmalade agent:crab -gone", "--json").rows[0]["type"] == "message"
    assert shell("search", "marmalade agent:squid", "--json").rows == []


def test_pages_of_a_search_are_those_of_the_index(shell, kept):
    """Hits in journals are on the first page and on no other."""
    _interrupted(kept, "marmalade")
    for number in range(3):
        Session.create(kept, agent="crab").say(f"marmalade {number}")
    first = shell("search", "marmalade", "--limit", "2", "--json").rows
    assert [hit["type"] for hit in first] == ["journal", "message", "message"]
    second = shell("search", "marmalade", "--limit", "2", "--after", first[-1]["cursor"], "--json").rows
    assert [hit["type"] for hit in second] == ["message"]


# ── following ────────────────────────────────────────────────────────────────────────────────────


class Follower:
    """A process that follows a session; its output is read until a text is there."""

    def __init__(self, shell, *words):
        self.child = shell.start(*words)
        self.read = b""

    def until(self, text):
        while text.encode() not in self.read:
            piece = os.read(self.child.stdout.fileno(), 65_536)
            assert piece, (self.read, self.child.stderr.read())
            self.read += piece
        return self.read.decode()

    def end(self):
        self.child.send_signal(signal.SIGINT)
        rest, err = self.child.communicate(timeout=PATIENCE_S)
        assert self.child.returncode == 130, err
        return (self.read + rest).decode()


@pytest.fixture
def follow(shell):
    made = []

    def start(*words):
        made.append(Follower(shell, *words))
        return made[-1]

    yield start
    for follower in made:
        follower.child.kill()
        follower.child.communicate()


@pytest.mark.parametrize("words", [("tail", "-f"), ("show", "--follow")])
def test_text_is_followed_as_it_streams(kept, follow, words):
    """Each piece comes before the reply is complete; the entry does not repeat what was printed."""
    cut = InterruptedSession(kept, "Once upon ")
    watching = follow(words[0], NAME, words[1])
    assert "assistant, being written" in watching.until("Once upon ")
    cut.say("a time")
    watching.until("Once upon a time")
    cut.reply(Text(text="Once upon a time"), ToolCall(id="c", name="shell", input={"command": "make"}))
    watching.until("shell  make")
    began = ToolStarted(id="began", reply_id="r", tool_call_id="c", name="shell", replay="never")
    cut.session.append(began, lease=cut.lease)
    cut.say("compiling", journal="began")
    assert "output of shell, being written" in watching.until("compiling")
    out = watching.end()
    assert out.count("Once upon") == 1


@pytest.mark.parametrize("words", [("tail", "-f"), ("show", "--follow")])
def test_pieces_are_followed_as_json(kept, follow, words):
    cut = InterruptedSession(kept, "Once upon ")
    watching = follow(words[0], NAME, words[1], "--json")
    watching.until('"Once upon "')
    cut.say("a time")
    watching.until('"a time"')
    cut.reply(Text(text="Once upon a time"))
    watching.until('"role":"assistant"')
    rows = [json.loads(line) for line in watching.end().splitlines()]
    pieces = [(row["offset"], row["text"], row["state"]) for row in rows if row["type"] == "journal"]
    assert pieces == [(0, "Once upon ", "running"), (10, "a time", "running")]
    assert [row["type"] for row in rows if row["type"] != "journal"][-1] == "message"


def test_following_an_interrupted_reply_says_how_to_continue(kept, follow):
    _interrupted(kept, f"Once upon{ESCAPES}")
    watching = follow("show", NAME, "--follow")
    out = watching.until("continues it")
    assert "assistant, interrupted" in out
    assert "\x1b" not in out
    watching.end()


def test_a_transcript_is_followed_at_the_head(kept, follow):
    """A node on another branch is not part of the transcript; one at the head is."""
    cut = _interrupted(kept)
    watching = follow("show", NAME, "--follow")
    watching.until("Tell me a story.")
    aside = cut.session.append(Message(message=Reply(content=(Text(text="Aside."),))), at=cut.session.id, fork=True)
    cut.session.say("Go on.")
    watching.until("Go on.")
    assert "Aside." not in watching.end()
    assert aside.id not in cut.session.branch().nodes


def test_an_older_entry_cannot_be_followed(shell, story):
    story.user("Hello.")
    answer = shell("show", "crab_user_1:1", "--follow")
    assert (answer.code, "only the head of a session can be followed" in answer.err) == (2, True)


# ── a real crash ─────────────────────────────────────────────────────────────────────────────────


def test_a_killed_run_shows_what_its_reader_saw(shell, script):
    """Law 5, RUN-20: everything that the killed process printed is there before the session is woken."""
    model = script({"text": "word " * 40, "deltaChars": 5, "delayMs": 20})
    child = shell.start("run", "--model", model, "hi", stdin=subprocess.DEVNULL)
    shown = os.read(child.stdout.fileno(), 4096)
    while len(shown) < 20:
        shown += os.read(child.stdout.fileno(), 4096)
    child.kill()
    rest, _ = child.communicate()
    journal = shell("show", "agent_user_1", "--json").rows[-1]
    assert journal["text"].startswith((shown + rest).decode())
    assert journal["state"] == "interrupted"
    woken = shell.process("wake", "agent_user_1")
    assert (woken.code, woken.out) == (0, "word " * 40 + "\n")
    assert all(row["type"] != "journal" for row in shell("show", "agent_user_1", "--json").rows)


# ── large journals ───────────────────────────────────────────────────────────────────────────────

LARGE = '"' * 9_500_000
READERS = (
    ("show", NAME),
    ("show", NAME, "--full"),
    ("show", NAME, "--json"),
    ("tail", NAME),
    ("tail", NAME, "--json"),
    ("export", NAME, "-f", "md"),
    ("export", NAME, "-f", "json"),
)


def test_the_output_of_a_tool_is_shown_clipped(shell, kept):
    """VIEW-6, VIEW-10: as much of it is shown before the session is woken as after."""
    cut = InterruptedSession(kept)
    cut.reply(ToolCall(id="c", name="shell", input={}))
    started = cut.session.append(ToolStarted(reply_id="r", tool_call_id="c", name="shell"), at="r", lease=cut.lease)
    cut.say(f"first\n{LARGE}\nlast", journal=started.id)
    kept.journal(cut.session.name, started.id, b"[" * 100_000)
    cut.stop()
    for words in READERS:
        answer = shell(*words)
        assert answer.code == 0, words
        assert len(answer.raw) < 100_000, words
        assert "bytes left out" in answer.out or words in (READERS[0], READERS[3]), words
    assert [hit["type"] for hit in shell("search", "first", "--json").rows] == ["journal"]


def test_a_very_long_reply_is_shown_clipped(shell, kept):
    """VIEW-10: of a text that is too long for a line, both ends are shown."""
    cut = _interrupted(kept, "Once upon a time", LARGE, "the end")
    kept.journal(cut.session.name, "r", b'{"type":"call","id":"c","name":"n","input":' + b"[" * 9_000)
    for words in READERS:
        answer = shell(*words)
        assert answer.code == 0, words
        assert len(answer.raw) < 2_000_000, words
        assert "Once upon a time" in answer.out, words
