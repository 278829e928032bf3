"""Parse one TOML text into settings and mistakes. Pure.

A mistake drops only the key it is about; the rest of the text applies. A message repeats a written value only where it
cannot be a secret.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from wakelog.config.schema import Config, Mistake, Path, Place, Setting
from wakelog.config.toml_lines import ScanPath, key_lines, line_of_overlong_key
from wakelog.config.validation import (
    HINT_FOR_SECRETS,
    allowed_values,
    check_name,
    check_value,
    describe_value,
    dotted,
    has_basic_type,
    holds_secret,
    is_secret_name,
    is_table,
    join_with_or,
    nearest,
    quoted,
    shortened,
    table_keys,
    table_value_type,
    type_mismatch,
)
from wakelog.hooks import HOOK_NAMES

# Names that other programs use, each with the key of this configuration.
_KEYS_OF_OTHER_PROGRAMS = {
    "window": "strategy",
    "prompt": "system",
    "system_prompt": "system",
    "endpoint": "base_url",
    "reasoning_effort": "effort",
    "max_output_tokens": "max_tokens",
    "permissions": "approvals",
    "args": "command",
    "headers": "bearer_env",
    "mcp_servers": "mcp",
}
# Pairs of keys that exclude each other in a file; a key in a later layer also replaces its counterpart.
EXCLUSIVE_KEYS: Mapping[str, str] = {
    one: other
    for pair in (("system", "system_file"), ("command", "url"), ("key_env", "key_command"))
    for one, other in (pair, pair[::-1])
}
MISTAKES_MAX = 100
_TOO_DEEP = "invalid TOML, or nested too deeply"
_SYNTAX_HINT = "each line is key = value or [table]; text is in quotes"
_DUPLICATE_HINT = "it is set twice: remove one of them"
# Hints by a word of the parser's message. If the parser's wording changes, only the specific hint is lost.
_HINTS_BY_ERROR = {
    "Invalid value": 'put text in quotes: key = "text"',
    "overwrite": _DUPLICATE_HINT,
    "twice": _DUPLICATE_HINT,
    "Duplicate": _DUPLICATE_HINT,
    "Unescaped": "put this text in single quotes",
    "Unclosed": "close the open [ or {",
}
Finding = Setting | Mistake


class ParsedFile(msgspec.Struct, frozen=True):
    """The settings and the mistakes of a text."""

    settings: tuple[Setting, ...] = ()
    mistakes: tuple[Mistake, ...] = ()


def parse_config(text: str, file: str, role: Literal["user", "project"] = "user", home: str = "~") -> ParsedFile:
    """Return the settings of one file. Relative paths are resolved from the file's folder, `~` is `home`."""
    # Without a configuration file, which is common, the parser is not loaded.
    import tomllib  # noqa: PLC0415

    text = text.replace("\r\n", "\n")
    if line := line_of_overlong_key(text):
        return ParsedFile(mistakes=(Mistake(Place("file", file, line), _TOO_DEEP, _SYNTAX_HINT),))
    try:
        document = tomllib.loads(text)
        return _collect(_FileParser(file, role, key_lines(text), home).everything(document))
    except (ValueError, RecursionError) as error:
        return ParsedFile(mistakes=(_syntax_mistake(text, file, error),))


def _collect(found: Iterator[Finding]) -> ParsedFile:
    """Collect settings and mistakes; stop after `MISTAKES_MAX` mistakes."""
    settings: list[Setting] = []
    mistakes: list[Mistake] = []
    for each in found:
        if isinstance(each, Setting):
            settings.append(each)
        else:
            mistakes.append(each)
        if len(mistakes) == MISTAKES_MAX:
            mistakes.append(Mistake(mistakes[-1].place, f"stopped after {MISTAKES_MAX} mistakes; the rest is not read"))
            break
    return ParsedFile(tuple(settings), tuple(sorted(mistakes, key=lambda each: each.place.line)))


