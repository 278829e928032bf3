"""ST-10: what threads, forks, interrupts and mistakes may not do to a recorded session (laws 6 and 7)."""

import os
import signal
import threading
from typing import Any

import pytest

from tests.recording.test_recording import asking, results
from wakelog.errors import Conflict, OpenToolCalls, UsageError
from wakelog.log.content import Image, Reply, Text, Usage
from wakelog.log.entry import ToolStarted
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore

# Wrong values on purpose.
NUMBER: Any = 5
URL: Any = "sessions"


def starts(session: Session) -> int:
    return sum(isinstance(entry.value, ToolStarted) for entry in session.entries())


def begun(session: Session) -> Session:
    """Return the session with a reply that calls one tool."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    return session


# ── one run, one result ──────────────────────────────────────────────────────────────────────────


def test_two_runs_of_one_call(session):
    """Law 6: the second `with` statement is refused, also if its object was made before the first one ran."""
    first, second = begun(session).tool("c1"), session.tool("c1")
    with first as run:
        with pytest.raises(Conflict, match="is running"), session.tool("c1"):
            pytest.fail("the body must not run")
        run.result = "paid"
    with pytest.raises(UsageError, match="not an open tool call"), second:
        pytest.fail("the body must not run")
    assert (starts(session), results(session)) == (1, {"c1": "ok"})


def test_threads_that_run_one_call(session):
    """Law 6: of many threads one runs the tool."""
    begun(session)
    barrier, ran, refused = threading.Barrier(6), list[str](), list[str]()

    def work() -> None:
        barrier.wait()
        try:
            with session.tool("c1") as run:
                ran.append("ran")
                run.result = "paid"
        except (Conflict, UsageError) as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ran), len(refused), starts(session)) == (1, 5, 1)


@pytest.mark.parametrize("meddle", [lambda s: s.recover(), lambda s: s.tool_result("c1", "elsewhere")])
def test_no_other_result_while_a_tool_runs(session, meddle):
    """Law 7: the program itself cannot settle a call that it is running."""
    with begun(session).tool("c1") as run:
        with pytest.raises(Conflict, match="running"):
            meddle(session)
        run.result = "paid"
    assert results(session) == {"c1": "ok"}


def test_a_session_that_was_recovered_elsewhere(store, session):
    """Law 7: after another holder has settled the call, its late result is refused."""
    run = begun(session).tool("c1").__enter__()
    session.close()
    with Session.get(store, session.name) as other:
        other.recover()
    run.result = "paid"
    with pytest.raises(Conflict, match="has a result already"):
        run.__exit__(None, None, None)
    assert results(session) == {"c1": "unknown"}


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_a_forked_child_that_leaves_the_body(tmp_path, kind):
    """Law 7: the child's exit from the `with` statement writes nothing; its output is refused."""
    store = open_store(str(tmp_path / "s") if kind == "files" else f"sqlite:{tmp_path}/s.db")
    session = begun(Session.create(store))
    with session.tool("c1") as run:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run.__exit__(SystemExit, SystemExit(), None)
                run.output("from the child")
            except UsageError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        run.result = "paid"
    assert results(session) == {"c1": "ok"}
    session.close()
    store.close()


@pytest.mark.parametrize("act", [lambda s: s.user("go"), lambda s: s.assistant("hi")])
def test_an_interrupt_while_the_lease_is_acquired(act):
    """LOG-10: Ctrl-C at any point of the acquisition leaves no lease behind."""

    class Interrupted(MemoryStore):
        def acquire(self, *args: Any, **options: Any) -> Any:
            super().acquire(*args, **options)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("the signal is handled before this")

    store = Interrupted()
    session = Session.create(store)
    with pytest.raises(KeyboardInterrupt):
        act(session)
    assert store.held(session.name) is None


