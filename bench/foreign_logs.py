"""Logs of other agents, made in bulk: sessions as Claude Code and Codex write them, from a seeded generator.

The kinds of records, their fields and the share of bytes of each kind are those of real sessions: most bytes are tool
results of some KB, a few of 100 KB. Claude Code writes one line for each block and every result twice; Codex writes
what the model saw and what was displayed. One file of a hundred is twenty times as large as the others.
"""

import argparse
import asyncio.base_events
import base64
import difflib
import inspect
import os
import random
import tarfile
import typing
import unittest.mock
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from bench.made import Words
from wakelog.log.timestamps import iso_timestamp

JsonObject: TypeAlias = dict[str, Any]
_START_MS = 1_767_261_600_000
_SOURCES = (argparse, asyncio.base_events, difflib, inspect, tarfile, typing, unittest.mock)
_LARGE_ONE_IN, _LARGE_TIMES = 100, 20
_LARGE_RESULT_ONE_IN, _LARGE_RESULT = 100, 100_000
_STEPS_MAX = 8
_TURNS_UNTIL_COMPACTION = 15


class Material:
    """Texts of the kinds that sessions consist of, drawn from one seed."""

    def __init__(self, words: Words, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self._words = words
        self._code = "".join(map(inspect.getsource, _SOURCES))
        self._noise = base64.b64encode(self.chance.randbytes(100_000)).decode()

    def prose(self, size: int) -> str:
        """Return sentences of about so many characters."""
        return self._words.text(size) + "."

    def output(self) -> str:
        """Return what a tool printed: some KB of source code, now and then 100 KB."""
        is_large = self.chance.randrange(_LARGE_RESULT_ONE_IN) == 0
        size = _LARGE_RESULT if is_large else min(30_000, int(self.chance.lognormvariate(7.6, 1.0)))
        at = self.chance.randrange(len(self._code) - size)
        return self._code[at : at + size]

    def noise(self, size: int) -> str:
        """Return a text that looks random, as signatures and encrypted content do."""
        at = self.chance.randrange(len(self._noise) - size)
        return self._noise[at : at + size]

    def uuid(self) -> str:
        """Return a UUID."""
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def uuid_with_time(self) -> str:
        """Return a UUID that begins with a time, as Codex makes them (version 7)."""
        time_ms = _START_MS + self.chance.randrange(10**9)
        return f"{time_ms >> 16:08x}-{time_ms & 0xFFFF:04x}-7{self.uuid()[15:]}"

    def call(self, prefix: str) -> str:
        """Return the id of a call."""
        return f"{prefix}{self.chance.getrandbits(120):024x}"


class _Clock:
    def __init__(self) -> None:
        self._now_ms = _START_MS

    def tick(self) -> str:
        """Return the time of the next record."""
        self._now_ms += 1_731
        return iso_timestamp(self._now_ms)


# ── Claude Code ──────────────────────────────────────────────────────────────────────────────────


class _ClaudeCode:
    """Makes the records of one session of Claude Code, each below the last."""

    def __init__(self, session: str, made: Material) -> None:
        self._session = session
        self._made = made
        self._clock = _Clock()
        self._last: str | None = None

    def records(self) -> Iterator[JsonObject]:
        """Yield records without end."""
        turn = 0
        while True:
            turn += 1
            yield from self._turn()
            if turn == 1:
                yield {"type": "ai-title", "aiTitle": self._made.prose(40), "sessionId": self._session}
            if turn % _TURNS_UNTIL_COMPACTION == 0:
                yield from self._compaction()

    def _turn(self) -> Iterator[JsonObject]:
        made = self._made
        prompt = self._record("user", message={"role": "user", "content": made.prose(250)})
        yield prompt
        snapshot = {"messageId": prompt["uuid"], "trackedFileBackups": {}, "timestamp": prompt["timestamp"]}
        kept: JsonObject = {"messageId": prompt["uuid"], "snapshot": snapshot, "isSnapshotUpdate": False}
        yield {"type": "file-history-snapshot", **kept}
        for _ in range(made.chance.randrange(1, _STEPS_MAX)):
            yield from self._step()
        yield from self._reply([{"type": "text", "text": made.prose(800)}], "end_turn")
        yield self._record("system", subtype="turn_duration", durationMs=made.chance.randrange(100_000), isMeta=False)

    def _step(self) -> Iterator[JsonObject]:
        """Yield a reply with one or two tool calls, one line for each of its blocks, and the results."""
        made = self._made
        calls = [made.call("toolu_01") for _ in range(made.chance.choice((1, 1, 1, 2)))]
        blocks: list[JsonObject] = []
        if made.chance.random() < 0.2:
            blocks.append({"type": "thinking", "thinking": made.prose(400), "signature": made.noise(600)})
        if made.chance.random() < 0.5:
            blocks.append({"type": "text", "text": made.prose(150)})
        for call in calls:
            command = {"command": made.prose(60), "description": made.prose(40)}
            blocks.append({"type": "tool_use", "id": call, "name": "Bash", "input": command})
        yield from self._reply(blocks, "tool_use")
        for call in calls:
            data = {"type": "hook_progress", "hookEvent": "PostToolUse", "hookName": "PostToolUse:Bash"}
            yield self._record("progress", data=data, parentToolUseID=call, toolUseID=call)
            yield self._result(call)

    def _reply(self, blocks: list[JsonObject], stop_reason: str) -> Iterator[JsonObject]:
        made = self._made
        usage = {
            "input_tokens": made.chance.randrange(10),
            "cache_creation_input_tokens": made.chance.randrange(5_000),
            "cache_read_input_tokens": made.chance.randrange(150_000),
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": made.chance.randrange(1_000),
            "service_tier": "standard",
        }
        message, request = made.call("msg_01"), made.call("req_01")
        for number, block in enumerate(blocks, 1):
            said = {
                "model": "claude-opus-4-6",
                "id": message,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": stop_reason if number == len(blocks) else None,
                "stop_sequence": None,
                "usage": usage,
            }
            yield self._record("assistant", message=said, requestId=request)

    def _result(self, call: str) -> JsonObject:
        output, caller = self._made.output(), self._last
        block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
        shown = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        message = {"role": "user", "content": [block]}
        return self._record("user", message=message, toolUseResult=shown, sourceToolAssistantUUID=caller)

    def _compaction(self) -> Iterator[JsonObject]:
        before, self._last = self._last, None
        metadata = {"trigger": "auto", "preTokens": self._made.chance.randrange(100_000, 180_000)}
        yield self._record(
            "system",
            subtype="compact_boundary",
            content="Conversation compacted",
            logicalParentUuid=before,
            isMeta=False,
            level="info",
            compactMetadata=metadata,
        )
        message = {"role": "user", "content": self._made.prose(6_000)}
        yield self._record("user", message=message, isVisibleInTranscriptOnly=True, isCompactSummary=True)

    def _record(self, kind: str, **more: Any) -> JsonObject:
        parent, self._last = self._last, self._made.uuid()
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/user/workspace/project",
            "sessionId": self._session,
            "version": "2.1.36",
            "gitBranch": "main",
            "type": kind,
            **more,
            "uuid": self._last,
            "timestamp": self._clock.tick(),
        }


