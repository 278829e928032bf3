"""Histories of Aider for tests, written the way Aider appends to them."""

from tests.exchange.samples import MemoryFile, entries_of
from wakelog.exchange.aider import reader
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import Custom, Message

NAME = ".aider.chat.history.md"
HEAD = ("Aider v0.86.2", "Main model: openai/gpt-x with diff edit format", "Git repo: none")


def start(second: int = 0) -> str:
    return f"\n# aider chat started at 2026-03-01 10:00:{second:02}\n\n"


def typed(text: str) -> str:
    return "\n#### " + "  \n#### ".join(text.splitlines() or ["<blank>"]).rstrip() + "  \n"


def said(*lines: str) -> str:
    return "".join(f"> {line}".rstrip() + "  \n" for line in lines)


def answered(text: str, tokens: str | None = "Tokens: 1.2k sent, 30 received.") -> str:
    return f"\n{text.strip()}\n\n" + (said(tokens) if tokens else "")


def chat(*pieces: str, second: int = 0) -> str:
    return start(second) + said(*HEAD) + "".join(pieces)


def sessions(text: str, **others: bytes):
    """Return the sessions of a chat history, each with its items."""
    source = MemoryFile(text.encode(), NAME, {name.replace("_", "."): raw for name, raw in others.items()})
    return [(session, list(session.items)) for session in reader.read_sessions(source)]


def bodies(text: str):
    """Return the entries of the only session of a history."""
    (session,) = [
        entries_of(session) for session in reader.read_sessions(MemoryFile(text.encode("utf-8", "surrogatepass"), NAME))
    ]
    return session


def conversation(entries):
    """Return prompts and answers as pairs of role and text."""
    return [
        ("user" if isinstance(entry.message, Prompt) else "assistant", entry.message.text)
        for entry in entries
        if isinstance(entry, Message) and isinstance(entry.message, Prompt | Reply)
    ]


def customs(entries, kind):
    return [entry.data["text"] for entry in entries if isinstance(entry, Custom) and entry.custom_type == kind]
