"""ST-9 with the real Aider: it continues a chat history that wakelog wrote, and wakelog continues one that it left.

Aider has no tools, so a tool call of the session is text in the request, as the writer's losses say.
"""

import msgspec
import pytest

from tests.loopback import Pause, Row, Say
from tests.patience import PATIENCE_S
from tests.real_tools.sessions import SUMMARY, continue_with_wakelog, example_session
from wakelog.exchange.aider.reader import is_aider_text, read_sessions
from wakelog.exchange.aider.writer import write_session
from wakelog.exchange.files import DiskFile
from wakelog.exchange.importing import import_session
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Note, Prompt, Reply
from wakelog.log.entry import Message
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("aider")

HISTORY = ".aider.chat.history.md"
EXPECTED = [
    Row("user", SUMMARY),
    Row("user", "Now say hello to the shell."),
    Row("assistant", 'I greet it.\n\n[Tool call bash {"command": "echo hello"}]'),
    Row("user", "[Result of the tool call bash]\nhello from the shell"),
    Row("assistant", "It greeted back."),
    Row("user", "Thank you, größte Hilfe! 世界"),
    Row("assistant", "You are welcome."),
]
"""The example session as Aider sends it: its tool call and the result are text."""


def rows_of(request):
    """Return the rows of a request; Aider keeps the spaces that end the lines of its history."""
    texts = [(row.kind, "\n".join(line.rstrip() for line in row.text.strip().split("\n"))) for row in request.rows]
    return [Row(kind, text) for kind, text in texts]


def imported_sessions(store, path):
    """Import a history. Each session is read before the next is taken."""
    source = DiskFile(str(path))
    return [import_session(store, session) for session in read_sessions(source)]


def test_aider_continues_a_written_session(server, tool):
    written = write_session(example_session(tool.project))
    [path] = tool.place(written)
    server.play([Say("Next answer.")])
    assert "Next answer." in tool.run("And now?", str(path)).stdout
    [request] = server.turns
    rows = rows_of(request)
    start = rows.index(EXPECTED[0])
    assert rows[start : start + len(EXPECTED)] == EXPECTED
    assert [row for row in rows[start + len(EXPECTED) :] if row.kind == "user"][-1].text.startswith("And now?")
    lost = {(loss.kind, loss.count) for loss in written.losses}
    assert lost >= {("tool call", 1), ("toolresult", 1), ("compaction", 1), ("title", 1)}
    assert written.resume[:-1] == ("aider", "--restore-chat-history", "--chat-history-file")


def test_lines_that_aider_would_drop_are_sent(server, tool):
    """Aider leaves out lines of an answer that begin with `# ` or `> `; the writer puts a space before them."""
    session = example_session(tool.project)
    text = "# Title\n> quoted\n#### Section\n```python\n# comment\n```"
    *nodes, last = session.nodes
    assert isinstance(last, Message)
    changed = msgspec.structs.replace(last, message=Reply(content=text))
    written = write_session(msgspec.structs.replace(session, nodes=(*nodes, changed)))
    [path] = tool.place(written)
    tool.run("And now?", str(path))
    assert Row("assistant", "# Title\n > quoted\n #### Section\n```python\n # comment\n```") in rows_of(
        server.turns[-1]
    )


def test_a_written_session_grows_in_aider_and_comes_back(server, tool):
    """What Aider appends is a session of its own, which says that it continues the written one."""
    [path] = tool.place(write_session(example_session(tool.project)))
    before = [session.origin.id for session in read_sessions(DiskFile(str(path)))]
    server.play([Say("Next answer.")])
    tool.run("And now?", str(path))
    assert is_aider_text(path.read_text())
    store = MemoryStore()
    first, second = imported_sessions(store, path)
    assert [first.origin.id, second.origin.parent] == [*before, *before]
    assert second.origin.version == tool.pinned.version
    continued = continue_with_wakelog(server, store, second, "bash")
    texts = [row.text for row in continued.request.conversation]
    assert texts == ["And now?", "Next answer.", "What happened?"]


def test_prompts_and_answers_of_aider_are_read(server, tool):
    """The code block has no file name, so Aider says so and asks again by itself: there are two answers."""
    answer = "# Title\n\n#### Section\n\n> quoted\n\n```\n#### code\n```"
    server.play([Say(answer)], [Say("Done.")])
    tool.run("One\n\ntwo")
    store = MemoryStore()
    [session] = imported_sessions(store, tool.project / HISTORY)
    continued = continue_with_wakelog(server, store, session, "bash")
    texts = [row.text for row in continued.request.conversation]
    assert texts == ["One\n\ntwo", answer, "Done.", "What happened?"]


def test_the_other_histories_of_aider_are_read(server, tool):
    """The LLM history has what was sent, each message once; the input history gives the prompts their times."""
    history = tool.project / "llm.history"
    server.play([Say("One.")], [Say("Two.")])
    for prompt, restored in (("First", None), ("Second", "history")):
        tool.run_with(*tool.pinned.arguments(prompt, restored), "--llm-history-file", str(history))
    assert is_aider_text(history.read_text())
    [items] = [list(session.items) for session in read_sessions(DiskFile(str(history)))]
    said = [item.body.message for item in items if is_message(item)]
    spoken = [(type(message), message.text.strip()) for message in said if not isinstance(message, Note)]
    assert [text for kind, text in spoken if kind is Reply] == ["One.", "Two."]
    assert [text.split()[0] for kind, text in spoken if kind is Prompt] == ["First", "Second"]
    for chat in read_sessions(DiskFile(str(tool.project / HISTORY))):
        times = [
            item.body.timestamp for item in chat.items if is_message(item) and isinstance(item.body.message, Prompt)
        ]
        # The time of the start has no milliseconds, that of an input has.
        assert not times[0].endswith("000Z")


def is_message(item):
    return isinstance(item, ImportedEntry) and isinstance(item.body, Message)


def test_a_session_of_a_killed_aider_is_continued_by_wakelog(server, tool):
    """Aider has written the prompt and nothing of the answer that it had begun."""
    pause = Pause()
    server.play([Say("Half a"), pause, Say(" sentence")])
    run = tool.start("Tell me")
    assert pause.reached.wait(PATIENCE_S)
    run.kill()
    store = MemoryStore()
    [session] = imported_sessions(store, tool.project / HISTORY)
    assert session.account.bad == []
    continued = continue_with_wakelog(server, store, session, "bash")
    texts = [row.text for row in continued.request.conversation]
    assert texts[0] == "Tell me"
    assert texts[-1] == "What happened?"
    assert not any("Half" in text for text in texts)
