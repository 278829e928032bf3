"""Law 14, RUN-6: agents edit files that hold secrets, and no secret reaches the log, a journal or the model."""

import asyncio

import pytest

from tests.kernel.plays import Play
from tests.redaction.secrets_made import LETTERS, MADE, Chance
from wakelog.app.agent import Agent
from wakelog.decide import wording
from wakelog.decide.policy import Policy
from wakelog.errors import NotFound, UsageError
from wakelog.log.content import BlobRef, Reply, ToolResult
from wakelog.log.entry import Message
from wakelog.ports.runtime import ToolInvocation
from wakelog.redaction.redactor import SecretSpan, redact
from wakelog.runtime.context_entry import tool_declaration
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore
from wakelog.tools import FunctionTool, builtin_tools, tool
from wakelog.tools.marked_text import replace_text

MAKE = next(make for word, make in MADE if word == "github-token")
KEY, OTHER_KEY = MAKE(Chance(1)), MAKE(Chance(2))
MARK = redact(KEY).text


@pytest.fixture(params=["memory", "files", "sqlite", "postgres"])
def store(request, tmp_path):
    urls = {"memory": "memory:", "files": str(tmp_path / "sessions"), "sqlite": f"sqlite:{tmp_path / 'db'}"}
    opened = open_store(urls.get(request.param) or request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


def stored(store, name):
    """All bytes that a store holds of a session: its log, its journals and the blobs."""
    refs = [BlobRef(digest=each.digest, bytes=each.bytes) for each in store.blobs.stored()]
    pieces = [piece for found in store.journals(name).values() for piece in found]
    return b"".join([*(line.bytes for line in store.load(name)), *map(store.blobs.get, refs), *pieces])


def calls(*made):
    return {"text": "On it.", "toolCalls": [{"name": name, "input": given} for name, given in made], "deltaChars": 3}


class Asked(Play):
    """The play of one prompt; keeps every request that the model gets."""

    def __init__(self, replies):
        super().__init__({"Go.": [*replies, {"text": "Done."}]})
        self.requests = []

    def stream(self, request):
        self.requests.append(request)
        return super().stream(request)


def run(store, folder, *replies, tools=None, policy=None):
    """Run an agent with the built-in file tools; return its session, its results and the requests, as text."""
    play = Asked(replies)
    given = builtin_tools(str(folder), ["read", "write", "edit", "grep"]) if tools is None else tools
    agent = Agent("scripted:m", tools=given, policy=policy or Policy(), provider=play)
    session = asyncio.run(agent.run(store, "Go.", cwd=str(folder))).session
    return session, results(session), repr(play.requests)


def results(session):
    found = [node.value.message for node in session.branch().nodes if isinstance(node.value, Message)]
    return [message for message in found if isinstance(message, ToolResult)]


def is_replayed(session):
    return asyncio.run(replay(session.store, session.name)).ok


def test_a_file_with_a_secret_can_be_edited(store, tmp_path):
    """The agent quotes the mark that it has read; the value stays, and only the file holds it."""
    path = tmp_path / ".env"
    path.write_text(f"HOST=a\nAPI={KEY}\nPORT=1\n")
    edit = {"path": ".env", "old": f"HOST=a\nAPI={MARK}", "new": f"HOST=b\nAPI_KEY={MARK}"}
    session, (read, edited), asked = run(store, tmp_path, calls(("read", {"path": ".env"})), calls(("edit", edit)))
    assert read.text == f"HOST=a\nAPI={MARK}\nPORT=1\n"
    assert (edited.effective_status, edited.text) == ("ok", "changed one place in .env")
    assert path.read_text() == f"HOST=b\nAPI_KEY={KEY}\nPORT=1\n"
    assert KEY.encode() not in stored(store, session.name)
    assert KEY not in asked
    assert is_replayed(session)


def test_a_call_that_held_a_secret_is_denied_though_its_tool_accepts_marks(tmp_path):
    """Law 14: the log says whether redaction placed the mark or the model quoted one."""
    path = tmp_path / ".env"
    path.write_text(f"API={KEY}\n")
    rotated = {"path": ".env", "old": f"API={MARK}", "new": f"API={OTHER_KEY}"}
    session, (result,), _ = run(MemoryStore(), tmp_path, calls(("edit", rotated)))
    assert (result.effective_status, result.text) == ("denied", wording.REDACTED)
    assert path.read_text() == f"API={KEY}\n"
    (call,) = _calls(session)
    assert call.input["new"] == f"API={MARK}"
    assert call.redacted
    assert is_replayed(session)


def test_other_tools_are_not_run_with_a_quoted_mark(tmp_path):
    """Law 14: `write` would put the mark into the file; `grep` and tools of programs do not know what it stands for."""
    path = tmp_path / ".env"
    path.write_text(f"API={KEY}\n")
    made = [("write", {"path": ".env", "content": f"API={MARK}\n"}), ("grep", {"pattern": MARK})]
    session, denied, _ = run(MemoryStore(), tmp_path, calls(*made))
    assert [(result.effective_status, result.text) for result in denied] == [("denied", wording.QUOTED_MARK)] * 2
    assert path.read_text() == f"API={KEY}\n"
    assert not any(call.redacted for call in _calls(session))
    assert is_replayed(session)


def _calls(session):
    replies = [node.value.message for node in session.branch().nodes if isinstance(node.value, Message)]
    return [call for reply in replies if isinstance(reply, Reply) for call in reply.tool_calls]


def test_a_refused_edit_says_why_and_nothing_of_the_value(tmp_path):
    path = tmp_path / ".env"
    path.write_text(f"API={KEY}\nNEXT={OTHER_KEY}\n")
    made = [
        {"old": f"={MARK}", "new": f" = {MARK}"},
        {"old": "NEXT", "new": f"COPY={MARK}\nNEXT"},
        {"old": f"API={KEY[:12]}", "new": "API="},
    ]
    session, refused, _ = run(MemoryStore(), tmp_path, calls(*(("edit", {"path": ".env", **given}) for given in made)))
    assert [result.effective_status for result in refused] == ["error"] * 3
    assert ["2 times" in refused[0].text, "lacks" in refused[1].text, "does not stand" in refused[2].text] == [True] * 3
    assert KEY[:4] not in "".join(result.text for result in refused)
    assert is_replayed(session)


def test_marks_are_text_where_nothing_is_redacted(tmp_path):
    (tmp_path / "f").write_text(f"API={MARK}\n")
    edit = {"path": "f", "old": f"API={MARK}", "new": f"API={MARK} # text"}
    _, (result,), _ = run(MemoryStore(), tmp_path, calls(("edit", edit)), policy=Policy(redact="off"))
    assert result.effective_status == "ok"
    assert (tmp_path / "f").read_text() == f"API={MARK} # text\n"


def test_a_session_declared_without_marks_keeps_refusing_them(tmp_path):
    """Law 2: what a tool accepts is in the log, so the calls of an older log are decided as before."""
    (tmp_path / ".env").write_text(f"API={KEY}\n")
    edit = {"path": ".env", "old": f"API={MARK}", "new": f"KEY={MARK}"}
    (shipped,) = builtin_tools(str(tmp_path), ["edit"])
    assert tool_declaration(shipped)["acceptsMarks"] is True
    assert isinstance(shipped, FunctionTool)
    shipped.accepts_marks = False
    assert "acceptsMarks" not in tool_declaration(shipped)
    session, (result,), _ = run(MemoryStore(), tmp_path, calls(("edit", edit)), tools=[shipped])
    assert (result.effective_status, result.text) == ("denied", wording.QUOTED_MARK)
    assert is_replayed(session)


def test_a_tool_that_takes_marks_as_text_does_not_stand_in_for_a_declared_one(tmp_path):
    """Law 14: a process whose tool of that name does not accept marks lacks the tool; nothing is run or written."""

    @tool(name="edit")
    def own_edit(path: str, old: str, new: str) -> str:
        """Edits in its own way."""
        raise AssertionError(f"{path} {old} {new}")

    (tmp_path / ".env").write_text(f"API={KEY}\n")
    edit = {"path": ".env", "old": f"API={MARK}", "new": f"KEY={MARK}"}
    store = MemoryStore()
    play = Asked([calls(("edit", edit))])
    agent = Agent("scripted:m", tools=builtin_tools(str(tmp_path), ["edit"]), provider=play)
    session = agent.begin(store, cwd=str(tmp_path))
    session.say("Go.")
    asyncio.run(agent.wake(store, session, steps=1))
    before = Session(store, session.name).last_seq
    with pytest.raises(NotFound, match="'edit'"):
        asyncio.run(wake(LiveRuntime(store, tools=[own_edit], provider=play), session.name))
    assert Session(store, session.name).last_seq == before
    assert asyncio.run(agent.wake(store, session)).state == "idle"
    assert (tmp_path / ".env").read_text() == f"KEY={KEY}\n"


def test_an_own_tool_can_accept_marks():
    """`find_secrets` gives the places and marks of what the model sees as marks."""
    seen: list[SecretSpan] = []

    @tool(accepts_marks=True)
    def look_up(name: str, call: ToolInvocation) -> str:
        """Looks up a value."""
        assert call.find_secrets is not None
        seen.extend(call.find_secrets(f"KEY={KEY}"))
        return name

    session, (result,), _ = run(MemoryStore(), "", calls(("look_up", {"name": MARK})), tools=[look_up])
    assert result.text == MARK
    assert [(span.start, span.end, span.mark) for span in seen] == [(4, 4 + len(KEY), MARK)]
    assert is_replayed(session)


# ── random files and random edits ────────────────────────────────────────────────────────────────


def _random_file(chance):
    values = [chance.choice((MAKE(chance), "glpat-" + chance.some(LETTERS, 20))) for _ in range(4)]
    names = [f"NAME_{number}_{chance.some('abc', 4)}" for number in range(8)]
    lines = [f"{name}={value}" for name, value in zip(names, values, strict=False)] + [
        f"{name}=1" for name in names[4:]
    ]
    chance.shuffle(lines)
    return "\n".join(lines) + "\n", values


def _random_edit(chance, shown):
    """Return an edit of some lines of a file as a model sees them: words around the marks change."""
    lines = shown.splitlines(keepends=True)
    start = chance.randrange(len(lines))
    old = "".join(lines[start : start + chance.randint(1, 3)])
    new = "".join(chance.choice((line, f"# {line}", line.replace("NAME", "KEY"), f"{line}X=1\n")) for line in [old])
    if chance.random() < 0.2:
        new = chance.choice((new + f"COPY={MARK}\n", new.replace(MARK, "x"), "\n".join(reversed(new.splitlines()))))
    return {"path": "f", "old": old, "new": new}


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_change_no_secret_and_log_none(store, tmp_path, seed):
    """Law 14: every value that an edit does not remove keeps its bytes; log, journals and requests hold none."""
    chance = Chance(seed)
    text, values = _random_file(chance)
    (tmp_path / "f").write_text(text)
    edits, expected = [], text
    for _ in range(8):
        edits.append(_random_edit(chance, redact(expected).text))
        try:
            expected = replace_text(
                expected, edits[-1]["old"], edits[-1]["new"], name="f", find_secrets=lambda each: redact(each).spans
            ).text
        except UsageError:
            continue
    replies = [reply for edit in edits for reply in (calls(("edit", edit)), calls(("read", {"path": "f"})))]
    session, done, asked = run(store, tmp_path, *replies)
    assert (tmp_path / "f").read_text() == expected
    assert {"ok", "error"} >= {result.effective_status for result in done}
    kept = stored(store, session.name)
    assert not any(value.encode() in kept or value in asked for value in values)
    assert is_replayed(session)
