"""ST-10: the log without the runtime. A program records its own loop; results are honest, mistakes are refused."""

import asyncio
import base64
import threading

import pytest

from wakelog.decide import wording
from wakelog.errors import Conflict, NotFound, OpenToolCalls, UsageError
from wakelog.log.content import Image, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Activity, Message, ToolStarted
from wakelog.ports.runtime import ToolOutcome
from wakelog.session import Session
from wakelog.stores import open_store

PIXEL = base64.b64encode(b"\x89PNG").decode()


def asking(*calls: tuple[str, str]) -> Reply:
    """Return a reply that calls tools, given as id and name."""
    return Reply(content=(Text(text="Wait."), *(ToolCall(id=id_, name=name, input={}) for id_, name in calls)))


def results(session: Session) -> dict[str, str]:
    """Return the status of each tool result in the log, by tool call."""
    messages = [entry.value.message for entry in session.entries() if isinstance(entry.value, Message)]
    return {each.tool_call_id: each.effective_status for each in messages if isinstance(each, ToolResult)}


def test_one_turn(session):
    """ST-10: prompt, reply, tool run and answer are entries in this order; the context is built from them."""
    session.user("What is the weather?")
    reply = session.assistant(asking(("c1", "weather")))
    for call in reply.tool_calls:
        with session.tool(call) as run:
            run.result = {"celsius": 3}
    session.assistant("Three degrees.")
    types = [entry.type for entry in session.entries() if entry.type != "activity"]
    assert types == ["session", "message", "message", "tool_started", "message", "message"]
    assert [message.role for message in session.messages()] == ["user", "assistant", "toolResult", "assistant"]
    assert session.messages()[2].content == (Text(text='{"celsius":3}'),)
    assert not session.needs_reply


def test_the_latest_session_of_a_pair_is_opened(store, session):
    """ST-1: `open` returns the latest session of exactly this pair; one that is terminated is not continued."""
    session.user("hello")
    assert Session.open(store, agent="bot", sender="ada").name == session.name
    assert Session.open(store, agent="bot", sender="Ada").name != session.name
    session.end()
    assert Session.open(store, agent="bot", sender="ada").name != session.name
    assert Session.get(store, session.id).name == Session.get(store, session.name).name
    with pytest.raises(NotFound):
        Session.get(store, "nothing_here_1")


def test_parts_and_files_in_a_prompt(session, tmp_path):
    """LOG-12: images go to the blob store and come back inline in the messages of a request."""
    (tmp_path / "notes.txt").write_text("milk")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG")
    session.user(["Look:", Image(mime_type="image/png", data=PIXEL), tmp_path / "notes.txt", tmp_path / "dot.png"])
    stored = next(entry for entry in session.entries() if entry.type == "message").value.message.content
    assert [part.data for part in stored if isinstance(part, Image)] == [None, None]
    content = session.messages()[0].content
    assert [part.data for part in content if isinstance(part, Image)] == [PIXEL, PIXEL]
    assert content[2] == Text(text="notes.txt:\nmilk")


def test_a_tool_call_with_the_id_of_an_earlier_one(session):
    """RUN-7: provider ids repeat. A result belongs to the last open call with its id."""
    for city in ("Oslo", "Rome"):
        session.user(city)
        session.assistant(asking(("call_1", "weather")))
        with session.tool("call_1") as run:
            run.result = city
        session.assistant("Done.")
    texts = [message.content[0].text for message in session.messages() if message.role == "toolResult"]
    assert texts == ["Oslo", "Rome"]


def test_an_exception_of_a_tool_is_its_result(session):
    """Law 7: the exception is recorded as an error result and does not end the loop."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))

    def refuse() -> None:
        raise ValueError("no money")

    with session.tool("c1") as run:
        refuse()
    assert isinstance(run.exception, ValueError)
    assert results(session) == {"c1": "error"}
    assert session.messages()[-1].content == (Text(text="ValueError: no money"),)


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_an_interrupted_tool(session, error):
    """Law 7: an interruption is recorded and raised again."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    with pytest.raises(error), session.tool("c1"):
        raise error
    assert results(session) == {"c1": "interrupted"}


