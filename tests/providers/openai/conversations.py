"""Random conversations: replies of several providers and models, results that are missing, doubled or lost.

Our own replies are made by our own readers from the wire, so that what is bound to them is what really comes.
"""

import json
import random
from typing import Any

from tests.loopback import events
from tests.providers.asking import request, user
from tests.providers.openai.asking import MODEL, as_reply, picture
from tests.providers.openai.wire import call, called, chat_acts, chunk, message, reasoning, response_events
from wakelog.decide.assembly import assemble_parts
from wakelog.log.content import Faulted, Finished, Text, Thinking, ToolCall
from wakelog.projections.context import ContextMessage
from wakelog.providers.event_stream import EventParser
from wakelog.providers.openai.chat import ChatParser
from wakelog.providers.openai.responses import ResponsesParser

FOREIGN = "FOREIGN"
FORGED = [
    None,
    {"id": 3},
    {"id": "x", "summary": 3},
    {"id": "x", "summary": [-1, 4]},
    {"id": "x", "summary": ["a"]},
    {"id": "x", "after": ["y"], "content": {}},
    {"id": "x", "annotations": "none"},
    {"id": "x", "phase": {}},
    {"field": "role", "spaced": "yes"},
    {"field": "tool_calls"},
]


def read(reader, acts):
    """The parts that a reader makes of acts, without a socket."""
    stream, told = EventParser(), []
    for act in acts:
        told += [delta for event in stream.feed(act) for delta in reader.read(event)]
    return assemble_parts(delta for delta in told if not isinstance(delta, Finished | Faulted))


class Conversation:
    """Messages as an adapter is handed them; with `whole`, every call has its result (law 7)."""

    def __init__(self, seed, *, whole=False):
        self._chance = random.Random(seed)
        self._whole = whole
        self._items = 0

    def messages(self):
        told = []
        for _ in range(self._chance.randint(1, 6)):
            if self._chance.random() < 0.6:
                told.append(self._prompt())
            speak, provider, model = self._chance.choice(
                [
                    (self._own, "openai", MODEL),
                    (self._own, "openai", MODEL),
                    (self._own, "openai", "gpt-other"),
                    (self._chat, "openai-chat", MODEL),
                    (self._chat, "openai-chat", "llama"),
                    (self._foreign, "anthropic", MODEL),
                    (self._foreign, None, None),
                    (self._forged, "openai", MODEL),
                    (self._forged, "openai-chat", MODEL),
                ]
            )
            content = speak()
            if content:
                told.append(as_reply(content, provider, model))
                told += self._results([part.id for part in content if isinstance(part, ToolCall)])
        return tuple(told) or (user("hi"),)

    # ── what is said ─────────────────────────────────────────────────────────────────────────────

    def _text(self):
        return "".join(self._chance.choices("ab ü🙂\n", k=self._chance.randint(1, 8)))

    def _texts(self, least, most):
        return [self._text() for _ in range(self._chance.randint(least, most))]

    def _call_id(self):
        ids = ["call_1", "call_2", "call_3", "x" * 80, "y" * 64, "", "a.b"]
        return self._chance.choice(ids)

    def _input(self):
        values: list[Any] = [1, -2.5, None, True, "ü", [1, {"a": []}], {}]
        if self._chance.random() < 0.1:
            return self._chance.choice(values)
        return {
            key: self._chance.choice(values) for key in self._chance.sample(["k", "ü", ""], self._chance.randint(0, 2))
        }

    def _name(self):
        return self._chance.choice(["look", "server.look", "sehen ü", "", "x" * 99])

    def _arguments(self):
        separators = self._chance.choice([None, (",", ":")])
        return json.dumps(self._input(), ensure_ascii=False, separators=separators)

    def _prompt(self):
        parts = [self._chance.choice([Text(text=self._text()), picture()]) for _ in range(self._chance.randint(1, 2))]
        return ContextMessage(role="user", content=tuple(parts))

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _own(self):
        """A reply that came through the Responses API, with ids that are used once."""
        kinds = self._chance.choices(["reasoning", "message", "refusal", "call", "call"], k=self._chance.randint(1, 5))
        items = [self._item(kind) for kind in kinds]
        return read(ResponsesParser(request()), events(*response_events(*items)))

    def _item(self, kind):
        self._items += 1
        item_id = f"{kind}_{self._items}"
        if kind == "reasoning":
            sealed = self._chance.choice(["c2VhbGVk", "c2VhbGVk", None])
            return reasoning(item_id, *self._texts(0, 2), encrypted=sealed)
        if kind == "call":
            return call(item_id, self._call_id(), "look", self._arguments())
        if kind == "refusal":
            return message(item_id, refusal=self._text())
        return message(item_id, *self._texts(1, 2), phase=self._chance.choice([None, "commentary"]))

    def _chat(self):
        """A reply that came through Chat Completions."""
        field = self._chance.choice(["reasoning", "reasoning_content"])
        told = [chunk({field: text}) for text in self._texts(0, 1)]
        told += [chunk({"content": text}) for text in self._texts(0, 1)]
        for index in range(self._chance.randint(0, 2)):
            told.append(chunk({"tool_calls": [called(index, self._call_id(), "look", self._arguments())]}))
        return read(ChatParser(request()), chat_acts(*told, chunk(finish="stop")))

    def _foreign(self):
        """A reply of somebody else, with signatures that must never reach us."""
        ids = {self._call_id() for _ in range(self._chance.randint(0, 2))}
        parts = [
            Thinking(thinking=FOREIGN, signature=FOREIGN, bound={"id": FOREIGN, "summary": [len(FOREIGN)]}),
            Text(text=self._text(), bound={"id": FOREIGN, "phase": FOREIGN}),
            *(ToolCall(id=each, name=self._name(), input=self._input(), bound={"id": FOREIGN}) for each in sorted(ids)),
        ]
        return tuple(part for part in parts if self._chance.random() < 0.7)

    def _forged(self):
        """A reply that says it is ours, and has bound to it whatever a hand put there."""
        return tuple(
            kind(**given, bound=self._chance.choice(FORGED))
            for kind, given in [
                (Thinking, {"thinking": "Hm.", "signature": "x"}),
                (Text, {"text": self._text()}),
                (ToolCall, {"id": self._call_id(), "name": "look", "input": self._input()}),
            ]
            if self._chance.random() < 0.7
        )

    def _results(self, ids):
        wanted = self._chance.sample(ids, len(ids))
        if not self._whole:
            # As no log should hold it: lost, doubled, and of a call that nobody made.
            wanted = [each for each in wanted if self._chance.random() < 0.8]
            wanted += [self._call_id() for _ in range(self._chance.randint(0, 1))]
        return [self._result(each) for each in wanted]

    def _result(self, call_id):
        content = (Text(text=self._text()), *([picture()] if self._chance.random() < 0.3 else []))
        return ContextMessage(role="toolResult", content=content, tool_call_id=call_id, tool_name="look")