def test_session_objects_that_are_dropped_one_after_the_other(store):
    """LOG-10: the next object of the same process waits for the lease that the garbage one held."""

    def turn(text: str) -> None:
        session = Session.open(store, agent="web")
        session.recover()
        session.user(text)
        session.assistant("hi")

    for number in range(10):
        turn(str(number))
    assert len(Session.open(store, agent="web").messages()) == 20


# ── order ────────────────────────────────────────────────────────────────────────────────────────


def test_a_streamed_reply_stays_where_it_was_requested(session):
    """TREE-2: a person moves the head while the reply is streamed; the reply stays on the branch of its prompt."""
    first = session.user("q1")
    session.assistant("a1")
    second = session.user("q2")
    with session.streaming() as stream:
        stream.text("answer to q2")
        with pytest.raises(UsageError, match="being streamed"):
            session.user("in between")
        with pytest.raises(UsageError, match="being streamed already"), session.streaming():
            pytest.fail("one reply at a time")
        session.move_head(first)
    assert [message.content[0].text for message in session.messages()] == ["q1"]
    reply = [*session.entries()][-1]
    assert (reply.value.parent_id, reply.value.message.text) == (second.id, "answer to q2")


def test_no_reply_while_tool_calls_are_open(session):
    """Laws 7 and 8: the result of an earlier call would be placed before a reply that was already sent."""
    begun(session)
    before = len([*session.entries()])
    with pytest.raises(OpenToolCalls, match=r"pay \(c1\).*recover"):
        session.assistant("I go on")
    with pytest.raises(OpenToolCalls, match="recover"), session.streaming():
        pytest.fail("the body must not run")
    assert len([*session.entries()]) == before
    session.recover()
    sent = session.to_anthropic()
    session.assistant("It was not paid.")
    assert not session.recover()
    assert session.to_anthropic()[: len(sent)] == sent


@pytest.mark.parametrize("act", [lambda s: s.assistant("Three degrees."), lambda s: s.compact("They talked.")])
def test_nothing_follows_the_place_of_a_streamed_reply(session, act):
    """TREE-2: a second entry at its place would leave the streamed reply, or that entry, on a side branch."""
    session.user("go")
    with session.streaming() as stream:
        stream.text("Three ")
        with pytest.raises(UsageError, match="being streamed"):
            act(session)
        stream.finish("Three degrees.")
    assert [message.content[0].text for message in session.messages()] == ["go", "Three degrees."]
    assert [entry.type for entry in session.entries()].count("message") == 2


def test_a_compaction_keeps_open_tool_calls(session):
    """Law 7: a call that a compaction replaced would never get a result."""
    begun(session)
    with pytest.raises(OpenToolCalls, match="recover"):
        session.compact("They talked.")
    session.tool_result("c1", "paid")
    session.compact("They talked.")


def test_queued_messages_are_taken_up(store, session):
    """RUN-11: another process leaves a message with `say`; the loop records it as its next prompt, once."""
    session.user("go")
    session.assistant("ok")
    Session.get(store, session.name).say("and this?")
    assert not session.needs_reply
    taken = session.take_queued()
    assert taken is not None
    assert (session.needs_reply, session.take_queued()) == (True, None)
    assert session.messages()[-1].content == (Text(text="and this?"),)


def test_needs_reply_only_after_all_results(session):
    session.user("go")
    session.assistant(asking(("c1", "pay"), ("c2", "mail")))
    session.tool_result("c1", "done")
    assert not session.needs_reply
    session.tool_result("c2", "done")
    assert session.needs_reply


def test_a_session_ends_itself(session):
    """RUN-21: the lease of the program that ends it is no obstacle."""
    session.user("go")
    session.assistant("ok")
    session.end("done")
    assert [*session.entries()][-1].type == "terminated"


# ── values ───────────────────────────────────────────────────────────────────────────────────────


