"""The formats that are read: what the session of each (`feature_fixtures.py`) holds, and what the format lacks.

`holds` has the facts (`feature_facts.py`) that are in the records. A feature that a format lacks is in `lacks`, with
what its files have instead or why; one of which some facts do not become entries of their own is in `partly`.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from tests.exchange import feature_fixtures as sessions
from tests.exchange.feature_fixtures import FAILED, PIXEL
from tests.exchange.gemini_records import FOLDER
from wakelog.exchange.sessions import ForeignSession

IMAGES = (f"of a person: image/png {PIXEL}", f"of a tool: image/png {PIXEL}")
LS = 'bash {"command": "ls"}'
TOLD = ("asked: Look", "answered: I look", "asked: Go on", "answered: Done")
RESULTS = ("bash ok: a.txt", "bash error: no such file")
THOUGHT = ("text: Hm", "signature: c2ln")
BRANCHED = ("ends with: Nonsense", "ends with: Done", "continues at: Done")
FOLDED = ("summary: So far", "not seen: Look", "not seen: I look", "seen: Go on", "seen: Done")
LINEAR = "one conversation in order"


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format: its name in the tables, a session of it, and what that session holds."""

    title: str
    sessions: Callable[[], Iterator[ForeignSession]]
    holds: Mapping[str, tuple[str, ...]]
    lacks: Mapping[str, str] = {}
    """Features that the format has no place for, each with the reason."""
    partly: Mapping[str, str] = {}
    """Features of which not all is in an entry made for it: what becomes of the rest."""


