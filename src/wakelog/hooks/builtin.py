"""The hooks that wakelog ships: `environment`, `agents`, `memory`, and hooks that run a command.

`environment`: working folder, date, system and git branch; reads files and runs no program.
`agents`: the agents that can be started as sub-agents, with a line about each.
`memory`: passages of earlier sessions that share rare words with the prompt. Only sessions of the same agent, the
same sender and the same folder (or one below it) are searched, so that text from one project does not reach
another.
Command: a program gets the data of the run in environment variables and nothing on its input, and runs without a
shell, under the supervisor of `processes/command.py`: every process that it started is ended when its time is up,
when the run is cancelled and when the runtime's process is killed. Output beyond the limit is cut off, with a note.
"""

import asyncio
import os
import platform
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Self, TypeAlias

import msgspec

from wakelog.decide.policy import HookSettings
from wakelog.decoding import convert
from wakelog.errors import Damaged
from wakelog.folders import git_branch
from wakelog.log.timestamps import iso_timestamp
from wakelog.ports.catalogs import Catalog, SearchHit
from wakelog.ports.runtime import HookContext
from wakelog.processes.command import run_command


class EnvironmentHook:
    """See `ports.Hook`."""

    name = "environment"

    async def before_run(self, occasion: HookContext) -> str:
        """See `ports.Hook`."""
        cwd = occasion.cwd or os.getcwd()
        lines = [
            f"folder: {cwd}",
            f"date: {iso_timestamp(occasion.now_ms)[:10]}",
            f"system: {platform.system()} {platform.machine()}",
        ]
        branch = git_branch(cwd)
        if branch:
            lines.append(f"git branch: {branch}")
        return "\n".join(["<environment>", *lines, "</environment>"])


class KnownAgent(msgspec.Struct, frozen=True):
    """One agent in the list."""

    name: str
    description: str = ""


class AgentsHook:
    """See `ports.Hook`."""

    name = "agents"

    def __init__(self, known: tuple[KnownAgent, ...]) -> None:
        self._known = known

    @classmethod
    def from_settings(cls, settings: HookSettings) -> Self:
        """Create the hook from its options in the log; `Damaged` if they cannot be read."""
        try:
            return cls(convert(settings.options.get("agents", ()), tuple[KnownAgent, ...]))
        except msgspec.ValidationError as error:
            raise Damaged(f"the agents in the policy cannot be read: {error}") from None

    async def before_run(self, occasion: HookContext) -> str:
        """See `ports.Hook`. The running agent itself is left out."""
        others = [known for known in self._known if known.name != occasion.agent]
        lines = [f"- {known.name}: {known.description}".removesuffix(": ") for known in others]
        return "\n".join(["<agents>", *lines, "</agents>"]) if lines else ""


_WORD = re.compile(r"[^\W\d_][\w-]{3,40}")
_WORDS_MAX = 6
_HITS_MAX = 5
_HITS_PER_WORD_MAX = 20
_FIELD_MAX = 500
# How much is read into the index before a run; larger changes wait for the next command that lists or searches.
_READ_MAX_BYTES = 16 * 1024 * 1024
OpenCatalog: TypeAlias = Callable[[], AbstractContextManager[Catalog]]
"""Opens a catalog for one search, in the thread that searches."""


_MEMORY_BEGIN, _MEMORY_END = "<earlier-sessions>", "</earlier-sessions>"


class MemoryHook:
    """See `ports.Hook`. Searches in a separate thread: catalogs are synchronous and may have much to read."""

    name = "memory"

    def __init__(self, catalog: OpenCatalog) -> None:
        self._catalog = catalog

    async def before_run(self, occasion: HookContext) -> str:
        """See `ports.Hook`."""
        wanted = search_words(occasion.prompt)
        best = (
            rank_hits(await asyncio.to_thread(self._search, wanted, occasion), own=occasion.session) if wanted else ()
        )
        lines = [f"- {hit.name}:{hit.entry}: {_plain_excerpt(hit.excerpt)}" for hit in best[:_HITS_MAX]]
        return "\n".join([_MEMORY_BEGIN, *lines, _MEMORY_END]) if lines else ""

    def _search(self, words: Sequence[str], occasion: HookContext) -> list[Sequence[SearchHit]]:
        with self._catalog() as catalog:
            catalog.refresh(limit_bytes=_READ_MAX_BYTES)
            found = [catalog.search(_query(word, occasion), limit=_HITS_PER_WORD_MAX) for word in words]
            ours = {name for name in _session_names(found) if _has_same_pair(catalog, name, occasion)}
        return [[hit for hit in hits if hit.name in ours] for hits in found]


def recalled_sessions(text: str) -> tuple[str, ...]:
    """Return the names of the earlier sessions in a text that the memory hook made; none for any other text."""
    first, *lines = text.split("\n")
    if first != _MEMORY_BEGIN:
        return ()
    return tuple(dict.fromkeys(line.removeprefix("- ").partition(":")[0] for line in lines if line != _MEMORY_END))


