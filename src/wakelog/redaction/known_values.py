"""Known values: literal secrets that are replaced wherever they stand, without a name or a form that identifies them.

Two sources: values that the process was given (provider keys, variables with the name of a secret), and values that the
redactor has recognised in a session and that look random. They are kept in memory only: not even a digest is written,
because anyone could check a guess with it.

A value that looks random and has 16 or more characters is replaced anywhere, also inside a longer run of letters and
digits: it does not occur by chance, and often follows an escape sequence (`\\nVALUE`, `\\x1b[32mVALUE`). A shorter one
is replaced only where no letter or digit is beside it. Words, paths, numbers and identifiers are never known values.
"""

import contextlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from itertools import islice

import msgspec

LEARNED_MIN_CHARS = 16
"""The minimum length of a value that is learned from a text, and of one that is replaced inside longer words."""
GIVEN_MIN_CHARS = 8
"""The minimum length of a value of the environment."""
VALUES_MAX = 256
"""How many values are kept: of each source the newest."""
CHARS_MAX = 65_536
"""How many characters the learned values have together; the oldest are forgotten beyond that."""
VALUE_MAX_CHARS = 4_096
"""The maximum length of a known value, which is also the maximum length of text that is held back for it."""

KNOWN_VALUE = "known-value"
"""The word in the mark of a value whose kind is not known."""

_TRAILING = ".,:;!?…"
_SEPARATORS = re.compile(r"[;,&|]")
_TOKEN = re.compile(r"[!-~]+")
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_DIGITS = re.compile(r"[0-9]")
_INNER_DIGITS = re.compile(r"(?<=[A-Za-z])[0-9]+(?=[A-Za-z])")
_INNER_DIGITS_MIN = 2
# Parts of camel-case words and of words in capitals.
_WORD_PARTS = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_UNPRONOUNCEABLE = re.compile(r"[^aeiouy]{4}|[aeiou]{4}|^[^aeiouy]+$", re.IGNORECASE)
_PATH_OR_ADDRESS = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\].*|[a-z][a-z0-9+.-]*://.*")
_DISTINCT_MIN = 6
# The share of letters and digits that may be in words, and the least share of letters: less is a number or a date.
_IN_WORDS_MAX, _LETTERS_MIN = 0.34, 0.13
# If there are more values than this, those that contain such a run are searched for in the runs of a text only.
_FEW_VALUES = 8
_LONG_RUN = 12
_ONES = bytes(ord("1") if chr(code).isascii() and chr(code).isalnum() else ord(" ") for code in range(256))

_SECRET_NAME = re.compile(
    r"(?:.*(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|APIKEY|CREDENTIALS?)|(?:.*_)?(?:KEY|PASS|PWD|AUTH|PAT))"
    r"(?:_?(?:KEY|BASE|VALUE))*_?\d*",
    re.IGNORECASE,
)
_PUBLIC_NAME = re.compile(r".*(?:PUBLIC|PUB|GPG|PGP|SORT|PARTITION|CACHE|PRIMARY|HOST)_?KEY\d*", re.IGNORECASE)


class KnownValue(msgspec.Struct, frozen=True, gc=False):
    """A secret as it may stand in a text, and its word in the mark."""

    text: str
    kind: str

    @property
    def is_whole_word(self) -> bool:
        """Whether it is replaced only where no letter or digit is beside it."""
        return len(self.text) < LEARNED_MIN_CHARS


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """A known value in a text, from `start` to `end`."""

    start: int
    end: int
    kind: str


class KnownValues:
    """The known values of a session and of the sessions made from it. Threads that share it pass a lock."""

    def __init__(self, mutex: AbstractContextManager[object] | None = None, *, learns: bool = True) -> None:
        self._mutex = mutex or contextlib.nullcontext()
        self._learns = learns
        self._given: dict[str, str] = {}
        self._learned: dict[str, str] = {}
        self.search = _NO_SEARCH
        """The search for the values known now: another object as soon as they are others."""

    def give(self, values: Mapping[str, str]) -> None:
        """Set the values that do not come from a text, each with its word in the mark."""
        kept = dict(islice(values.items(), VALUES_MAX))
        with self._mutex:
            if self._learns and kept != self._given:
                self._given = kept
                self._rebuild()

    def learn(self, value: str, kind: str) -> None:
        """Add a value that was recognised in a text, if it looks random; the oldest are forgotten at the limits."""
        # A value without quotes may have been read too far.
        values = {
            core for text in (value, _SEPARATORS.split(value)[0]) if is_distinctive(core := text.rstrip(_TRAILING))
        }
        if not self._learns or not values - self._learned.keys():
            return
        with self._mutex:
            self._learned.update(dict.fromkeys(values, kind))
            while len(self._learned) > VALUES_MAX or sum(map(len, self._learned)) > CHARS_MAX:
                del self._learned[next(iter(self._learned))]
            self._rebuild()

    def _rebuild(self) -> None:
        named = {**self._given, **self._learned}
        self.search = KnownValueSearch(
            KnownValue(text, kind) for value, kind in named.items() for text in _spellings(value)
        )