def test_a_tool_run_without_a_result(session):
    """Law 7: the mistake is reported, and the log says that the outcome is unknown."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    with pytest.raises(UsageError, match=r"without a result.*run\.result"), session.tool("c1"):
        pass
    assert results(session) == {"c1": "unknown"}


def test_none_is_a_result(session):
    """A function that returns nothing has a result."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    with session.tool("c1") as run:
        run.result = None
    assert results(session) == {"c1": "ok"}


def test_long_output_is_clipped_once_and_kept_as_a_blob(session):
    """VIEW-6: the entry keeps both ends, the blob the whole output."""
    session.user("go")
    session.assistant(asking(("c1", "cat")))
    result = session.tool_result("c1", "x" * 100_000)
    assert result.truncated
    assert session.store.blobs.get(result.blob) == b"x" * 100_000
    assert len(session.messages()[-1].content[0].text) < 20_000


def test_secrets_are_redacted_in_the_log_and_not_in_the_returned_reply(session):
    """Law 14: the program needs the real arguments of a tool call; the log must not hold them."""
    key = "sk-ant-api03-" + "a1B2" * 20
    session.user("go")
    reply = session.assistant(Reply(content=(ToolCall(id="c1", name="login", input={"key": key}),)))
    assert reply.tool_calls[0].input == {"key": key}
    with session.tool(reply.tool_calls[0]) as run:
        run.output(f"key: {key}\n")
        run.result = f"logged in with {key}"
    assert not any(key.encode() in line.raw for line in session.store.load(session.name))


# ── order ────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_after_open_tool_calls_is_refused(session):
    """ST-10: the error names `recover`, and nothing is queued."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    before = len([*session.entries()])
    with pytest.raises(OpenToolCalls, match=r"pay \(c1\).*recover"):
        session.user("and?")
    assert len([*session.entries()]) == before


@pytest.mark.parametrize("call", ["c9", ToolCall(id="c9", name="x"), {"id": "c9"}])
def test_a_result_without_an_open_call_is_refused(session, call):
    """Law 7: a dangling result would be refused by the model's API later."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    with pytest.raises(UsageError, match=r"'c9' is not an open tool call.*pay \(c1\)"):
        session.tool_result(call, "done")
    session.tool_result("c1", "done")
    with pytest.raises(UsageError, match="'c1' is not an open tool call"):
        session.tool_result("c1", "again")


@pytest.mark.parametrize(
    ("mistake", "match"),
    [
        (lambda session: session.user(3), "not a prompt: int"),
        (lambda session: session.user([]), "the prompt is empty"),
        (lambda session: session.user([{"type": "text"}]), "not a part of a prompt: dict"),
        (lambda session: session.assistant(3), "not a reply: int"),
        (lambda session: session.assistant({"role": "user", "content": "x"}), "role assistant, not 'user'"),
        (lambda session: session.assistant({"error": {"message": "overloaded"}}), "is an error: overloaded"),
        (lambda session: session.tool(object()), "not a tool call: object"),
        (lambda session: session.tool("c1", replay="maybe"), "not a valid replay mode"),
        (lambda session: session.tool("c1", replay="receipt"), "not a valid replay mode"),
    ],
)
def test_mistakes_are_named_and_write_nothing(session, mistake, match):
    """ST-10: a mistake of the caller is one clear error with a hint; no message is written."""
    session.user("go")
    with pytest.raises(UsageError, match=match) as raised:
        mistake(session)
    assert raised.value.hint
    assert [entry.type for entry in session.entries() if entry.type == "message"] == ["message"]


