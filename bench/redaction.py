"""The cost of redaction beside writing the same text: every stored and displayed word passes through it.

Ordinary text, half prose and half source code, without a secret in it; and text made to be as slow as possible, at two
sizes, to see that its cost grows with its length alone.
"""

import argparse
import inspect
import os
from collections.abc import Callable, Iterator
from random import Random
from string import ascii_letters, digits

from bench.made import Script, Words, sealed
from bench.measure import Figure, compare, show, take_turns
from wakelog.log.content import Prompt, Text, TextDelta, encode_delta
from wakelog.redaction.known_values import VALUES_MAX, KnownValues
from wakelog.redaction.redactor import Redactor, redact

GROUP = "Redaction"
DELTA = 20
ROUNDS = 15
# Texts of one size, and how much slower than writing them `redact` may be: (characters, texts, times).
TEXTS = ((1_000, 200, 2.0), (100_000, 10, 10.0))
STREAMED = 20
# Numbers of known values, and how much slower than without them `redact` may be.
KNOWN = ((8, 1.4), (VALUES_MAX, 1.6))
HOSTILE_SIZES = (50_000, 500_000)
# The repeated text, and why each place of it is costly.
HOSTILE = (
    ("eyJ-", "each place could be a token of 500 characters"),
    ("password=", "each name is followed by what could be its value"),
    ('"secret": "\\"', "each value could go on behind its quote"),
)


def redaction(folder: str, words: Words) -> Iterator[Figure]:
    """Messages, outputs, deltas, and hostile text."""
    file = os.open(os.path.join(folder, "written"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size, count, goal in TEXTS:
            yield _texts(file, _ordinary(words, size, count), goal)
        yield _deltas(file, "".join(_ordinary(words, 1_000, STREAMED)))
    finally:
        os.close(file)
    for count, goal in KNOWN:
        yield _known(_ordinary(words, 100_000, 10), count, goal)
    for text, why in HOSTILE:
        yield _hostile(text, why)


def _texts(file: int, texts: list[str], goal: float) -> Figure:
    def write() -> None:
        script = Script("redaction")
        script.begin()
        bodies = [script.message(Prompt(content=(Text(text=text),))) for text in texts]
        for line in sealed(bodies):
            os.write(file, line)

    return _figure(
        what="whole texts, `redact`",
        workload=f"{len(texts)} messages of {len(texts[0]) // 1_000:,} KB, half prose, half code",
        floor="the same messages encoded, sealed and written, without a sync",
        acts=(write, lambda: [redact(text) for text in texts]),
        goal=goal,
    )


def _deltas(file: int, text: str) -> Figure:
    pieces = [text[at : at + DELTA] for at in range(0, len(text), DELTA)]

    def write() -> None:
        for piece in pieces:
            os.write(file, encode_delta(TextDelta(piece)))

    def feed() -> None:
        redactor = Redactor()
        for piece in pieces:
            redactor.feed(piece)
        redactor.end()

    return _figure(
        what="streamed text, `Redactor.feed`",
        workload=f"{len(pieces):,} deltas of {DELTA} characters",
        floor="the same deltas encoded and written to a file one by one, without a sync",
        acts=(write, feed),
        goal=10.0,
    )


def _known(texts: list[str], count: int, goal: float) -> Figure:
    chance, known = Random(1), KnownValues()
    known.give({"".join(chance.choices(ascii_letters + digits, k=24)): "known-value" for _ in range(count)})
    return _figure(
        what="whole texts with known values, `redact`",
        workload=f"{len(texts)} messages of {len(texts[0]) // 1_000:,} KB, {count} known values of 24 characters",
        floor="the same messages without known values",
        acts=(lambda: [redact(text) for text in texts], lambda: [redact(text, known=known) for text in texts]),
        goal=goal,
    )


def _hostile(text: str, why: str) -> Figure:
    short, long = (text * (size // len(text)) for size in HOSTILE_SIZES)
    taken = take_turns({"short": lambda: redact(short), "long": lambda: redact(long)}, rounds=5)
    return Figure(
        group=GROUP,
        what="text made of nothing but beginnings",
        workload=f"{len(long) // 1_000:,} KB of `{text}`: {why}",
        floor="a tenth of it, times ten: the cost of a character does not grow",
        goal="≤ 1.5 ×",
        ratio=taken["long"].median / taken["short"].median / 10,
        limit=1.5,
        measured=f"{show(taken['long'].median)} : 10 × {show(taken['short'].median)}",
    )


def _figure(
    *, what: str, workload: str, floor: str, acts: tuple[Callable[[], object], Callable[[], object]], goal: float
) -> Figure:
    taken = take_turns(dict(zip(("floor", "ours"), acts, strict=True)), rounds=ROUNDS)
    return Figure(
        group=GROUP,
        what=what,
        workload=workload,
        floor=floor,
        goal=f"≤ {goal:g} ×",
        ratio=taken["ours"].median / taken["floor"].median,
        limit=goal,
        measured=compare(taken["floor"], taken["ours"]),
    )


def _ordinary(words: Words, size: int, count: int) -> list[str]:
    """Return texts of one size: half of each is prose, half is source code of the standard library."""
    code = inspect.getsource(argparse) * (1 + size * count // 100_000)
    half = size // 2
    return [_prose(words, half) + code[at * half : (at + 1) * half] for at in range(count)]


def _prose(words: Words, size: int) -> str:
    text = ""
    while len(text) < size:
        text += words.text(size) + ". "
    return text[:size]
