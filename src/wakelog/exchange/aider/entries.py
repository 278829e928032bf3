"""The records of one chat of Aider as entries of wakelog.

A prompt is a prompt, an answer is a reply, with its usage from the output that follows it. Reasoning, which Aider puts
between tags into the answer, is reasoning again. Everything else has no counterpart and is kept as it is: the start,
output of the program, and commands. `/clear` and `/reset` also end the context, as they do in Aider.

The id of an entry comes from the chat, the number of the record in it and its text. So a chat that has grown gives the
same entries again, and a record of which only a part was written when it was read is another one later.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from wakelog.exchange.aider.records import TOKENS, ChatRecord
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, entry_id
from wakelog.log.content import AnyPart, Prompt, Reply, Text, Thinking, Usage
from wakelog.log.entry import Compaction, Custom, KnownBody, Message, ModelChange

TOOL = "aider"
BLANK = "<blank>"
"""What Aider records for an empty input."""
REASONING_TAG = "thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b"
"""The tag that Aider puts around reasoning which a server sends in a field of its own."""
CLEAR = "clear"
"""The trigger of the compaction that a command of Aider causes."""
_MODEL = re.compile(r"(?:Main model|Model): (\S+)(?: with .*)?\Z", re.DOTALL)
_CHOICES = "(Y)es/(N)o"
# The end of an input that answers a question of Aider: the default, and what was typed.
_ANSWERED = re.compile(r" \[\w+\]: \w+")
_COMMAND = re.compile(r"[/!]\S")
# Commands whose argument is sent to the model.
_ASKING = re.compile(r"/(?:ask|code|architect|context|help|ok)\s+\S")
_CLEARING = re.compile(r"/(?:clear|reset)\s*\Z")
# No run of characters is looked at from each of its places: a long one in an answer takes no time.
_OPENED = re.compile(rf"<{REASONING_TAG}>|(?<!-)-{{10,}}\n► \*\*THINKING\*\*")
_CLOSED = re.compile(rf"</(?:{REASONING_TAG}|think|thinking|reasoning)>")
_ANSWER = re.compile(r"(?<!-)-{10,}\n► \*\*ANSWER\*\*")
_WRITTEN_OPENED, _WRITTEN_CLOSED = re.compile(f"<{REASONING_TAG}>"), re.compile(f"</{REASONING_TAG}>")
_TAGGED_START = re.compile(r"<(think|thinking|reasoning)>")
_SPACE = re.compile(r"\s*")
_MICROS = 1_000_000

InputKind: TypeAlias = Literal["prompt", "command", "answer", "blank"]


def input_kind(text: str) -> InputKind:
    """Return what a person typed: a prompt, a command that is not sent to the model, an answer to Aider, or nothing."""
    if text == BLANK or not text.strip():
        return "blank"
    if _COMMAND.match(text) and not _ASKING.match(text):
        return "command"
    return "answer" if _is_answer(text) else "prompt"


def _is_answer(text: str) -> bool:
    end = text.rfind(" [")
    return end != -1 and _ANSWERED.fullmatch(text, end) is not None and text.find(_CHOICES, 0, end) != -1


def command_entry(kind: str, text: str) -> Custom:
    """Return an input that is not sent to the model."""
    return Custom(custom_type=f"{TOOL}:{kind}", data={"text": text})


def model_of(output: str) -> str | None:
    """Return the model that an output says is used from now on."""
    found = _MODEL.match(output)
    return found[1] if found else None


def usage_of(output: str) -> Usage | None:
    """Return the usage of the answer before an output; None if the output is another one.

    Aider rounds larger numbers. What it calls sent includes what was read from and written to a cache.
    """
    found = TOKENS.match(output)
    if found is None:
        return None
    sent, write, hit, received = (_count(found[name]) for name in ("sent", "write", "hit", "received"))
    cost = found["cost"]
    return Usage(
        input_tokens=max(0, sent - write - hit),
        output_tokens=received,
        cache_read_tokens=hit,
        cache_write_tokens=write,
        cost_micros=None if cost is None else round(float(cost[:18]) * _MICROS),
    )


def _count(text: str | None) -> int:
    """Return a number of tokens: `598`, `6.4k`, `12k` or `1.5M`."""
    if not text:
        return 0
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1], 1)
    try:
        number = float(text.rstrip("kM").replace(",", "")[:15])
    except ValueError:
        return 0
    return round(number * factor)


def reply_parts(text: str, *, is_written: bool = False) -> tuple[AnyPart, ...]:
    """Return an answer as parts: reasoning and text. Tags that models write themselves count at the beginning only.

    In a chat that wakelog wrote, reasoning is between the tags of Aider and nowhere else.
    """
    parts: list[AnyPart] = []
    at = 0
    if not is_written and (found := _TAGGED_START.match(text)):
        mark = f"</{found[1]}>"
        if (end := text.find(mark, found.end())) != -1:
            parts.append(Thinking(thinking=text[found.end() : end].strip()))
            at = _behind_space(text, end + len(mark))
    opened = _WRITTEN_OPENED if is_written else _OPENED
    while found := opened.search(text, at):
        if before := text[at : found.start()].strip("\n"):
            parts.append(Text(text=before))
        closing = _WRITTEN_CLOSED if is_written else _CLOSED if found[0].startswith("<") else _ANSWER
        closed = closing.search(text, found.end())
        parts.append(Thinking(thinking=text[found.end() : closed.start() if closed else len(text)].strip()))
        at = _behind_space(text, closed.end()) if closed else len(text)
    if rest := text[at:].strip("\n"):
        parts.append(Text(text=rest))
    return tuple(parts)


def _behind_space(text: str, at: int) -> int:
    """Return where the text goes on behind white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