def search_words(prompt: str) -> list[str]:
    """Return the longest words of a prompt in lower case, each once; they are taken as the most specific ones."""
    words = dict.fromkeys(word.lower() for word in _WORD.findall(prompt))
    return sorted(words, key=len, reverse=True)[:_WORDS_MAX]


def rank_hits(found: Sequence[Sequence[SearchHit]], *, own: str) -> list[SearchHit]:
    """Return hits of other sessions, those that share most words first; a word with fewer hits counts more."""
    weights: dict[tuple[str, str], float] = {}
    hits: dict[tuple[str, str], SearchHit] = {}
    for of_a_word in found:
        others = [hit for hit in of_a_word if hit.name != own]
        for hit in others:
            place = (hit.name, hit.entry)
            hits.setdefault(place, hit)
            weights[place] = weights.get(place, 0.0) + 1 / len(others)
    return sorted(hits.values(), key=lambda hit: -weights[hit.name, hit.entry])


def _session_names(found: Sequence[Sequence[SearchHit]]) -> set[str]:
    return {hit.name for hits in found for hit in hits}


def _has_same_pair(catalog: Catalog, name: str, occasion: HookContext) -> bool:
    """Return whether a session has exactly this agent and sender. A query cannot express every text exactly."""
    wanted = (name, occasion.agent, occasion.sender)
    return any((row.name, row.agent, row.sender) == wanted for row in catalog.find(name))


def _query(word: str, occasion: HookContext) -> str:
    # A name that a query cannot express is left out of it; `_has_same_pair` compares the sessions found with it anyway.
    pair = {"agent": _quoted(occasion.agent), "sender": _quoted(occasion.sender)}
    terms = [f"{field}:{value}" for field, value in pair.items() if value[1:-1].strip() and len(value) <= _FIELD_MAX]
    terms += [f"cwd:{_quoted(occasion.cwd)}"] if occasion.cwd else []
    # A session without a folder belongs to no project: only others without a folder are searched.
    return " ".join([f'"{word}"', *terms, *(() if occasion.cwd else ('-cwd:"/"',))])


def _quoted(value: str) -> str:
    return '"' + value.replace('"', " ").replace("\0", " ") + '"'


def _plain_excerpt(excerpt: str) -> str:
    return " ".join(excerpt.replace("«", "").replace("»", "").split())


_TIMEOUT_S = 10.0
_TEXT_MAX_BYTES = 32 * 1024


class _CommandOptions(msgspec.Struct, frozen=True, rename="camel"):
    command: tuple[str, ...]
    timeout_s: float = _TIMEOUT_S


class CommandHook:
    """See `ports.Hook`."""

    def __init__(self, name: str, command: Sequence[str], timeout_s: float = _TIMEOUT_S) -> None:
        self.name = name
        self._command = tuple(command)
        self._timeout_s = timeout_s

    @classmethod
    def from_settings(cls, settings: HookSettings) -> Self:
        """Create the hook from its options in the log; `Damaged` if they cannot be read."""
        try:
            options = convert(settings.options, _CommandOptions)
        except msgspec.ValidationError as error:
            raise Damaged(f"the hook {settings.name!r} in the policy cannot be read: {error}") from None
        return cls(settings.name, options.command, options.timeout_s)

    async def before_run(self, occasion: HookContext) -> str:
        """See `ports.Hook`. Raises if the program fails or does not end in time."""
        env = {**os.environ, **_run_variables(occasion)}
        ended = await run_command(
            self._command, cwd=occasion.cwd, timeout_s=self._timeout_s, env=env, with_errors=False
        )
        if ended.warning:
            raise RuntimeError(ended.warning)
        if ended.timed_out:
            raise TimeoutError(f"it did not end within {self._timeout_s:g} s")
        if ended.how == "lost":
            raise RuntimeError("its supervisor was killed")
        if ended.number:
            raise RuntimeError(f"it ended with {-ended.number if ended.how == 'signalled' else ended.number}")
        return _bounded_output(ended.output)


def _bounded_output(text: str) -> str:
    """Return the output, up to the limit."""
    content = text.encode()
    if len(content) <= _TEXT_MAX_BYTES:
        return text.strip()
    return content[:_TEXT_MAX_BYTES].decode(errors="ignore") + f"\n[cut off after {_TEXT_MAX_BYTES:,} bytes]"


def _run_variables(occasion: HookContext) -> dict[str, str]:
    return {
        "WAKELOG_SESSION": occasion.session,
        "WAKELOG_AGENT": occasion.agent,
        "WAKELOG_SENDER": occasion.sender,
        # The system limits the bytes of a variable; with a longer one the program could not be started.
        "WAKELOG_PROMPT": occasion.prompt.replace("\0", " ").encode()[:_TEXT_MAX_BYTES].decode(errors="ignore"),
    }
