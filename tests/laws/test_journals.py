"""RUN-10, laws 11 and 15: a session wakes and replays whatever its journal contains.

A worker dies in the middle of a reply or of a tool; its journal is replaced by anything: valid pieces of every kind
and size, pieces nested too deep or made of too many lists, half pieces, garbage, invalid UTF-8. The session is then
woken to rest. `SHRUNK` runs the same with limits a thousand times smaller, so that random content reaches all of them.
"""

import asyncio
import functools

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.faults.figures import Figure
from tests.runtime.rigs import Rig, asks
from wakelog import large_content
from wakelog.decide import assembly, wording
from wakelog.decide.decisions import Idle
from wakelog.decide.wording import PARTS_LEFT_OUT
from wakelog.errors import UsageError
from wakelog.log import codec
from wakelog.log.content import Finished, Text, TextDelta, ThinkingDelta, ToolCall, ToolCallDelta, encode_delta
from wakelog.log.entry import ModelCall, Partial, ToolStarted
from wakelog.runtime.replay.verification import replay

REPLIES = {
    "Talk.": [{"text": "Hello there.", "deltaChars": 5}],
    "Pay.": [asks(("pay", 1)), {"text": "It is paid."}],
}
MIB = 1024 * 1024
SHRUNK = {
    (codec, "_BODY_MAX_BYTES"): 16 * 1024,
    (codec, "_CONTENT_MAX_BYTES"): 15 * 1024,
    (codec, "BRACKETS_MAX"): 500,
    (large_content, "TEXT_KEPT_BYTES"): 256,
    (large_content, "_LONG_CHARS"): 1024,
    (assembly, "_DRAFT_MAX_BYTES"): 12 * 1024,
}


@functools.cache
def _death(prompt, journal_of_tool):
    """The write at which a worker has to crash so that the journal of a reply, or of a tool, is left."""
    for at in range(3, 40):
        rig = Rig(REPLIES)
        rig.session.say(prompt)
        assert rig.die(at, after=True)
        journals = list(rig.store.journals("s"))
        subjects = rig.values(ToolStarted) if journal_of_tool else rig.values(ModelCall)
        if journals and journals[0] in [value.id if journal_of_tool else value.reply_id for value in subjects]:
            return at
    raise AssertionError("no death leaves such a journal")


class GoesOn:
    """A model that continues any text."""

    name = "scripted"
    can_resume = True

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        for text in (" and", " so", " on"):
            yield TextDelta(text)
        yield Finished()


class Cut:
    """A session whose worker crashed, with a journal that holds these lines."""

    def __init__(self, kind, lines, **agreed):
        self.rig = Rig(REPLIES, **agreed)
        prompt = "Pay." if kind == "tool" else "Talk."
        self.rig.session.say(prompt)
        assert self.rig.die(_death(prompt, kind == "tool"), after=True)
        (self.journal,) = self.rig.store.journals("s")
        self.rig.store.drop("s", self.journal)
        if agreed.get("cut") == "resume":
            self.rig.provider = GoesOn()
        self.add(lines)

    def add(self, lines):
        for line in lines:
            self.rig.store.journal("s", self.journal, line)
        left = list(self.rig.store.journals("s").get(self.journal, []))
        assert left[len(left) - len(lines) :] == lines, "planned: these lines; applied: others"

    def wake(self):
        """Wake it until it is idle, and replay it; return the parts of the recovered entry."""
        assert self.rig.wake().decision == Idle()
        assert self.rig.store.journals("s") == {}
        again = asyncio.run(replay(self.rig.store, "s"))
        assert again.ok, (again.reason, again.divergence)
        return [part for partial in self.rig.values(Partial) for part in partial.content]


def figure(cut, control=""):
    """The figures of one session with such a journal; the journal stays unless the session was woken."""
    left = len(cut.rig.store.journals("s"))
    woken, found = (1, "sessions woken"), (left, "that cannot be woken")
    return Figure("journal with any content", "memory", 1, 1, woken, found, control)


def _nested(depth):
    return b'{"type":"call","id":"c","name":"pay","input":' + b"[" * depth + b"]" * depth + b"}"


def _wide(count):
    return b'{"type":"call","id":"c","name":"pay","input":[' + b"[]," * count + b"0]}"


