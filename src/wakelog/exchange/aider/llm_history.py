"""The LLM history of Aider (`.aider.llm.history`, written with `--llm-history-file`): requests and responses.

Each request is there as a whole: `TO LLM` and a time, then the messages, each behind a line `-------`, with the role
before each of their lines; behind it `LLM RESPONSE` and the answer. The messages of a request that an earlier one of
the session had are counted, not repeated. The last message of the user is the prompt; other new messages of the user
were put there by Aider (files, examples, reminders) and are notes. New messages in other roles are kept as they are.

The file has no sessions. A request that contains neither the prompt nor the answer of the one before it begins one.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator

import msgspec

from wakelog.exchange.aider.entries import TOOL, reply_parts
from wakelog.exchange.aider.inputs import timestamp_of_local
from wakelog.exchange.aider.records import decoded, too_long
from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, SourceFile, SourceLine
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    ImportedItem,
    SessionOrigin,
    SkippedRecords,
    entry_id,
)
from wakelog.log.content import Note, Prompt, Reply, Text
from wakelog.log.entry import Custom, KnownBody, Message
from wakelog.log.timestamps import parse_ms

_EVENT = re.compile(r"(TO LLM|LLM RESPONSE) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\s*\Z")
_SEPARATOR = "-------"
_ROLE = re.compile(r"([A-Z]{4,})(?: |\Z)")
_LINE_COST = 200
_SEEN_MAX = 200_000
_REPEATED = "an earlier request of the session has it"


class _Said(msgspec.Struct, gc=False):
    """A message of a request: its role, empty if it has no line, and its text."""

    role: str = ""
    lines: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def digest(self) -> bytes:
        return _digest(self.role, self.text)

    def add(self, line: str) -> None:
        """Add a line. The parts of a message with images may have lines without the role."""
        found = _ROLE.match(line)
        if found and not self.role:
            self.role = found[1]
        is_marked = found is not None and found[1] == self.role
        self.lines.append(line[len(self.role) + 1 :] if is_marked else line)


class _Call(msgspec.Struct):
    """A request, and the response if there is one."""

    time: str
    messages: list[_Said]
    response: _Said | None = None
    response_time: str = ""
    size: int = 0

    def add(self, text: str, event: re.Match[str] | None) -> bool:
        """Add a line; return whether there was a place for it."""
        self.size += len(text) + _LINE_COST
        if self.size > LINE_BYTES_MAX:
            return False
        if event and self.response is None:
            self.response, self.response_time = _Said("ASSISTANT", []), event[2]
        elif self.response is not None:
            self.response.add(text)
        elif text == _SEPARATOR:
            self.messages.append(_Said("", []))
        elif self.messages:
            self.messages[-1].add(text)
        else:
            return False
        return True

    @property
    def prompt(self) -> int:
        """The place of the prompt among the messages; -1 if there is none."""
        return max((at for at, said in enumerate(self.messages) if said.role == "USER"), default=-1)


def is_llm_history(text: str) -> bool:
    """Return whether a text is the beginning of an LLM history."""
    first, _, rest = text.lstrip("\n").partition("\n")
    found = _EVENT.match(first.removesuffix("\r"))
    return found is not None and found[1] == "TO LLM" and rest.startswith(_SEPARATOR)


def read_llm_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the sessions of an LLM history. Each must be read before the next is taken."""
    calls = _Calls(source.lines())
    while (first := calls.take()) is not None:
        prompt = first.messages[first.prompt].text if first.messages else ""
        session = f"llm-{first.time}-{hashlib.sha256(prompt.encode()).hexdigest()[:12]}"
        items = _SessionItems(session, calls).read(first)
        yield ForeignSession(
            origin=SessionOrigin(tool=TOOL, id=session, path=source.path),
            items=items,
            started_ms=parse_ms(timestamp_of_local(first.time)) or 0,
            agent=TOOL,
        )
        for _ in items:
            # The rest of a session that was not read to its end.
            pass


