"""Logs to be damaged, and functions that read them.

The logs are made by the product itself on real files, with ids and times that are the same on every run.
They hold every kind of nesting a line can have (tool calls, carried state), because a cut or a flip must
not find a record where there is none.
"""

import os

from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult, Usage
from wakelog.log.entry import Attention, ContextEntry, Message, ModelCall, Queued, Sent, ToolStarted
from wakelog.log.ids import RANDOM_BYTES, new_id
from wakelog.log.integrity import SealReport, verify_seals
from wakelog.log.lines import Damage, Line, split_lines
from wakelog.reading import Log, read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

NAME = "agent_user_1"


class Ticks:
    """A clock that moves a second at each call, and random numbers that never repeat: both the same on every run."""

    def __init__(self, start: int = 0) -> None:
        self._count = start

    def now_ms(self) -> int:
        self._count += 1
        return 1_767_261_600_000 + 1_000 * self._count

    def new_id(self) -> str:
        self._count += 1
        return new_id(self.now_ms(), self._count.to_bytes(RANDOM_BYTES, "big"))


def small_log(folder: str, *, entries: int = 40) -> Session:
    """A session of short lines: prompts and replies with ids of a few letters."""
    session = Session.create(JsonlStore(folder), session_id="s", clock=Ticks())
    for at in range(1, entries):
        said = Reply(content=f"r{at}") if at % 2 == 0 else Prompt(content=f"p{at}")
        session.append(Message(id=f"e{at}", message=said))
    return session


def rich_log(folder: str, *, turns: int = 4) -> Session:
    """A session of about 40 entries: tools, each kind of annotation, a fork, and a compaction that carries state."""
    session = Session.create(JsonlStore(folder), session_id="s", title="A log", clock=Ticks())
    session.append(ContextEntry(id="c0", params={"temperature": 1}, policy={"steps": [{"id": "x", "type": "y"}]}))
    for turn in range(turns):
        _turn(session, turn)
    session.append(Queued(id="q1", message=Prompt(content=(Text(text='later {"type":"queued","id":"no"}'),))))
    session.append(Attention(id="a1", reason="a person is needed", refs=("r1",)))
    session.compact("what was said before", first_kept="p3")
    session.move_head("p2")
    session.append(Message(id="f1", message=Prompt(content="another way, with U+2028 \u2028 and a lone { inside")))
    session.label("f1", "fork")
    session.rename("A longer title")
    return session


def _turn(session: Session, turn: int) -> None:
    session.append(Message(id=f"p{turn}", message=Prompt(content=(Text(text=f'ask "{turn}" {{"id":"z"}}'),))))
    session.append(ModelCall(id=f"k{turn}", call_id=f"k{turn}", reply_id=f"r{turn}", channels=("terminal",)))
    calls = (ToolCall(id="t1", name="read", input={"path": "a"}), ToolCall(id="t2", name="sh"))
    reply = Reply(content=(Text(text="look"), *calls), call_id=f"k{turn}", usage=Usage(input_tokens=3))
    session.append(Message(id=f"r{turn}", message=reply))
    for call in calls:
        session.append(ToolStarted(reply_id=f"r{turn}", tool_call_id=call.id, name=call.name))
        result = ToolResult(content=(Text(text="é \x00 done"),), tool_call_id=call.id, reply_id=f"r{turn}")
        session.append(Message(message=result))
    session.append(Sent(reply_id=f"r{turn}", channel="terminal"), at=f"r{turn}")


def log_path(folder: str, name: str = NAME) -> str:
    """The path of a session's file in the store."""
    return os.path.join(folder, f"{name}.jsonl")


def bytes_of(folder: str, name: str = NAME) -> bytes:
    """The bytes of the log."""
    with open(log_path(folder, name), "rb") as file:
        return file.read()


def put(folder: str, content: bytes, name: str = NAME) -> str:
    """Write a log by hand, as an editor or another program would; return its path."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = log_path(folder, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def lines_of(content: bytes) -> list[Line]:
    """Lines as the store would return them."""
    return list(split_lines([content]))


def proof_of(folder: str, name: str = NAME) -> SealReport:
    """The result of `verify` for a log on disk."""
    return verify_seals(JsonlStore(folder).load(name))


def read(folder: str, name: str = NAME) -> Log:
    """A log read by a new store object."""
    return read_log(JsonlStore(folder), name)


def is_noticed(proof: SealReport, damage: tuple[Damage, ...] | list[Damage]) -> bool:
    """Whether any way of reading reports the damage."""
    return bool(proof.broken or proof.unsealed or damage)
