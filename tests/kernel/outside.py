"""The outside world of the kernel's tests: a ledger that counts what tools really did, a desk with receipts,
and a channel that writes down every event. All of it in files, so that it outlives the process that is killed.
"""

import asyncio
import json
import os

from wakelog.log.content import Faulted, TextDelta
from wakelog.ports.runtime import ToolInvocation, ToolOutcome
from wakelog.tools.function_tool import tool


def _add(path, record):
    line = (json.dumps(record) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Outside:
    """The outside world of a session, in one folder."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "desk"), exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    @property
    def ledger(self):
        """Every effect: (tool, reply, call)."""
        return [tuple(line) for line in _lines(self.path("ledger"))]

    @property
    def events(self):
        """Everything that the channel received."""
        return _lines(self.path("channel"))

    @property
    def bookings(self):
        """The bookings: the receipt is the effect, made by one system call."""
        return sorted(os.listdir(self.path("desk")))

    def tools(self, steer=None):
        """One tool for each replay word. `look` calls `steer`, as a person would interrupt."""

        @tool(replay="safe")
        async def look(where: str, call: ToolInvocation) -> str:
            """Looks somewhere."""
            _add(self.path("ledger"), ("look", call.reply_id, call.tool_call_id))
            await asyncio.sleep(steer(where) if steer is not None else 0)
            return f"seen {where}"

        @tool(replay="never")
        async def pay(amount: int, call: ToolInvocation) -> str:
            """Pays."""
            _add(self.path("ledger"), ("pay", call.reply_id, call.tool_call_id))
            return f"paid {amount}"

        @tool(replay="receipt")
        async def book(seat: str, call: ToolInvocation) -> str:
            """Books."""
            draft = self.path(f"draft-{call.reply_id}-{call.tool_call_id}-{call.attempt}")
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(descriptor, seat.encode())
            os.close(descriptor)
            os.link(draft, self.path(f"desk/{call.reply_id}-{call.tool_call_id}"))
            os.unlink(draft)
            return f"booked {seat}"

        @book.receipt
        async def booked(call: ToolInvocation):
            path = self.path(f"desk/{call.reply_id}-{call.tool_call_id}")
            if not os.path.exists(path):
                return "not begun"
            with open(path, encoding="utf-8") as file:
                return ToolOutcome(f"booked {file.read()}")

        return (look, pay, book)

    def fragile(self, provider, prompt):
        """The same provider, which fails once with a retryable fault when it gets a prompt."""
        return _Fragile(provider, prompt, self.path("failed"))

    def channel(self, name="outbox", *, raises=()):
        """A channel that keeps every event, and raises the first time it ends a reply with one of these texts."""
        return _Outbox(name, self.path("channel"), raises)


class _Fragile:
    def __init__(self, provider, prompt, mark):
        self.name, self.can_resume = provider.name, provider.can_resume
        self._provider, self._prompt, self._mark = provider, prompt, mark

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        last = request.messages[-1]
        heard = last.role == "user" and last.content[0].text == self._prompt
        if heard and not os.path.exists(self._mark):
            _add(self._mark, "failed")
            yield TextDelta("It may")
            yield Faulted("overload", "busy", retryable=True, delay_ms=1)
            return
        async for delta in self._provider.stream(request):
            yield delta


class _Outbox:
    def __init__(self, name, path, raises=()):
        self.name = name
        self._path = path
        self._raises = raises

    async def begin(self, reply_id, attempt):
        _add(self._path, {"begin": reply_id, "attempt": attempt})

    async def delta(self, reply_id, offset, text):
        _add(self._path, {"delta": reply_id, "offset": offset, "text": text})

    async def reset(self, reply_id):
        _add(self._path, {"reset": reply_id})

    async def end(self, reply_id):
        events = _lines(self._path)
        if held(events).get(reply_id) in self._raises and {"raised": reply_id} not in events:
            _add(self._path, {"raised": reply_id})
            raise ConnectionResetError("connection reset by peer")
        _add(self._path, {"end": reply_id})


def held(events):
    """The text by reply that a channel holds after these events. A gap or a contradiction is an error."""
    texts: dict[str, str] = {}
    for event in events:
        if "begin" in event:
            texts.setdefault(event["begin"], "")
        elif "reset" in event:
            texts[event["reset"]] = ""
        elif "delta" in event:
            before, offset, text = texts.get(event["delta"], ""), event["offset"], event["text"]
            assert offset <= len(before), event
            overlap = before[offset : offset + len(text)]
            assert text.startswith(overlap), event
            texts[event["delta"]] = before + text[len(overlap) :]
    return texts