class ChatReader:
    """Turns the records of one chat into entries, each under the one before it."""

    def __init__(self, session: str, timestamp: str) -> None:
        self._session = session
        self._time = timestamp
        self._number = 0
        self._parent = ""
        self._model: str | None = None
        self._usage: Usage | None = None
        """The usage of the answer that was read last, if this record has it."""

    def read(self, records: Iterable[tuple[ChatRecord | BadRecord, str]]) -> Iterator[ImportedItem]:
        """Yield the entries of records, which come with their time if it is known."""
        answer: ChatRecord | None = None
        for record, time in records:
            if answer is not None:
                self._usage = _usage_in(record)
                yield from self._placed(answer, [self._reply(answer)])
                answer = None
            self._time = time or self._time
            if isinstance(record, BadRecord):
                yield record
            elif record.kind == "answer":
                # The usage is in the next record.
                answer = record
            else:
                yield from self._placed(record, self._bodies(record))
        if answer is not None:
            yield from self._placed(answer, [self._reply(answer)])

    def _reply(self, record: ChatRecord) -> KnownBody:
        content = reply_parts(record.text, is_written=record.is_written)
        return Message(message=Reply(content=content, model=self._model, usage=self._usage))

    def _bodies(self, record: ChatRecord) -> list[KnownBody]:
        match record.kind:
            case "start":
                return [Custom(custom_type=f"{TOOL}:start", data={"time": record.text})]
            case "input":
                return self._input(record)
        body = Custom(custom_type=f"{TOOL}:output", data={"text": record.text})
        model = model_of(record.text)
        if model is None or model == self._model:
            return [body]
        self._model = model
        return [body, ModelChange(model=model)]

    def _input(self, record: ChatRecord) -> list[KnownBody]:
        text = record.text
        if record.is_written and text.startswith(" ") and input_kind(text.lstrip(" ")) != "prompt":
            return [Message(message=Prompt(content=text[1:]))]
        kind = input_kind(text)
        if kind == "prompt":
            return [Message(message=Prompt(content=text))]
        command = command_entry(kind, text)
        if _CLEARING.match(text):
            return [command, Compaction(summary="", trigger=CLEAR)]
        return [command]

    def _placed(self, record: ChatRecord, bodies: list[KnownBody]) -> Iterator[ImportedItem]:
        """Yield entries with ids and parents. The first one accounts for the record."""
        digest = hashlib.sha256(f"{record.kind}\0{record.text}".encode()).hexdigest()[:16]
        is_verbatim = isinstance(bodies[0], Custom) and not self._is_mapped(record, bodies)
        for at, body in enumerate(bodies):
            key = f"{self._session}:{self._number}:{digest}" + (f":{at}" if at else "")
            stamp = entry_id(TOOL, key)
            placed = msgspec.structs.replace(body, id=stamp, parent_id=self._parent or None, timestamp=self._time)
            yield ImportedEntry(placed, records=int(at == 0), is_verbatim=is_verbatim and at == 0)
            self._parent = stamp
        self._number += 1
        if record.kind != "answer":
            self._usage = None

    def _is_mapped(self, record: ChatRecord, bodies: list[KnownBody]) -> bool:
        """Return whether entries of wakelog have what a record says, besides the record itself."""
        return record.kind == "start" or len(bodies) > 1 or self._usage is not None


def _usage_in(record: ChatRecord | BadRecord) -> Usage | None:
    return usage_of(record.text) if isinstance(record, ChatRecord) and record.kind == "output" else None
