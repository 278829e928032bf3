"""Records of Codex rollouts for tests, as its versions write them, and what every imported session must fulfil."""

from typing import Any

from tests.exchange.samples import MemoryFile, account_of, jsonl
from wakelog.exchange.codex.reader import read_sessions
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ForeignSession, ImportedEntry, SkippedRecords
from wakelog.log.codec import encode
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import KnownBody, Message, Node

THREAD = "01a1e58c-a4a7-7f43-a864-f2fbb0bd7fbc"
CHILD = "01a1e58d-0903-7933-be73-2f41487b1ddb"
TURN = "01a1e58c-a4bc-7471-b196-8366569e851e"


def at(second: int) -> str:
    return f"2026-11-16T18:{second // 60:02}:{second % 60:02}.000Z"


def line(kind: str, payload: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"timestamp": at(second), "type": kind, "payload": payload, **more}


def meta(thread: str = THREAD, **more: Any) -> dict[str, Any]:
    known = {"id": thread, "timestamp": at(0), "cwd": "/repo", "originator": "codex_cli_rs", "cli_version": "0.146.0"}
    return line("session_meta", {**known, "source": "cli", "model_provider": "openai", **more})


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return line("event_msg", {"type": kind, **fields}, 5)


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return line("response_item", {"type": kind, **fields}, 5)


def turn_context(model: str = "gpt-5") -> dict[str, Any]:
    return line("turn_context", {"cwd": "/repo", "model": model, "approval_policy": "never"}, 1)


def user(text: str, **more: Any) -> dict[str, Any]:
    return item("message", role="user", content=[{"type": "input_text", "text": text}], **more)


def answer(text: str, **more: Any) -> dict[str, Any]:
    return item("message", role="assistant", content=[{"type": "output_text", "text": text}], **more)


def reasoning(text: str = "", encrypted: str | None = "gAAA", **more: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return item("reasoning", summary=summary, content=None, encrypted_content=encrypted, **more)


def call(call_id: str, name: str = "shell", arguments: str = '{"command": "ls"}', **more: Any) -> dict[str, Any]:
    return item("function_call", name=name, arguments=arguments, call_id=call_id, **more)


def output(call_id: str, text: Any = "done") -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output=text)


def tokens(used: int, total: int, cached: int = 0, out: int = 7) -> dict[str, Any]:
    """A `token_count` event: `used` is the input of the last response with what was cached."""
    last = {"input_tokens": used, "cached_input_tokens": cached, "output_tokens": out, "total_tokens": used + out}
    info = {"total_token_usage": {"input_tokens": total}, "last_token_usage": last, "model_context_window": 100_000}
    return event("token_count", info=info, rate_limits={"primary": {"used_percent": 1.0}})


LEGACY = [
    meta(),
    user("<environment_context>\n  <cwd>/repo</cwd>\n</environment_context>"),
    event("task_started", turn_id=TURN),
    turn_context(),
    user("Fix the tests"),
    event("user_message", message="Fix the tests", images=[]),
    event("token_count", info=None, rate_limits={}),
    event("agent_reasoning", text="Look first"),
    reasoning("Look first"),
    event("agent_message", message="I look", phase="commentary"),
    answer("I look", phase="commentary"),
    call("call_1"),
    call("call_2"),
    tokens(100, 100, cached=40),
    output("call_1", "Exit code: 0\nWall time: 1.5 seconds\nOutput:\nok\n"),
    output("call_2", "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno\n"),
    event("token_count", info=tokens(100, 100, cached=40)["payload"]["info"], rate_limits={"primary": None}),
    reasoning(encrypted="gBBB"),
    call("call_3"),
    tokens(150, 250, cached=100),
    output("call_3", "aborted by user after 3.0s"),
    user("<turn_aborted>\nThe user interrupted the turn.\n</turn_aborted>"),
    event("turn_aborted", turn_id=TURN, reason="interrupted"),
    turn_context("gpt-5-mini"),
    user("Never mind"),
    answer("Good"),
    tokens(160, 410),
    event("task_complete", turn_id=TURN, last_agent_message="Good"),
]
"""Two turns as versions of early 2026 write them: events before items, usage before the results."""