def test_a_result_after_the_head_was_moved_stays_with_its_call(store, session):
    """TREE-2: a person moves the head while a tool runs; the result goes to the branch of its call."""
    prompt = session.user("go")
    session.assistant(asking(("c1", "pay")))
    with session.tool("c1") as run:
        Session.get(store, session.name).move_head(prompt.id)
        run.result = "paid"
    reply = next(entry for entry in session.read().entries if entry.type == "message" and entry.seq > prompt.seq)
    results_of_reply = session.read().tree.children(reply.id)
    assert len(results_of_reply) == 1


# ── never twice ──────────────────────────────────────────────────────────────────────────────────


def crashed_in_tool(session: Session, **options) -> Session:
    """Return the session as another process finds it after a crash in the body of a tool run."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    session.tool("c1", **options).__enter__()
    session.close()
    return Session.get(session.store, session.name)


def test_a_started_tool_is_not_run_again(session):
    """Law 6: a call that was started before is refused until it is recovered."""
    again = crashed_in_tool(session)
    with pytest.raises(Conflict, match=r"pay \(c1\) was started before.*recover"), again.tool("c1"):
        pytest.fail("the body must not run")
    again.close()


def test_a_safe_tool_is_run_again(session):
    """Law 6: only where the start in the log says that a repetition is safe; each start is an entry."""
    with crashed_in_tool(session, replay="safe") as again:
        with pytest.raises(Conflict), again.tool("c1"):
            pytest.fail("the tool does not say any more that it is safe")
        with again.tool("c1", replay="safe") as run:
            run.result = "done"
        starts = [entry.value.attempt for entry in again.entries() if isinstance(entry.value, ToolStarted)]
        assert starts == [1, 2]
        assert results(again) == {"c1": "ok"}


@pytest.mark.parametrize("answer", ["paid", ToolOutcome("paid")])
def test_a_receipt_becomes_the_result(session, answer):
    """RUN-6: a tool with receipts is asked by its call; it does not run twice."""
    asked = []

    def find(call):
        asked.append((call.tool_call_id, call.attempt))
        return answer

    with crashed_in_tool(session, receipt=find) as again:
        with pytest.raises(Conflict, match="ran before"), again.tool("c1", receipt=find):
            pytest.fail("the body must not run")
        assert asked == [("c1", 1)]
        assert results(again) == {"c1": "ok"}


def test_a_receipt_that_says_not_begun(session):
    """RUN-6: a call that the tool never began runs now."""
    with crashed_in_tool(session, receipt=lambda _: "not begun") as again:
        with again.tool("c1", receipt=lambda _: "not begun") as run:
            run.result = "paid"
        assert results(again) == {"c1": "ok"}


# ── recovery ─────────────────────────────────────────────────────────────────────────────────────


def test_recovery_after_a_crash_in_a_tool(session):
    """Law 6, law 7, RUN-7: the outcome of a started tool is unknown, and so is a start that the log may not show."""
    session.user("go")
    session.assistant(asking(("c1", "pay"), ("c2", "mail")))
    run = session.tool("c1").__enter__()
    run.output("connecting\n")
    session.close()
    with Session.get(session.store, session.name) as again:
        found = again.recover()
        assert found
        assert [(each.tool_call_id, each.status) for each in found.tool_results] == [
            ("c1", "unknown"),
            ("c2", "unknown"),
        ]
        assert "connecting" in found.tool_results[0].text
        assert not any("Not run" in each.text for each in found.tool_results)
        assert not again.recover()
        again.user("and now?")


def test_recovery_of_a_tool_whose_result_is_unreadable(tmp_path):
    """Law 6, RUN-7: the tool ran and its result is lost. It is not said to have stopped, nor not to have run."""
    store = open_store(f"{tmp_path}/s")
    with Session.create(store) as session:
        session.user("go")
        session.assistant(asking(("c1", "pay")))
        with session.tool("c1") as run:
            run.result = "paid"
    path = tmp_path / "s" / f"{session.name}.jsonl"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"text":"paid"', b'"text" "paid"'))
    with Session.get(store, session.name) as again:
        (result,) = again.recover().tool_results
    assert (result.status, result.text) == ("unknown", wording.UNKNOWN_DAMAGED)


def test_recovery_with_receipts(session):
    """RUN-6: recovery asks the function of the tool's name, if the tool was started."""
    with crashed_in_tool(session) as again:
        found = again.recover({"pay": lambda call: f"paid under {call.tool_call_id}"})
        assert [(each.status, each.text) for each in found.tool_results] == [("ok", "paid under c1")]