class Shy:
    """An object whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"price": float("inf")}, '{"price":Infinity}'),
        (b"plain", "plain"),
        (b"\xff\xfe", "2 bytes, in base64: //4="),
        (Shy(), "<Shy without a text: RuntimeError>"),
        (["see", Image(mime_type="image/png", data="iVBORw0KGgo=")], "see"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_odd_results_are_kept(session, result, text):
    """Law 7: a result is never lost for its type."""
    with begun(session).tool("c1") as run:
        run.result = result
    assert (results(session), session.messages()[-1].content[0].text) == ({"c1": "ok"}, text)


def test_an_exception_without_a_text(session):
    """Law 7: the type of the exception is enough."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail() -> None:
        raise Mute

    with begun(session).tool("c1"):
        fail()
    assert results(session) == {"c1": "error"}


def test_errors_of_wakelog_in_a_tool_body_are_raised(session):
    """A mistake of the program is not only told to the model."""
    with pytest.raises(OpenToolCalls), begun(session).tool("c1"):
        session.user("too early")
    assert results(session) == {"c1": "error"}


@pytest.mark.parametrize(
    "mistake",
    [
        lambda s: s.assistant("hi", model=5),
        lambda s: s.assistant(Reply(content="hi", usage=NUMBER)),
        lambda s: s.rename(5),
        lambda s: s.label(5, "x"),
        lambda s: s.streaming().__enter__().finish(usage=5),
        lambda s: s.user(Image(mime_type="image/png", data="!!")),
        lambda s: Session.open(URL),
        lambda s: s.assistant({"type": "message", "role": "assistant", "content": ["text"]}),
        lambda s: s.assistant({"object": "response", "status": "in_progress", "output": []}),
    ],
)
def test_wrong_values_are_refused_before_they_are_written(session, mistake):
    """Law 10: what is acknowledged can be read back."""
    session.user("go")
    with pytest.raises(UsageError):
        mistake(session)
    assert session.verify().ok


def test_text_that_is_not_valid_unicode(session):
    """Law 4: half of a surrogate pair is escaped, and the rest of the text is kept."""
    session.user("a\ud800")
    session.assistant({"role": "assistant", "content": [{"type": "text", "text": "b\ud800"}]})
    with session.streaming() as stream:
        stream.text("c \ud83d")
        stream.text(None)
        stream.finish(usage=Usage(output_tokens=1))
    assert [message.content[0].text for message in session.messages()] == ["a\\ud800", "b\\ud800", "c \\ud83d"]


def test_the_call_of_a_run_has_its_real_input(session):
    """Law 14: the log has the redacted input, the program the real one."""
    key = "sk-ant-api03-" + "a1B2" * 20
    session.user("go")
    block = {"type": "tool_use", "id": "c1", "name": "login", "input": {"key": key}}
    reply = session.assistant({"type": "message", "role": "assistant", "content": [block]})
    with session.tool(reply.tool_calls[0]) as run:
        assert run.call.input == {"key": key}
        run.result = "ok"


# ── responses ────────────────────────────────────────────────────────────────────────────────────


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "model": "gpt-5", "status": "completed", "output": list(items)}


def test_items_that_parts_cannot_represent_are_sent_back(session):
    """ST-10: a web search stands between reasoning and message, and goes back with them."""
    items = (
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "one", "annotations": []},
                {"type": "output_text", "text": "two", "annotations": []},
            ],
        },
    )
    session.user("go")
    session.assistant(responses(*items))
    assert session.to_openai_responses()[1:] == list(items)


def test_chat_calls_with_one_id_and_bad_arguments(session):
    """RUN-7: two calls stay two calls, and arguments that are not JSON are kept as text."""
    calls = [
        {"id": "c", "type": "function", "function": {"name": "a", "arguments": ""}},
        {"id": "c", "type": "function", "function": {"name": "b", "arguments": "{broken"}},
    ]
    session.user("go")
    reply = session.assistant({"choices": [{"message": {"content": None, "tool_calls": calls}}]})
    assert [(each.id, each.name, each.input) for each in reply.tool_calls] == [("c", "a", {}), ("c.2", "b", "{broken")]