def claude_code_session(made: Material) -> tuple[str, Iterator[JsonObject]]:
    """Return the name of a file of Claude Code, and its records without end."""
    session = made.uuid()
    return f"{session}.jsonl", _ClaudeCode(session, made).records()


# ── Codex ────────────────────────────────────────────────────────────────────────────────────────


class _Codex:
    """Makes the lines of one rollout."""

    def __init__(self, session: str, made: Material) -> None:
        self._session = session
        self._made = made
        self._clock = _Clock()

    def records(self) -> Iterator[JsonObject]:
        """Yield records without end."""
        yield self._line(
            "session_meta",
            id=self._session,
            timestamp=iso_timestamp(_START_MS),
            cwd="/home/user/workspace/project",
            originator="codex_cli_rs",
            cli_version="0.108.0",
            source="cli",
            model_provider="openai",
            base_instructions={"text": self._made.prose(12_000)},
        )
        yield self._message("developer", "<permissions instructions>" + self._made.prose(3_000))
        turn = 0
        while True:
            turn += 1
            yield from self._turn()
            if turn % _TURNS_UNTIL_COMPACTION == 0:
                yield from self._compaction()

    def _turn(self) -> Iterator[JsonObject]:
        made, turn = self._made, self._made.uuid()
        yield self._line("event_msg", type="task_started", turn_id=turn, model_context_window=258_400)
        instructions = {"mode": "default", "settings": {"model": "gpt-5.3-codex", "developer_instructions": None}}
        yield self._line(
            "turn_context",
            turn_id=turn,
            cwd="/home/user/workspace/project",
            approval_policy="never",
            sandbox_policy={"type": "danger-full-access"},
            model="gpt-5.3-codex",
            collaboration_mode=instructions,
        )
        prompt = made.prose(250)
        yield self._message("user", prompt)
        yield self._line("event_msg", type="user_message", message=prompt, images=[], local_images=[], text_elements=[])
        for _ in range(made.chance.randrange(1, _STEPS_MAX)):
            yield from self._step()
        yield from self._said(800, "final_answer")
        yield self._token_count()
        yield self._line("event_msg", type="task_complete", turn_id=turn, last_agent_message=None)

    def _step(self) -> Iterator[JsonObject]:
        """Yield a response with one or two tool calls, and the results."""
        made = self._made
        yield self._line(
            "response_item", type="reasoning", summary=[], content=None, encrypted_content=made.noise(1_800)
        )
        if made.chance.random() < 0.5:
            yield from self._said(150, "commentary")
        calls = [made.call("call_") for _ in range(made.chance.choice((1, 1, 1, 2)))]
        for call in calls:
            arguments = msgspec.json.encode({"command": made.prose(60), "workdir": "/home/user"}).decode()
            yield self._line(
                "response_item", type="function_call", name="shell_command", arguments=arguments, call_id=call
            )
        yield self._token_count()
        for call in calls:
            output = f"Exit code: 0\nWall time: 1.1 seconds\nOutput:\n{made.output()}"
            yield self._line("response_item", type="function_call_output", call_id=call, output=output)

    def _said(self, size: int, phase: str) -> Iterator[JsonObject]:
        text = self._made.prose(size)
        yield self._line("event_msg", type="agent_message", message=text, phase=phase)
        content = [{"type": "output_text", "text": text}]
        yield self._line("response_item", type="message", role="assistant", content=content, phase=phase)

    def _token_count(self) -> JsonObject:
        usage = {
            "input_tokens": self._made.chance.randrange(100_000, 200_000),
            "cached_input_tokens": self._made.chance.randrange(100_000),
            "output_tokens": self._made.chance.randrange(1_000),
            "reasoning_output_tokens": 0,
            "total_tokens": 200_000,
        }
        info = {"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 258_400}
        limits = {"primary": {"used_percent": 2.0, "window_minutes": 300, "resets_at": 1_772_790_651}, "credits": None}
        return self._line("event_msg", type="token_count", info=info, rate_limits=limits)

    def _compaction(self) -> Iterator[JsonObject]:
        summary = self._made.prose(6_000)
        texts = [*(self._made.prose(250) for _ in range(4)), f"Another model worked on this before.\n{summary}"]
        history = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts
        ]
        yield self._line("compacted", message=summary, replacement_history=history)
        yield self._line("event_msg", type="context_compacted")

    def _message(self, role: str, text: str) -> JsonObject:
        content = [{"type": "input_text", "text": text}]
        return self._line("response_item", type="message", role=role, content=content)

    def _line(self, kind: str, /, **payload: Any) -> JsonObject:
        return {"timestamp": self._clock.tick(), "type": kind, "payload": payload}