def failing(call):
    raise ConnectionError(f"no answer about {call.tool_call_id}")


def test_a_receipt_function_that_raises(session):
    """Law 6, law 7: the outcome of its call is unknown and says why; the other calls get their results."""
    session.user("go")
    session.assistant(asking(("c1", "pay"), ("c2", "mail"), ("c3", "pay"), ("c4", "post")))
    for call in ("c1", "c2", "c3"):
        run = session.tool(call).__enter__()
        run.output(f"output of {call}\n")
    session.close()
    with Session.get(session.store, session.name) as again:
        found = again.recover({"pay": failing, "mail": lambda _: "sent"})
        assert results(again) == {"c1": "unknown", "c2": "ok", "c3": "unknown", "c4": "unknown"}
        assert [type(each.exception) for each in found.failed_receipts] == [ConnectionError] * 2
        assert [each.tool_call.id for each in found.failed_receipts] == ["c1", "c3"]
        assert "ConnectionError: no answer about c1" in found.tool_results[0].text
        assert "output of c1" in found.tool_results[0].text
        assert (found.tool_results[1].text, found.tool_results[3].is_error) == ("sent", True)
        assert not again.recover()
        again.user("and now?")


def test_a_receipt_function_that_raises_a_secret(session):
    """Law 14: the text of the exception is redacted, and a long one is clipped."""
    key = "sk-ant-api03-" + "a1B2" * 20

    def leak(_):
        raise RuntimeError("x" * 942 + " " + key + " " + "y" * 100_000)

    with crashed_in_tool(session) as again:
        found = again.recover({"pay": leak})
        assert len(found.tool_results[0].text) < 3_000
        assert not any(b"a1B2a1B2" in line.raw for line in again.store.load(again.name))


def test_a_receipt_function_that_raises_before_a_second_run(session):
    """Law 6: the body does not run, and the program is told to recover."""
    with crashed_in_tool(session, receipt=failing) as again:
        with pytest.raises(Conflict, match=r"ConnectionError: no answer about c1.*recover") as raised:
            again.tool("c1", receipt=failing).__enter__()
        assert isinstance(raised.value.__cause__, ConnectionError)
        assert results(again) == {}


def test_recovery_of_an_interrupted_reply(session):
    """Law 5: what was displayed before a crash is in the log, and shown before anything is recovered (VIEW-10)."""
    session.user("go")
    stream = session.streaming(model="m").__enter__()
    shown = [stream.text(word) for word in ("It ", "is ", "three ")]
    session.close()
    again = Session.get(session.store, session.name)
    assert again.transcript()[-1].text == "".join(shown) == "It is three "
    found = again.recover()
    assert found.interrupted_text == "It is three "
    assert again.needs_reply
    assert dict(again.store.journals(again.name)) == {}
    again.close()


# ── streaming ────────────────────────────────────────────────────────────────────────────────────


def test_a_streamed_reply(session):
    """Law 5: one entry at the end, with all parts; no journal is left."""
    session.user("go")
    with session.streaming(model="m", provider="p") as stream:
        stream.thinking("hm", signature="SIG")
        stream.text("Wait. ")
        stream.text("Now.")
        stream.tool_call("c1", "pay", {"euros": 3})
        stream.finish(stop_reason="tools")
    assert stream.reply.content == (
        Thinking(thinking="hm", signature="SIG"),
        Text(text="Wait. Now."),
        ToolCall(id="c1", name="pay", input={"euros": 3}),
    )
    stored = [*session.entries()][-1].value.message
    assert (stored.content, stored.model, stored.stop_reason) == (stream.reply.content, "m", "tools")
    session.tool_result("c1", "paid")
    with session.streaming() as stream:
        shown = [stream.text("my password=q7Zt2LxW9"), stream.text("vBn4Kd8Rm and"), stream.finish()]
    assert "".join(shown) == [*session.entries()][-1].value.message.text
    assert "q7Zt2LxW9" not in "".join(shown)
    assert dict(session.store.journals(session.name)) == {}