BASIC = {"messages": TOLD, "calls": (LS, 'bash {"command": "x"}'), "results": RESULTS}
FORMATS: Mapping[str, Format] = {
    "claude_code": Format(
        title="Claude Code",
        sessions=sessions.claude_code_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": ("input_tokens: 3", "cache_read_tokens: 100", "cache_write_tokens: 20", "output_tokens: 7"),
            "model": ("claude-opus-4-6",),
            "title": ("A title",),
            "compaction": FOLDED,
            "branches": BRANCHED,
            "sub-agents": ("asked: Search", "started by Task"),
            "cwd/git": ("/repo", "branch main"),
        },
        partly={"cwd/git": "the Git branch is kept verbatim, where it changes"},
    ),
    "codex": Format(
        title="Codex",
        sessions=sessions.codex_sessions,
        holds={
            **BASIC,
            "results": ("bash ok: a.txt", f"bash error: {FAILED}"),
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": ("input_tokens: 60", "cache_read_tokens: 40", "output_tokens: 7"),
            "model": ("gpt-5",),
            "title": ("A title", "Child title"),
            "compaction": FOLDED,
            "branches": BRANCHED,
            "sub-agents": ("asked: Search", "started by spawn_agent"),
            "cwd/git": ("/repo", "branch main"),
        },
        partly={
            "title": "a title in `session_index.jsonl` or the state database is read when the rollout is imported",
            "cwd/git": "the Git branch and commit are kept verbatim",
        },
    ),
    "pi": Format(
        title="pi",
        sessions=sessions.pi_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": (
                *("input_tokens: 10", "output_tokens: 5", "cache_read_tokens: 3", "cache_write_tokens: 2"),
                "cost_micros: 17400",
            ),
            "model": ("claude-x",),
            "title": ("A title",),
            "compaction": FOLDED,
            "branches": BRANCHED,
            "cwd/git": ("/repo",),
        },
        lacks={"sub-agents": "pi starts none"},
    ),
    "opencode": Format(
        title="OpenCode",
        sessions=sessions.opencode_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": (
                *("input_tokens: 100", "output_tokens: 27", "cache_read_tokens: 50", "cache_write_tokens: 5"),
                "cost_micros: 1500",
            ),
            "model": ("m-1",),
            "title": ("A title",),
            "compaction": FOLDED,
            "branches": ("ends with: Nonsense", "continues at: Done"),
            "sub-agents": ("asked: Search", "started by task"),
            "cwd/git": ("/repo",),
        },
    ),
    "openclaw": Format(
        title="OpenClaw",
        sessions=sessions.openclaw_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": (
                *("input_tokens: 10", "output_tokens: 5", "cache_read_tokens: 3", "cache_write_tokens: 2"),
                "cost_micros: 17400",
            ),
            "model": ("claude-x",),
            "title": ("Mother",),
            "compaction": FOLDED,
            "branches": BRANCHED,
            "sub-agents": ("asked: look", "started by sessions_spawn"),
            "cwd/git": ("/repo",),
        },
    ),
    "gemini": Format(
        title="Gemini CLI",
        sessions=sessions.gemini_sessions,
        holds={
            **BASIC,
            "thinking": ("text: **Plan** Hm",),
            "images": IMAGES,
            "usage": ("input_tokens: 60", "output_tokens: 25", "cache_read_tokens: 40"),
            "model": ("gemini-2.5-flash",),
            "title": ("A title",),
            "compaction": FOLDED,
            "branches": BRANCHED,
            "sub-agents": ("asked: Search", "started by codebase_investigator"),
            "cwd/git": (FOLDER,),
        },
    ),
    "goose": Format(
        title="Goose",
        sessions=sessions.goose_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": ("tokens of the session: 140",),
            "model": ("claude-4",),
            "title": ("A title",),
            "compaction": FOLDED,
            "sub-agents": ("asked: Search", "started by delegate"),
            "cwd/git": ("/repo",),
        },
        lacks={"branches": LINEAR},
        partly={"usage": "the token counts, which are sums of the session, are kept verbatim"},
    ),
    "efferent": Format(
        title="efferent",
        sessions=sessions.efferent_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "usage": ("input_tokens: 20", "output_tokens: 20", "cache_read_tokens: 100"),
            "model": ("m-1",),
            "title": ("A title",),
            "compaction": FOLDED,
            "sub-agents": ("asked: Search", "started by run_agent"),
            "cwd/git": ("/repo",),
        },
        lacks={"branches": "a fork is a copy without a reference", "images": "messages are text"},
    ),
    "crabtalk": Format(
        title="crabtalk",
        sessions=sessions.crabtalk_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": ("input_tokens: 10", "output_tokens: 2"),
            "model": ("m-1",),
            "title": ("A title",),
            "compaction": FOLDED,
            "cwd/git": ("/repo",),
        },
        lacks={"branches": LINEAR, "sub-agents": "no reference to them"},
    ),
    "aider": Format(
        title="Aider",
        sessions=sessions.aider_sessions,
        holds={
            "messages": TOLD,
            "thinking": ("text: Hm",),
            "usage": (
                *("input_tokens: 6000", "output_tokens: 5", "cache_read_tokens: 2000", "cache_write_tokens: 1000"),
                "cost_micros: 20000",
            ),
            "model": ("openai/gpt-x",),
            "compaction": ("not seen: Look", "seen: Go on"),
        },
        lacks={
            "cwd/git": "the history stands in the folder",
            "calls": "Aider has no tools",
            "results": "Aider has no tools",
            "images": "the history is text",
            "title": "not recorded",
            "branches": LINEAR,
            "sub-agents": "Aider starts none",
        },
    ),
    "session_structures": Format(
        title="printed log, document 001",
        sessions=sessions.session_structures_sessions,
        holds={
            **BASIC,
            "thinking": ("text: Hm",),
            "usage": ("input_tokens: 5", "output_tokens: 2", "cache_read_tokens: 3"),
            "model": ("m-1",),
            "title": ("A title",),
            "cwd/git": ("/repo",),
        },
        lacks={
            "images": "attachments are names",
            "compaction": "no record for it",
            "branches": LINEAR,
            "sub-agents": "no record for them",
        },
    ),
    "event_sourced": Format(
        title="printed log, document 002",
        sessions=sessions.event_sourced_sessions,
        holds={**BASIC, "usage": ("prompt tokens: 5",), "model": ("m-1",)},
        partly={"usage": "the tokens of the prompt are kept verbatim"},
        lacks={
            "thinking": "no event for it",
            "images": "messages are text",
            "title": "no event for it",
            "compaction": "no event for it",
            "branches": LINEAR,
            "sub-agents": "no event for them",
            "cwd/git": "no event for it",
        },
    ),
    "message_list": Format(
        title="message lists",
        sessions=sessions.message_list_sessions,
        holds={
            **BASIC,
            "thinking": THOUGHT,
            "images": IMAGES,
            "usage": ("input_tokens: 5", "output_tokens: 6", "cache_read_tokens: 7", "cache_write_tokens: 8"),
            "model": ("claude-x",),
        },
        lacks={
            "title": "a list has none",
            "compaction": "a list has only what the model is sent",
            "branches": LINEAR,
            "sub-agents": "a list has none",
            "cwd/git": "a list has none",
        },
    ),
}
"""The formats that are read, by the name of their reader in `detection.READERS`."""