class KnownValueSearch:
    """The search for a fixed set of known values. Without values nothing is searched."""

    def __init__(self, values: Iterable[KnownValue]) -> None:
        named = {value.text: value for value in values}
        self._values = tuple(named[text] for text in sorted(named))
        self.shortest = min(map(len, named), default=0)
        self.longest = max(map(len, named), default=0)

    def __bool__(self) -> bool:
        return bool(self._values)

    def is_in(self, text: str) -> bool:
        """Whether a complete text contains a known value."""
        return bool(self._values and self.occurrences(text, 0))

    def occurrences(self, text: str, at: int) -> list[Occurrence]:
        """Return where known values stand in a text from `at` on: by position, at the same one the longest first."""
        if len(text) - at < self.shortest:
            return []
        found = [place for value in self._present(text, at) for place in _places(value, text, at)]
        return sorted(found, key=lambda place: (place.start, -place.end))

    def _present(self, text: str, at: int) -> list[KnownValue]:
        """Return the values that may stand in a text.

        For many values the text is read once, for its long runs of letters and digits; the values are searched for in
        these.
        """
        if len(self._values) <= _FEW_VALUES:
            rest = text[at:]
            return [value for value in self._values if value.text in rest]
        runs = _long_runs(text, at)
        return [value for value, run in zip(self._values, self._runs, strict=True) if run in (runs if run else text)]

    @cached_property
    def _runs(self) -> tuple[str, ...]:
        """The longest run of letters and digits of each value; empty if it is too short to search for."""
        longest = (max(_ALPHANUMERIC.findall(value.text), key=len, default="") for value in self._values)
        return tuple(run if len(run) >= _LONG_RUN else "" for run in longest)

    def first_open(self, text: str, at: int) -> int:
        """Return the first position from `at` on where the text ends inside what may become a known value.

        That is the end of the text if there is none. There must be values.
        """
        for begun in self._first_chars.finditer(text, max(at, len(text) - self.longest)):
            if self._is_open(text[begun.start() :]):
                return begun.start()
        return len(text)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(value.text for value in self._values)

    @cached_property
    def _first_chars(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(''.join({text[0] for text in self._texts}))}]")

    def _is_open(self, ending: str) -> bool:
        """Whether a value begins with `ending` and is longer, or the character after it decides."""
        place = bisect_left(self._texts, ending)
        if place < len(self._texts) and self._texts[place] == ending:
            if self._values[place].is_whole_word:
                return True
            place += 1
        return place < len(self._texts) and self._texts[place].startswith(ending)


_NO_SEARCH = KnownValueSearch(())
NO_KNOWN_VALUES = KnownValues(learns=False)
"""No values, and none are learned."""


def _places(value: KnownValue, text: str, at: int) -> Iterable[Occurrence]:
    place = text.find(value.text, at)
    while place >= 0:
        end = place + len(value.text)
        if not value.is_whole_word or _is_whole_word(text, place, end):
            yield Occurrence(place, end, value.kind)
        place = text.find(value.text, place + 1)


def _is_whole_word(text: str, start: int, end: int) -> bool:
    return not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum()


def _long_runs(text: str, at: int) -> str:
    """Return the runs of at least `_LONG_RUN` letters and digits in a text, with blanks between them."""
    ones, run = text.encode("latin-1", "replace").translate(_ONES), b"1" * _LONG_RUN
    found: list[str] = []
    begin = ones.find(run, at)
    while begin >= 0:
        end = ones.find(b" ", begin)
        end = len(ones) if end < 0 else end
        found.append(text[begin:end])
        begin = ones.find(run, end)
    return " ".join(found)


def _spellings(value: str) -> set[str]:
    """Return a value as it is, as it stands within a JSON string, and as it is if it was read from one."""
    spelled = {value, json.dumps(value)[1:-1]}
    if "\\" in value:
        with contextlib.suppress(ValueError):
            spelled.add(json.loads(f'"{value}"'))
    return {text for text in spelled if len(text) >= GIVEN_MIN_CHARS}


def secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of variables that have the name of a secret, each with its word in the mark."""
    values = [environment[name] for name in environment if _is_secret_name(name)]
    return {value: KNOWN_VALUE for value in values if is_distinctive(value, least=GIVEN_MIN_CHARS)}


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None and _PUBLIC_NAME.fullmatch(name) is None


def is_distinctive(value: str, *, least: int = LEARNED_MIN_CHARS) -> bool:
    """Whether a value has `least` or more printable ASCII characters, and is no path, number, word or identifier.

    A word is a run of five or more letters that could be pronounced. In random text few are; in identifiers and
    passwords made of words, most letters are in words.
    """
    if not (least <= len(value) <= VALUE_MAX_CHARS and _TOKEN.fullmatch(value)) or len(set(value)) < _DISTINCT_MIN:
        return False
    if _PATH_OR_ADDRESS.fullmatch(value) or "[redacted:" in value:
        return False
    size, digits = sum(map(len, _ALPHANUMERIC.findall(value))), len(_DIGITS.findall(value))
    if (digits == 0 and (value.islower() or value.isupper())) or size - digits < _LETTERS_MIN * size:
        return False
    words = [part for part in _WORD_PARTS.findall(value) if not _UNPRONOUNCEABLE.search(part)]
    return len(_INNER_DIGITS.findall(value)) >= _INNER_DIGITS_MIN or sum(map(len, words)) <= _IN_WORDS_MAX * size