def test_the_final_response_of_a_stream_is_recorded(session):
    """ST-10: the whole response, with usage and signatures, replaces the pieces that were displayed."""
    session.user("go")
    with session.streaming() as stream:
        stream.text("Three ")
        stream.finish({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Three degrees."}]})
    assert stream.reply.text == "Three degrees."
    assert [*session.entries()][-1].value.message.text == "Three degrees."


def test_a_stream_that_fails(session):
    """Law 5: what was displayed is kept as an interrupted reply, and the exception is raised."""
    session.user("go")

    def stream_and_fail() -> None:
        with session.streaming() as stream:
            stream.text("Three ")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        stream_and_fail()
    last = [*session.entries()][-1]
    assert (last.type, last.value.content) == ("partial", (Text(text="Three "),))
    assert dict(session.store.journals(session.name)) == {}
    assert session.needs_reply


# ── other processes and the runtime ──────────────────────────────────────────────────────────────


def test_a_live_holder_keeps_others_out(store, session):
    """LOG-10: while one object records, others get a Conflict and write nothing; `recover` settles no running tool."""
    session.user("go")
    session.assistant(asking(("c1", "pay")))
    other = Session.get(store, session.name)
    before = len([*session.entries()])
    for attempt in (
        other.recover,
        lambda: other.assistant("hi"),
        lambda: other.tool("c1"),
        other.streaming,
        lambda: other.user("hi"),
    ):
        with pytest.raises(Conflict, match="is being run by"):
            attempt()
    assert len([*session.entries()]) == before
    session.close()
    assert other.recover().tool_results[0].status == "unknown"
    other.close()


def test_threads_share_one_session_object(session):
    """ST-10: recording methods may be called from several threads; the results of all tools are kept."""
    session.user("go")
    calls = [(f"c{number}", "pay") for number in range(8)]
    session.assistant(asking(*calls))

    def work(call: str) -> None:
        with session.tool(call) as run:
            run.result = call

    threads = [threading.Thread(target=work, args=(call,)) for call, _ in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results(session) == dict.fromkeys((call for call, _ in calls), "ok")
    assert session.verify().ok


def test_recorded_sessions_are_marked(session):
    """Law 2: the log says that a program records its own loop, from its first entry on, and once."""
    session.user("go")
    session.user("on")
    session.assistant("hi")
    session.user("more")
    session.close()
    session.user("still the same program")
    entries = [entry.value for entry in session.entries()]
    kinds = [each.event if isinstance(each, Activity) else each.type for each in entries]
    first = ["session", "attached", "message", "left", "message"]
    assert kinds == [*first, "attached", "message", "message", "left", "message"]
    assert all(each.recording for each in entries if isinstance(each, Activity) and each.event == "attached")


def test_reads_of_one_session(session):
    """VIEW-3: all entries, and the active part after a compaction; search, usage, fork and labels from one object."""
    session.user("What is the weather in Oslo?")
    session.assistant(Reply(content="Three degrees."))
    session.compact("They talked about Oslo.")
    prompt = session.user("And in Rome?")
    assert [message.role for message in session.messages()] == ["user", "user"]
    assert len([entry for entry in session.entries() if entry.type != "activity"]) == 5
    assert [hit.entry for hit in session.search("rome")] == [prompt.id]
    session.label(prompt.id, "rome")
    other = session.fork(prompt.id)
    assert isinstance(other, Session)
    assert "And in Rome?" in [row.text for row in other.transcript()]
    assert session.usage().calls == 0