TEXTS = st.text(max_size=40) | st.sampled_from(['"' * 900, "\x00" * 700, "🙂" * 300, "line\n" * 400])
BOUND = st.none() | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=900), max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
VALID = st.one_of(
    st.builds(TextDelta, TEXTS, BOUND),
    st.builds(ThinkingDelta, TEXTS, st.none() | TEXTS, BOUND),
    st.builds(ToolCallDelta, st.sampled_from(["c", "c", "d", ""]), st.sampled_from(["pay", "look", ""]), JSON, BOUND),
).map(encode_delta)
STRANGE = st.one_of(
    st.binary(max_size=200).map(lambda raw: raw.replace(b"\n", b"")),
    st.sampled_from([0, 1, 250, 252, 253, 254, 255, 256, 300, 900, 5_000]).map(_nested),
    st.sampled_from([1, 400, 480, 499, 500, 600]).map(_wide),
    st.sampled_from(
        [
            b"",
            b"{}",
            b"null",
            b"[" * 3_000,
            b'{"type":"text","text":"half',
            b'{"type":"text","text":"\xff\xfe"}',
            b'{"type":"text","text":"\\ud800"}',
            b'{"type":"thinking","thinking":"\\udc00 \\ud83d"}',
            b'{"type":"call","id":"c","name":"pay","input":1e999}',
            b'{"type":"call","id":"c","name":"pay","input":123456789012345678901234567890}',
            b'{"type":"call","id":"c","name":"pay","input":{"a":1,"a":2}}',
            b'{"type":"finished","stop_reason":"stop"}',
        ]
    ),
)
LINES = st.lists(st.tuples(VALID | STRANGE, st.sampled_from([1, 1, 1, 2, 30, 400])), max_size=12).map(
    lambda runs: [line for line, count in runs for _ in range(count)]
)
# To make an example smaller takes longer than to read it.
NO_SHRINK = (Phase.explicit, Phase.reuse, Phase.generate)
EVERY = settings(
    max_examples=60, phases=NO_SHRINK, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def shrunk(monkeypatch):
    for (module, name), value in SHRUNK.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(wording.ClippedText.__init__, "__defaults__", (24 * 1024,))


@pytest.mark.parametrize("kind", ["tool", "replace", "resume"])
@EVERY
@given(lines=LINES)
def test_a_session_wakes_whatever_its_journal_holds(shrunk, record, kind, lines):
    """RUN-10, law 15: it becomes idle, its journal is dropped, and its log replays."""
    cut = Cut(kind, lines, **({"cut": kind} if kind != "tool" else {"clip": 300}))
    cut.wake()
    record(figure(cut))


@settings(EVERY, max_examples=20)
@given(before=LINES, after=LINES)
def test_a_resumed_reply_wakes_whatever_its_journal_holds(shrunk, record, before, after):
    """RUN-8: the text before the second crash stays before the text of the journal."""
    cut = Cut("resume", [encode_delta(TextDelta("Once")), *before], cut="resume", faults_max=9)
    assert cut.rig.die(5, after=True)
    cut.add(after)
    first, *_ = cut.wake()
    assert isinstance(first, Text)
    assert first.text.startswith("Once")
    record(figure(cut))


# ── the true limits ──────────────────────────────────────────────────────────────────────────────

TEXT = encode_delta(TextDelta("word "))
LARGE = {
    "quotation marks": [encode_delta(TextDelta('"' * 9_500_000))],
    "control characters": [encode_delta(TextDelta("\x01" * 4_000_000))],
    "half a million pieces": [encode_delta(TextDelta("a\n"))] * 500_000,
    "a long thought": [TEXT, encode_delta(ThinkingDelta("x" * 20 * MIB))],
    "a long signature": [TEXT, encode_delta(ThinkingDelta("x", "y" * 20 * MIB))],
    "a long call": [TEXT, encode_delta(ToolCallDelta("c", "pay", {"text": "x" * 20 * MIB}))],
    "many calls": [TEXT, *[encode_delta(ToolCallDelta("c", "pay", {}))] * 130_000],
    "many parts": [TEXT, encode_delta(ThinkingDelta("a"))] * 150_000,
    "a call of too many lists": [TEXT, _wide(250_001)],
    "calls of too many lists": [TEXT, *[_wide(100_000)] * 3],
    "a call nested too deep": [TEXT, _nested(100_000)],
    "a call nested as deep as the stack": [TEXT, _nested(900)],
    "a call nested a little too deep": [TEXT, _nested(254)],
    "nothing but brackets": [b"[" * 20 * MIB],
    "garbage": [TEXT, b"\xff" * 20 * MIB],
}


@pytest.mark.parametrize("kind", ["tool", "replace"])
@pytest.mark.parametrize("name", LARGE)
def test_a_session_wakes_with_a_large_journal(name, kind, record):
    """The same with content that reaches the limits of a line."""
    cut = Cut(kind, LARGE[name])
    parts = cut.wake()
    record(figure(cut))
    texts = [part.text for part in parts if isinstance(part, Text)]
    if name not in ("quotation marks", "control characters", "half a million pieces", "nothing but brackets"):
        assert texts
        assert texts[0].startswith("word ")


def test_control_texts_that_are_not_clipped(monkeypatch, record):
    """The test above can fail: without the clipping, such a session cannot be woken, however often it is tried."""
    monkeypatch.setattr("wakelog.writer.with_clipped_output", lambda body, *_: body)
    monkeypatch.setattr("wakelog.writer.with_long_texts_in_blobs", lambda body, *_: body)
    cut = Cut("tool", LARGE["quotation marks"])
    for _ in range(2):
        with pytest.raises(UsageError, match="too long for one line"):
            cut.rig.wake()
    record(figure(cut, control="texts are not clipped"))


@pytest.mark.parametrize("name", ["a long thought", "many calls", "a call nested too deep"])
def test_omitted_parts_leave_a_mark(name):
    """Parts that do not fit are left out with a mark; the text stays."""
    *_, last = Cut("replace", LARGE[name]).wake()
    assert last.thinking == PARTS_LEFT_OUT


def test_the_deepest_call_that_fits_is_kept():
    """Control: the limit is that of a line, not a smaller one."""
    _, call = Cut("replace", [TEXT, _nested(200)]).wake()
    assert isinstance(call, ToolCall)
    assert str(call.input).count("[") == 200