PAGINATED = [
    {**record, "ordinal": number}
    for number, record in enumerate(
        [
            meta(history_mode="paginated"),
            event("task_started", turn_id=TURN),
            line("world_state", {"full": True, "state": {}}),
            turn_context(),
            user("First", id="msg_1", internal_chat_message_metadata_passthrough={"content_item_kinds": ["user.text"]}),
            event(
                "item_completed",
                turn_id=TURN,
                item={"type": "UserMessage", "id": "u1", "content": [{"type": "text", "text": "First"}]},
            ),
            reasoning("Thought", id="rs_1"),
            call("call_1", id="fc_1"),
            line(
                "token_usage_record",
                {
                    "response_id": "resp_1",
                    "usage": {"input_tokens": 120, "cached_input_tokens": 20, "output_tokens": 3},
                },
            ),
            event(
                "item_completed",
                turn_id=TURN,
                item={"type": "CommandExecution", "id": "call_1", "command": ["ls"], "exit_code": 0},
            ),
            output("call_1", "Chunk ID: 1\nWall time: 0.5 seconds\nProcess exited with code 0\nOutput:\na\n"),
            tokens(120, 120, cached=20),
            event(
                "item_completed",
                turn_id=TURN,
                item={"type": "AgentMessage", "id": "msg_2", "content": [{"type": "Text", "text": "Done"}]},
            ),
            answer("Done", id="msg_2"),
            line("token_usage_record", {"response_id": "resp_2", "usage": {"input_tokens": 130, "output_tokens": 4}}),
            tokens(130, 250),
            event("task_complete", turn_id=TURN, last_agent_message="Done"),
        ]
    )
]

BARE: list[dict[str, Any]] = [
    {"id": "f0e1d2c3-0000-4000-8000-000000000001", "timestamp": "2025-08-01T10:00:00.000Z", "instructions": None},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
    {"record_type": "state"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"},
    {"type": "function_call", "id": "fc_1", "name": "shell", "arguments": "{}", "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": '{"output":"x","metadata":{"exit_code":1}}'},
    {"record_type": "state"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Bye"}]},
]
DOCUMENT: dict[str, Any] = {
    "session": {"timestamp": "2025-04-20T10:00:00.000Z", "id": "f0e1d2c3-0000-4000-8000-000000000002"},
    "items": [BARE[1], *BARE[3:6], BARE[7]],
}


def read(*records: Any, path: str = f"rollout-2026-11-16T18-09-22-{THREAD}.jsonl", **others: bytes) -> ForeignSession:
    """Return the session of records; `others` are files beside it."""
    return read_raw(jsonl(*records), path, others)


def read_raw(raw: bytes, path: str = "rollout.jsonl", others: dict[str, bytes] | None = None) -> ForeignSession:
    (session,) = read_sessions(MemoryFile(raw, path, others))
    return session


def checked(session: ForeignSession, records: int) -> list[KnownBody]:
    """Return the entries of a session that fulfils what every session must: ids, parents, results, the account."""
    items = list(session.items)
    account = account_of(items)
    assert sum(account.values()) == records, account
    assert all(isinstance(item, ImportedEntry | SkippedRecords | BadRecord) for item in items)
    bodies = [item.body for item in items if isinstance(item, ImportedEntry)]
    nodes: set[str | None] = {None}
    calls: dict[tuple[str, str], int] = {}
    ids: set[str] = set()
    for number, body in enumerate(bodies):
        assert body.id not in ids
        assert encode(body)
        assert (body.parent_id in nodes) if number else body.parent_id is None
        assert body.parent_id is not None or number == 0
        ids.add(body.id)
        if isinstance(body, Node):
            nodes.add(body.id)
        message = body.message if isinstance(body, Message) else None
        if isinstance(message, Reply):
            assert message.content
            calls.update({(body.id, each.id): 0 for each in message.tool_calls})
        if isinstance(message, ToolResult):
            assert message.reply_id is not None
            calls[message.reply_id, message.tool_call_id] += 1
    assert all(results <= 1 for results in calls.values())
    return bodies


def entries(*records: Any) -> list[Any]:
    """Return the checked entries of records."""
    return checked(read(*records), len(records))


def messages(bodies: list[Any]) -> list[Any]:
    return [body.message for body in bodies if isinstance(body, Message)]


def replies(bodies: list[Any]) -> list[Reply]:
    return [message for message in messages(bodies) if isinstance(message, Reply)]


def results(bodies: list[Any]) -> list[ToolResult]:
    return [message for message in messages(bodies) if isinstance(message, ToolResult)]