class _Calls:
    """The calls of a file. Bad records are kept until they are taken."""

    def __init__(self, lines: Iterable[SourceLine]) -> None:
        self._source = self._read(lines)
        self._held: _Call | None = None
        self.bad: list[BadRecord] = []

    def take(self) -> _Call | None:
        """Return the next call."""
        held, self._held = self._held, None
        return held if held is not None else next(self._source, None)

    def give_back(self, call: _Call) -> None:
        """Let a call be the next one again."""
        self._held = call

    def _read(self, lines: Iterable[SourceLine]) -> Iterator[_Call]:
        call: _Call | None = None
        for line in lines:
            text = decoded(line)
            event = _EVENT.match(text)
            if line.raw is None:
                self.bad.append(too_long(line))
            elif event and event[1] == "TO LLM":
                if call is not None:
                    yield call
                call = _Call(event[2], [])
            elif (call is None or not call.add(text, event)) and text.strip():
                self._add_bad(line, text)
        if call is not None:
            yield call

    def _add_bad(self, line: SourceLine, text: str) -> None:
        """Add a line without a place; lines one after the other are one bad record."""
        last = self.bad[-1] if self.bad else None
        if last is not None and last.offset + last.size + 1 == line.offset:
            self.bad[-1] = msgspec.structs.replace(last, size=last.size + 1 + line.size)
        else:
            self.bad.append(BadRecord(line.number, line.offset, line.size, f"no place for {text[:80]}"))


class _SessionItems:
    """The entries of the calls of one session, each under the one before it."""

    def __init__(self, session: str, calls: _Calls) -> None:
        self._session = session
        self._calls = calls
        self._seen: set[bytes] = set()
        self._prompt: str | None = None
        self._answer: bytes | None = None
        self._parent = ""
        self._number = 0

    def read(self, first: _Call) -> Iterator[ImportedItem]:
        """Yield the items of a call and of those that continue it."""
        call: _Call | None = first
        while call is not None:
            yield from self._request(call)
            if call.response is not None:
                yield from self._response(call.response, timestamp_of_local(call.response_time))
            call = self._calls.take()
            yield from self._calls.bad
            self._calls.bad.clear()
            if call is not None and not self._is_continued(call):
                self._calls.give_back(call)
                return

    def _is_continued(self, call: _Call) -> bool:
        return any(
            said.digest == self._answer or (said.role == "USER" and self._is_prompt(said.text))
            for said in call.messages
        )

    def _is_prompt(self, text: str) -> bool:
        """Return whether a text is the last prompt, which may have had a reminder behind it when it was sent."""
        return self._prompt is not None and bool(text.strip()) and self._prompt.startswith(text.rstrip())

    def _request(self, call: _Call) -> Iterator[ImportedItem]:
        repeated = 0
        time = timestamp_of_local(call.time)
        last = call.prompt
        for at, said in enumerate(call.messages):
            if said.digest in self._seen or (said.role == "USER" and self._is_prompt(said.text)):
                repeated += 1
                continue
            if len(self._seen) > _SEEN_MAX:
                self._seen.clear()
            self._seen.add(said.digest)
            text = said.text
            if said.role == "USER":
                body: KnownBody = Message(
                    message=Prompt(content=text)
                    if at == last
                    else Note(content=(Text(text=text),), custom_type=f"{TOOL}:context")
                )
            else:
                role = said.role.lower() or "empty"
                body = Custom(custom_type=f"{TOOL}:request_{role}", data={"text": text})
            yield self._placed(body, said.digest, time)
        if last >= 0:
            self._prompt = call.messages[last].text
        if repeated:
            yield SkippedRecords("message of a request", repeated, _REPEATED)

    def _response(self, said: _Said, time: str) -> Iterator[ImportedItem]:
        parts = reply_parts(said.text.strip("\n"))
        reply = Reply(content=parts)
        self._answer = _digest("ASSISTANT", reply.text)
        self._seen.add(self._answer)
        if parts:
            yield self._placed(Message(message=reply), said.digest, time)
        else:
            yield SkippedRecords("response", 1, "it is empty")

    def _placed(self, body: KnownBody, digest: bytes, time: str) -> ImportedEntry:
        stamp = entry_id(TOOL, f"{self._session}:{self._number}:{digest.hex()}")
        placed = msgspec.structs.replace(body, id=stamp, parent_id=self._parent or None, timestamp=time)
        self._parent = stamp
        self._number += 1
        return ImportedEntry(placed, is_verbatim=isinstance(body, Custom))


def _digest(role: str, text: str) -> bytes:
    return hashlib.sha256(f"{role}\0{text.strip()}".encode("utf-8", "replace")).digest()[:16]