def _syntax_mistake(text: str, file: str, error: Exception) -> Mistake:
    """Return the parser's error as a mistake, with the position moved from the message to the place."""
    if isinstance(error, RecursionError):
        return Mistake(Place("file", file), _TOO_DEEP, _SYNTAX_HINT)
    what, _, where = str(error).partition(" (at ")
    numbers = [int(number) for number in re.findall(r"\d+", where)]
    line, column = numbers if len(numbers) == 2 else (text.count("\n") + 1, 0)
    hint = next((hint for word, hint in _HINTS_BY_ERROR.items() if word in what), _SYNTAX_HINT)
    return Mistake(Place("file", file, line), f"invalid TOML: {shortened(what)}", hint, column)


class _FileParser:
    """Parser of one file: its path, its role and the lines of its keys."""

    def __init__(self, file: str, role: str, lines: Mapping[ScanPath, int], home: str) -> None:
        self._file = file
        self._role = role
        self._lines = lines
        self._home = home

    def place(self, *path: str | int) -> Place:
        """Return the place of a key, or of the nearest table around it."""
        for size in range(len(path), 0, -1):
            if path[:size] in self._lines:
                return Place("file", self._file, self._lines[path[:size]], exact=size == len(path))
        return Place("file", self._file)

    def everything(self, document: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the settings and mistakes of a document."""
        yield from self.table(document, Config, ())
        yield from self._exclusive_pairs(document)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def table(self, table: Mapping[str, Any], kind: Any, path: Path) -> Iterator[Finding]:
        """Yield the settings and mistakes of a table."""
        keys, each = table_keys(kind), table_value_type(kind)
        for key, value in table.items():
            here = (*path, key)
            if each is None and key not in keys:
                yield self._unknown(here, value, keys)
            elif each is not None and (wrong := check_name(path, key)) is not None:
                yield Mistake(self.place(*here), wrong.message, wrong.hint, path=here)
            else:
                yield from self._value(value, each if each is not None else keys[key], here)

    def _value(self, value: Any, kind: Any, path: Path) -> Iterator[Finding]:
        if path == ("trust",) and self._role == "project":
            hint = "set trust in your own file only"
            yield Mistake(self.place(*path), "a project cannot trust itself", hint, path=path)
        elif path == ("trusted_owners",) and self._role == "project":
            hint = "set trusted_owners in your own file only"
            yield Mistake(self.place(*path), "a project cannot set trusted_owners", hint, path=path)
        elif path[2:] == ("hooks",) and isinstance(value, list):
            yield from self._hook_list(value, path)
        elif not is_table(kind):
            yield self._leaf(value, kind, path)
        elif isinstance(value, dict):
            if table_keys(kind) and len(path) == 2:
                # The table itself, so that a table without keys is recorded too.
                yield Setting(path, {}, self.place(*path))
            yield from self.table(value, kind, path)
        else:
            yield Mistake(
                self.place(*path), f"{_shown_path(path)} must be a table, not {describe_value(value)}", path=path
            )

    def _hook_list(self, value: list[Any], path: Path) -> Iterator[Finding]:
        """Convert a list of built-in hook names to settings: those in the list are on, the others off."""
        unknown = [name for name in value if name not in HOOK_NAMES]
        for name in unknown:
            shown = quoted(shortened(name)) if isinstance(name, str) else describe_value(name)
            hint = f"use {join_with_or(HOOK_NAMES)}, or define your own in [{_shown_path(path)}]"
            yield Mistake(self.place(*path, value.index(name)), f"unknown hook {shown}", hint, path=path)
        for name in () if unknown else HOOK_NAMES:
            yield Setting((*path, name), name in value, self.place(*path))

    def _unknown(self, path: Path, value: Any, keys: Mapping[str, Any]) -> Mistake:
        key, place = path[-1], self.place(*path)
        fitting = [name for name, kind in keys.items() if is_table(kind) == isinstance(value, dict)]
        near = (
            nearest(key, fitting)
            or nearest(key, keys)
            or (_KEYS_OF_OTHER_PROGRAMS[key] if _KEYS_OF_OTHER_PROGRAMS.get(key) in keys else "")
        )
        if is_secret_name(key, near):
            message = f"{_shown_path(path)} is a secret, and a configuration file must not contain secrets"
            return Mistake(place, message, HINT_FOR_SECRETS, path=path)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(sorted(keys))}"
        return Mistake(place, f"unknown key {_shown_path(path)}", hint, path=path)

    def _exclusive_pairs(self, document: Mapping[str, Any], path: Path = ()) -> Iterator[Mistake]:
        """Yield a mistake per pair of keys in one table that exclude each other."""
        for key, value in document.items():
            rival = EXCLUSIVE_KEYS.get(key, "")
            if key < rival and rival in document and len(path) == 2:
                both = f"{_shown_path((*path, key))} and {rival} exclude each other"
                yield Mistake(self.place(*path, max(key, rival)), both, "remove one of them", path=path)
            if isinstance(value, dict) and len(path) < 2:
                yield from self._exclusive_pairs(value, (*path, key))

    # ── leaves ───────────────────────────────────────────────────────────────────────────────────

    def _leaf(self, value: Any, kind: Any, path: Path) -> Finding:
        if holds_secret(value):
            message = f"{_shown_path(path)} contains a secret, and a configuration file must not contain secrets"
            return Mistake(self.place(*path), message, HINT_FOR_SECRETS, path=path)
        wrong = type_mismatch(value, kind)
        if wrong:
            return self._misfit(value, kind, path, wrong)
        problem = check_value(path, value)
        if problem is None:
            return Setting(path, _with_absolute_paths(path, value, self._absolute), self.place(*path))
        within = (problem.at,) if problem.at is not None else ()
        return Mistake(self.place(*path, *within), problem.message, problem.hint, path=path)

    def _absolute(self, place: str) -> str:
        """Return an absolute path, resolved from the folder of the file."""
        if place == "~" or place.startswith("~/"):
            place = self._home + place[1:]
        return os.path.normpath(os.path.join(os.path.dirname(self._file), place))

    def _misfit(self, value: Any, kind: Any, path: Path, wrong: str) -> Mistake:
        choices = allowed_values(kind)
        if isinstance(value, dict) and f"{path[-1]}s" in table_keys(Config) and len(path) == 1:
            message = f"{_shown_path(path)} must be {wrong}, not a table"
            return Mistake(self.place(*path), message, f"did you mean [{path[-1]}s.…]?", path=path)
        # A text may be a secret in the wrong place, so it is repeated only where the key has a fixed set of values.
        shown = quoted(shortened(value)) if choices and isinstance(value, str) else describe_value(value)
        near = nearest(value, choices) if isinstance(value, str) else ""
        message = f"{_shown_path(path)} must be {wrong}{'' if has_basic_type(value, kind) else f', not {shown}'}"
        return Mistake(self.place(*path), message, f"did you mean {near}?" if near else "", path=path)


def _shown_path(path: Path) -> str:
    """Return a path shortened for a message."""
    return dotted(tuple(map(shortened, path)))


def _with_absolute_paths(path: Path, value: Any, make_absolute: Callable[[str], str]) -> Any:
    """Return a value with relative paths made absolute, so that it does not depend on the current folder."""
    match path:
        case ("store",):
            kind, colon, place = value.partition(":")
            if colon and kind in ("jsonl", "sqlite"):
                return f"{kind}:{make_absolute(place)}"
            return value if colon else make_absolute(value)
        case ("model",) | ("agents", _, "model") if value.startswith("scripted:"):
            return f"scripted:{make_absolute(value.removeprefix('scripted:'))}"
        case ("agents", _, "system_file") | ("mcp", _, "cwd"):
            return make_absolute(value)
        case ("trust", "projects"):
            return [make_absolute(folder) for folder in value]
    return value