def codex_session(made: Material) -> tuple[str, Iterator[JsonObject]]:
    """Return the name of a rollout of Codex, and its records without end."""
    session = made.uuid_with_time()
    return f"rollout-2026-01-01T10-00-00-{session}.jsonl", _Codex(session, made).records()


# ── files ────────────────────────────────────────────────────────────────────────────────────────

MakeSession: TypeAlias = Callable[[Material], tuple[str, Iterator[JsonObject]]]
TOOLS: dict[str, MakeSession] = {"Claude Code": claude_code_session, "Codex": codex_session}


def write_logs(folder: str, words: Words, make: MakeSession, *, files: int, megabytes: int) -> list[str]:
    """Write so many files with so many megabytes altogether; return their paths."""
    made = Material(words)
    os.makedirs(folder)
    large = files // _LARGE_ONE_IN
    usual = megabytes * 1_000_000 // (files - large + large * _LARGE_TIMES)
    paths = []
    for number in range(files):
        name, records = make(made)
        size = usual * _LARGE_TIMES if number % _LARGE_ONE_IN == _LARGE_ONE_IN - 1 else usual
        paths.append(os.path.join(folder, name))
        with open(paths[-1], "wb") as file:
            while file.tell() < size:
                file.write(msgspec.json.encode(next(records)) + b"\n")
    return paths
