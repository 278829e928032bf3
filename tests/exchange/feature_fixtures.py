"""One session for each format that is read, with every feature that the format has.

`feature_formats.py` says what each of them holds.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.exchange import aider_histories as aider_text
from tests.exchange import claude_code_files as claude
from tests.exchange import codex_records as rollout
from tests.exchange import crabtalk_files as crab
from tests.exchange import gemini_records as operations
from tests.exchange import goose_records as goose_rows
from tests.exchange import openclaw_records as claw
from tests.exchange import opencode_samples as code
from tests.exchange import test_efferent as efferent_rows
from tests.exchange import test_seed_logs as printed
from tests.exchange.pi_records import Chain, header
from tests.exchange.pi_records import call as pi_call
from tests.exchange.samples import MemoryFile, jsonl
from wakelog.exchange import openclaw
from wakelog.exchange.aider import reader as aider
from wakelog.exchange.claude_code import reader as claude_code
from wakelog.exchange.codex import reader as codex
from wakelog.exchange.crabtalk import reader as crabtalk
from wakelog.exchange.efferent import reader as efferent
from wakelog.exchange.gemini import reader as gemini
from wakelog.exchange.goose import reader as goose
from wakelog.exchange.message_lists import reader as message_list
from wakelog.exchange.opencode import reader as opencode
from wakelog.exchange.pi import reader as pi
from wakelog.exchange.seed_logs import event_sourced, session_structures
from wakelog.exchange.sessions import ForeignSession

PIXEL = "QQ=="
URL = f"data:image/png;base64,{PIXEL}"
FAILED = "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno such file"


# ── Claude Code ──────────────────────────────────────────────────────────────────────────────────


def claude_code_sessions() -> Iterator[ForeignSession]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    task = claude.call("c3", "Task", prompt="Search")
    boundary = claude.chained(
        "system",
        "b1",
        None,
        logicalParentUuid="a5",
        subtype="compact_boundary",
        compactMetadata={"trigger": "auto", "preTokens": 900},
    )
    records = [
        claude.user("u1", None, [claude.text("Look"), image]),
        claude.line("a1", "u1", "m1", claude.thinking("Hm", "c2ln")),
        claude.line("a2", "a1", "m1", claude.text("I look")),
        claude.line("a3", "a2", "m1", claude.call("c1", "bash", command="ls")),
        claude.line("a4", "a3", "m1", claude.call("c2", "bash", command="x"), task, output_tokens=7, stop="tool_use"),
        claude.result("r1", "a4", "c1", [claude.text("a.txt"), image]),
        claude.result("r2", "r1", "c2", "no such file", is_error=True),
        claude.result("r3", "r2", "c3", "found", toolUseResult={"agentId": "a0ad"}),
        claude.user("u2", "r3", "Wrong"),
        claude.line("a5", "u2", "m2", claude.text("Nonsense")),
        claude.user("u3", "r3", "Right"),
        claude.line("a6", "u3", "m3", claude.text("One file")),
        {**boundary, "logicalParentUuid": "a6"},
        claude.user("s1", "b1", "So far", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        claude.user("u4", "s1", "Go on"),
        claude.line("a7", "u4", "m4", claude.text("Done")),
        {"type": "custom-title", "customTitle": "A title", "sessionId": claude.SESSION},
    ]
    child = [{**each, "isSidechain": True, "agentId": "a0ad"} for each in (claude.user("x1", None, "Search"),)]
    others = {f"{claude.SESSION}/subagents/agent-a0ad.jsonl": jsonl(*child)}
    path = f"/p/{claude.SESSION}.jsonl"
    return claude_code.read_sessions(claude.source(*records, path=path, others=others))


# ── Codex ────────────────────────────────────────────────────────────────────────────────────────


def codex_sessions() -> Iterator[ForeignSession]:
    shown = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": URL}]
    pictured = [{"type": "input_text", "text": "a.txt"}, {"type": "input_image", "image_url": URL}]
    records = [
        rollout.meta(git={"branch": "main", "commit_hash": "abc"}),
        rollout.turn_context(),
        rollout.item("message", role="user", content=shown),
        rollout.reasoning("Hm", "c2ln"),
        rollout.answer("I look"),
        rollout.call("c1", "bash"),
        rollout.call("c2", "bash", '{"command": "x"}'),
        rollout.call("c3", "spawn_agent", '{"message": "Search"}'),
        rollout.tokens(100, 100, cached=40),
        rollout.output("c1", pictured),
        rollout.output("c2", FAILED),
        rollout.output("c3", f'{{"agent_id":"{rollout.CHILD}"}}'),
        rollout.user("Wrong"),
        rollout.answer("Nonsense"),
        rollout.event("thread_rolled_back", num_turns=1),
        rollout.line("compacted", {"message": "So far"}),
        rollout.user("Go on"),
        rollout.answer("Done"),
    ]
    records.append(rollout.event("thread_name_updated", thread_id=rollout.THREAD, thread_name="A title"))
    index = {"../../../../session_index.jsonl": jsonl({"id": rollout.CHILD, "thread_name": "Child title"})}
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": rollout.THREAD, "depth": 1}}}
    child = [rollout.meta(rollout.CHILD, source=spawn), rollout.user("Search")]
    folder = "/h/sessions/2026/11/16/rollout-2026-11-16T18-09-22-"
    return itertools.chain.from_iterable(
        codex.read_sessions(MemoryFile(jsonl(*lines), f"{folder}{thread}.jsonl", index))
        for thread, lines in ((rollout.THREAD, records), (rollout.CHILD, child))
    )


# ── pi and OpenClaw ──────────────────────────────────────────────────────────────────────────────


def _chain(first: dict[str, Any]) -> Chain:
    text, image = {"type": "text", "text": "a.txt"}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    usage = {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "cost": {"total": 0.0174}}
    chain = Chain(first).say("u1", "user", [{"type": "text", "text": "Look"}, image])
    chain.say(
        "r1",
        "assistant",
        [
            {"type": "thinking", "thinking": "Hm", "thinkingSignature": "c2ln"},
            {"type": "text", "text": "I look"},
            pi_call("c1", command="ls"),
            pi_call("c2", command="x"),
        ],
        api="anthropic-messages",
        provider="anthropic",
        model="claude-x",
        stopReason="toolUse",
        usage=usage,
    )
    chain.say("t1", "toolResult", [text, image], toolCallId="c1", toolName="bash")
    failed = [{"type": "text", "text": "no such file"}]
    chain.say("t2", "toolResult", failed, toolCallId="c2", toolName="bash", isError=True)
    chain.say("u2", "user", "Wrong").say("r2", "assistant", [{"type": "text", "text": "Nonsense"}])
    chain.add("compaction", "p1", parent="t2", summary="So far", firstKeptEntryId="u3", tokensBefore=900)
    chain.say("u3", "user", "Go on").say("r3", "assistant", [{"type": "text", "text": "Done"}])
    return chain


def pi_sessions() -> Iterator[ForeignSession]:
    records = _chain(header()).add("session_info", "i1", name="A title").records
    return pi.read_sessions(MemoryFile(jsonl(*records)))


def openclaw_sessions() -> Iterator[ForeignSession]:
    chain = _chain(header(id="mom", version=4)).say("r4", "assistant", [pi_call("c3", "sessions_spawn", task="look")])
    started = {"status": "accepted", "childSessionKey": claw.CHILD}
    chain.say("t3", "toolResult", json.dumps(started), toolCallId="c3", toolName="sessions_spawn", details=started)
    chain.say("r5", "assistant", "Done")
    files = {"mom.jsonl": jsonl(*chain.records)}
    sources = (claw.folder("mom.jsonl", **files), claw.folder("kid.jsonl", **files))
    return itertools.chain.from_iterable(openclaw.read_sessions(source) for source in sources)


# ── OpenCode ─────────────────────────────────────────────────────────────────────────────────────


def opencode_sessions() -> Iterator[ForeignSession]:
    picture = code.part("p9", "file", mime="image/png", url=URL)
    thought = code.part("p3", "reasoning", text="Hm", metadata={"anthropic": {"signature": "c2ln"}})
    link = {"metadata": {"sessionId": "ses_2", "parentSessionId": "ses_1"}, "output": "found", "input": {}}
    task = code.part("p7", "tool", callID="c3", tool="task", state={"status": "completed", **link})
    parts = (
        thought,
        code.text("p4", "I look"),
        code.tool("p5", "c1", output="a.txt", attachments=[picture]),
        code.tool("p6", "c2", status="error", error="no such file", input={"command": "x"}),
        task,
    )
    marker, summary = code.compaction("u2", "a5", auto=True)
    summary["parts"][0]["text"] = "So far"
    source = code.database(
        {**code.SESSION, "revert": {"messageID": "u9"}},
        code.user("u1", code.text("p1", "Look"), code.part("p2", "file", mime="image/png", url=URL)),
        code.assistant("a1", *code.reply_parts("a1", *parts), finish="tool-calls"),
        marker,
        summary,
        code.user("u3", code.text("p11", "Go on")),
        code.assistant("a3", *code.reply_parts("a3", code.text("p12", "Done")), finish="stop"),
        code.user("u9", code.text("p13", "Wrong")),
        code.assistant("a9", *code.reply_parts("a9", code.text("p14", "Nonsense")), finish="stop"),
    )
    source.insert(code.CHILD, code.user("k1", code.text("k2", "Search"), session="ses_2"))
    return opencode.read_sessions(source)


# ── Gemini CLI and Goose ─────────────────────────────────────────────────────────────────────────


def gemini_sessions() -> Iterator[ForeignSession]:
    child = operations.uuid("child")
    image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    shown = {**operations.response("c1", "a.txt", "bash")}
    shown["functionResponse"]["parts"] = [image]
    calls = [
        {**operations.answered("c1", name="bash"), "result": [shown]},
        {
            **operations.answered("c2", name="bash", status="error"),
            "args": {"command": "x"},
            "result": [operations.response("c2", "no such file", "bash", "error")],
        },
        operations.answered("c3", "found", name="codebase_investigator", agentId=child),
    ]
    thoughts = [{"subject": "Plan", "description": "Hm", "timestamp": operations.stamp(2)}]
    context = operations.context()
    records = [
        operations.metadata(),
        operations.changed(messages=[context]),
        operations.user("u1", [{"text": "Look"}, image]),
        operations.model("r1", "I look", thoughts=thoughts, toolCalls=calls),
        operations.user("u2", "Wrong", 7),
        operations.model("r3", "Nonsense", 8),
        {"$rewindTo": operations.uuid("u2")},
        operations.changed(
            messages=[
                context,
                operations.user("s1", "So far", 12),
                operations.model("s2", [{"text": operations.ACKNOWLEDGED}]),
            ]
        ),
        operations.user("u4", "Go on", 13),
        operations.model("r5", "Done", 14),
        operations.changed(summary="A title"),
    ]
    inner = jsonl(operations.metadata(sessionId=child, kind="subagent"), operations.user("x1", "Search"))
    others = {f"{operations.SESSION}/{child}.jsonl": inner}
    return gemini.read_sessions(MemoryFile(jsonl(*records), "chats/session-x.jsonl", others))


def goose_sessions() -> Iterator[ForeignSession]:
    rows = goose_rows
    thought = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    calls = [
        rows.request("c1", "bash"),
        rows.request("c2", "bash", {"command": "x"}),
        rows.request("c3", "delegate", {"instructions": "Search"}),
    ]
    results = [
        rows.response("c1", rows.text("a.txt"), image),
        rows.response("c2", rows.text("no such file"), is_error=True),
        rows.response("c3", rows.text("found"), _meta={"subagent_session_id": "20260301_2"}),
    ]
    hidden = [
        rows.message(0, "user", "Look", image, metadata=rows.HIDDEN),
        rows.message(1, "assistant", thought, "I look", *calls, metadata=rows.HIDDEN),
        rows.message(2, "user", *results, metadata=rows.HIDDEN),
    ]
    database = rows.Database()
    database.add_session(
        [
            *hidden,
            rows.message(3, "user", "So far", metadata=rows.AGENT_ONLY),
            rows.message(3, "assistant", "Your context was compacted.", metadata=rows.AGENT_ONLY, id="note"),
            rows.message(4, "user", "Go on"),
            rows.message(5, "assistant", "Done"),
        ],
        name="A title",
        total_tokens=140,
    )
    database.add_session([rows.message(1, "user", "Search")], "20260301_2", session_type="sub_agent", name="Task")
    return goose.read_sessions(database.source)


# ── efferent, crabtalk, Aider ────────────────────────────────────────────────────────────────────


def efferent_sessions() -> Iterator[ForeignSession]:
    rows = efferent_rows
    database = rows.Database(rows.OLDER).conversation(title="A title", model="acme:m-1")
    database.insert(
        "context_nodes",
        id=rows.NODE,
        root_conversation_id=rows.ROOT,
        edge_kind="spawned",
        folder="/repo",
        seed='{"kind":"task"}',
        created_at=rows.T0 + 2,
    )
    database.say("user", "Look", at=1)
    calls = (
        rows.call("c1", command="ls"),
        rows.call("c2", command="x"),
        rows.call("r1", "run_agent", task="Search"),
    )
    thought = {"type": "reasoning", "text": "Hm", "providerOptions": {"anthropic": {"signature": "c2ln"}}}
    counts = {"inputTokens": 120, "outputTokens": 20, "cacheReadTokens": 100}
    database.say("assistant", [thought, rows.text("I look"), *calls], at=2, providerOptions={"efferent": counts})
    results = [
        rows.result("c1", "a.txt"),
        rows.result("c2", "no such file", isError=True),
        rows.result("r1", {"nodeId": rows.NODE, "status": "running"}, "run_agent"),
    ]
    database.say("tool", results, at=3)
    fold = {"conversation_id": rows.ROOT, "message_position": 2, "summary": "So far", "created_at": rows.T0 + 4}
    database.insert("checkpoints", **fold)
    database.say("user", "Go on", at=5).say("assistant", [rows.text("Done")], at=6)
    database.say("user", "Search", at=7, session=rows.NODE)
    return efferent.read_sessions(database.source())


def crabtalk_sessions() -> Iterator[ForeignSession]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    text = {"type": "text", "text": "a.txt"}
    thought = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    calls = [crab.use("c1", command="ls"), crab.use("c2", command="x")]
    lines = [
        crab.entry("user", [{"type": "text", "text": "Look"}, image]),
        crab.entry("assistant", [thought, {"type": "text", "text": "I look"}, *calls]),
        crab.entry("user", [crab.result("c1", [text, image]), crab.result("c2", "no such file", is_error=True)]),
        {"compact": "So far"},
        crab.entry("user", "Go on"),
        crab.entry("assistant", "Done"),
        crab.done(at=9, model="m-1", input_tokens=10, output_tokens=2),
    ]
    return crabtalk.read_sessions(crab.file_of(lines, meta={**crab.META, "title": "A title", "root": "/repo"}))


def aider_sessions() -> Iterator[ForeignSession]:
    history = aider_text
    several = "> Tokens: 9k sent, 1k cache write, 2k cache hit, 5 received.\nCost: $0.02 message, $0.05 session.  \n"
    text = history.chat(
        history.typed("Look"),
        history.answered(f"{'-' * 12}\n► **THINKING**\n\nHm\n\n{'-' * 12}\n► **ANSWER**\n\nI look", None),
        several,
        history.typed("/clear"),
        history.said("All chat history cleared."),
        history.typed("Go on"),
        history.answered("Done"),
    )
    return aider.read_sessions(MemoryFile(text.encode(), f"/repo/{history.NAME}"))


# ── printed logs and lists of messages ───────────────────────────────────────────────────────────


def session_structures_sessions() -> Iterator[ForeignSession]:
    record = printed.record
    records = [
        record(0, "session_meta", session_id="s", cwd="/repo", title="A title", model="m-1", provider="acme"),
        record(1, "user", text="Look"),
        record(2, "reasoning_finished", text="Hm"),
        record(3, "assistant_finished", message_id="m0", text="I look"),
        record(4, "tool_started", call_id="c1", name="bash", input={"command": "ls"}),
        record(5, "tool_finished", call_id="c1", status="ok", output="a.txt"),
        record(6, "tool_started", call_id="c2", name="bash", input={"command": "x"}),
        record(7, "tool_finished", call_id="c2", status="failed", error="no such file"),
        record(8, "user", text="Go on"),
        record(9, "assistant_finished", message_id="m1", text="Done", usage={"input": 5, "output": 2, "cache_read": 3}),
    ]
    return session_structures.read_sessions(MemoryFile(jsonl(*records)))


def event_sourced_sessions() -> Iterator[ForeignSession]:
    event = printed.event
    events = [
        event(1, "MESSAGE_RECEIVED", role="user", text="Look"),
        event(2, "LLM_CALLED", model="m-1", prompt_tokens=5),
        event(3, "GEN_START", msg_id="m1"),
        event(4, "GEN_CHUNK", msg_id="m1", seq=0, delta="I look"),
        event(5, "TOOL_INVOKED", call_id="c1", name="bash", args={"command": "ls"}),
        event(6, "TOOL_RESULT", call_id="c1", ok=True, data="a.txt"),
        event(7, "TOOL_INVOKED", call_id="c2", name="bash", args={"command": "x"}),
        event(8, "TOOL_RESULT", call_id="c2", ok=False, data="no such file"),
        event(9, "MESSAGE_RECEIVED", role="user", text="Go on"),
        event(10, "GEN_START", msg_id="m2"),
        event(11, "GEN_CHUNK", msg_id="m2", seq=0, delta="Done"),
        event(12, "GEN_COMPLETE", msg_id="m2", reason="stop"),
    ]
    return event_sourced.read_sessions(MemoryFile(jsonl(*events)))


def message_list_sessions() -> Iterator[ForeignSession]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    text = {"type": "text", "text": "a.txt"}
    calls = [
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "c2", "name": "bash", "input": {"command": "x"}},
    ]
    usage = {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8}
    answers = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text, image]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such file", "is_error": True},
    ]
    thought = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    found = [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
        {
            "role": "assistant",
            "model": "claude-x",
            "usage": usage,
            "content": [thought, {"type": "text", "text": "I look"}, *calls],
        },
        {"role": "user", "content": answers},
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": "Done"},
    ]
    return message_list.read_sessions(MemoryFile(json.dumps(found).encode(), "list.json"))
