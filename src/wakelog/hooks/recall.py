"""The `memory` hook: passages of earlier sessions that share rare words with the prompt.

Only sessions of the same agent, the same sender and the same folder (or one below it) are searched, so that text from
one project does not reach another.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from wakelog.ports import Catalog, Hit, RunInfo

_WORD = re.compile(r"[^\W\d_][\w-]{3,40}")
_WORDS_MAX = 6
_HITS_MAX = 5
_EACH_MAX = 20
_FIELD_MAX = 500
# How much is read into the index before a run; larger changes wait for the next command that lists or searches.
_READ_MAX_BYTES = 16 * 1024 * 1024

OpenCatalog: TypeAlias = Callable[[], AbstractContextManager[Catalog]]
"""Opens a catalog for one search, in the thread that searches."""


class Recall:
    """See `ports.Hook`. Searches in a separate thread: catalogs are synchronous and may have much to read."""

    name = "memory"

    def __init__(self, catalog: OpenCatalog) -> None:
        self._catalog = catalog

    async def before_run(self, occasion: RunInfo) -> str:
        """See `ports.Hook`."""
        wanted = words_of(occasion.prompt)
        best = ranked(await asyncio.to_thread(self._found, wanted, occasion), own=occasion.session) if wanted else ()
        lines = [f"- {hit.name}:{hit.entry}: {_plain(hit.excerpt)}" for hit in best[:_HITS_MAX]]
        return "\n".join(["<earlier-sessions>", *lines, "</earlier-sessions>"]) if lines else ""

    def _found(self, words: Sequence[str], occasion: RunInfo) -> list[Sequence[Hit]]:
        with self._catalog() as catalog:
            catalog.refresh(limit_bytes=_READ_MAX_BYTES)
            found = [catalog.search(_query(word, occasion), limit=_EACH_MAX) for word in words]
            ours = {name for name in _names(found) if _is_of(catalog, name, occasion)}
        return [[hit for hit in hits if hit.name in ours] for hits in found]


def words_of(prompt: str) -> list[str]:
    """Return the longest words of a prompt in lower case, each once; they are taken as the most specific ones."""
    words = dict.fromkeys(word.lower() for word in _WORD.findall(prompt))
    return sorted(words, key=len, reverse=True)[:_WORDS_MAX]


def ranked(found: Sequence[Sequence[Hit]], *, own: str) -> list[Hit]:
    """Return hits of other sessions, those that share most words first; a word with fewer hits counts more."""
    weights: dict[tuple[str, str], float] = {}
    hits: dict[tuple[str, str], Hit] = {}
    for of_a_word in found:
        others = [hit for hit in of_a_word if hit.name != own]
        for hit in others:
            place = (hit.name, hit.entry)
            hits.setdefault(place, hit)
            weights[place] = weights.get(place, 0.0) + 1 / len(others)
    return sorted(hits.values(), key=lambda hit: -weights[hit.name, hit.entry])


def _names(found: Sequence[Sequence[Hit]]) -> set[str]:
    return {hit.name for hits in found for hit in hits}


def _is_of(catalog: Catalog, name: str, occasion: RunInfo) -> bool:
    """Return whether a session has exactly this agent and sender. A query cannot express every text exactly."""
    wanted = (name, occasion.agent, occasion.sender)
    return any((row.name, row.agent, row.sender) == wanted for row in catalog.find(name))


def _query(word: str, occasion: RunInfo) -> str:
    # A name that a query cannot express is left out of it; `_is_of` compares the sessions found with it anyway.
    pair = {"agent": _quoted(occasion.agent), "sender": _quoted(occasion.sender)}
    told = [f"{field}:{value}" for field, value in pair.items() if value[1:-1].strip() and len(value) <= _FIELD_MAX]
    told += [f"cwd:{_quoted(occasion.cwd)}"] if occasion.cwd else []
    # A session without a folder belongs to no project: only others without a folder are searched.
    return " ".join([f'"{word}"', *told, *(() if occasion.cwd else ('-cwd:"/"',))])


def _quoted(value: str) -> str:
    return '"' + value.replace('"', " ").replace("\0", " ") + '"'


def _plain(excerpt: str) -> str:
    return " ".join(excerpt.replace("«", "").replace("»", "").split())
