"""Journal texts: replies and tool output that are in a session's journals and not in its log yet, for display.

A worker writes each piece of a reply to a journal before it is displayed, and the entry when the reply is complete. In
between, and after a crash until the session is woken, only the journal has the text (VIEW-10). Nothing is written here.
`decide/assembly.py` defines what a journal means for its log.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from wakelog.decide.assembly import JournalPieces, journal_subject, unrecorded_partials
from wakelog.decide.policy import policy_in_force
from wakelog.large_content import is_interrupted_output, with_clipped_output, with_long_texts_in_blobs
from wakelog.log.codec import encode, fits_line
from wakelog.log.content import BaseMessage, Text
from wakelog.log.entry import FORMAT_VERSION, KnownBody, Partial, SessionHeader
from wakelog.log.tree import Tree
from wakelog.ports.catalogs import Catalog, SearchHit, SessionRow
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import branch_state
from wakelog.reading import read_active, read_log
from wakelog.stores import open_catalog, open_store

_STATES_WITH_JOURNALS = ("pending", "interrupted", "waiting", "damaged", "unknown")
_SEARCHED_CHARS = 1_000_000


class JournalTexts(msgspec.Struct, frozen=True):
    """Texts that the journals of one session hold beyond its log, in the form of `partial` entries."""

    partials: tuple[Partial, ...] = ()
    running: bool = False
    """Whether a worker holds the session: the texts are then in progress, not interrupted."""

    def to_json(self, name: str) -> list[dict[str, Any]]:
        """Return the texts as plain values for JSON, see `docs/cli.md`."""
        return [journal_value(partial, running=self.running, name=name) for partial in self.partials]


NO_JOURNALS = JournalTexts()


def journal_value(partial: Partial, *, running: bool, name: str) -> dict[str, Any]:
    """Return one text as a plain value: its reply or tool call, state, text, and the command that continues it."""
    return {
        "type": "journal",
        "replyId": partial.reply_id,
        "toolCallId": partial.tool_call_id,
        "parentId": partial.parent_id,
        "timestamp": partial.timestamp,
        "state": "running" if running else "interrupted",
        "text": BaseMessage(content=partial.content).text,
        "continue": None if running else f"wakelog wake {name}",
    }


def read_journals(store: Store, name: str, tree: Tree | None = None) -> JournalTexts:
    """Return the texts in a session's journals beyond its log; `tree` is the session's tree if already read."""
    journals = store.journals(name)
    if not journals:
        return NO_JOURNALS
    found = _tree_with_subjects(store, name, tree, journals)
    clip_bytes = policy_in_force(branch_state(found.branch()).context).clip
    partials = tuple(clipped_as_entry(partial, clip_bytes) for partial in unrecorded_partials(found, journals))
    return JournalTexts(partials, store.held(name) is not None) if partials else NO_JOURNALS


def clipped_as_entry(partial: Partial, clip_bytes: int) -> Partial:
    """Return a text clipped as its entry will be when the session is woken."""
    if is_interrupted_output(partial):
        return with_clipped_output(partial, clip_bytes, _store_nothing)
    return with_long_texts_in_blobs(partial, _store_nothing, fits_line)


def _store_nothing(content: bytes, media_type: str) -> None:
    """Discard a blob: readers write none."""


def _tree_with_subjects(store: Store, name: str, tree: Tree | None, journals: JournalPieces) -> Tree:
    """Return a tree that contains the subject of each journal; usually the tail of the log suffices."""
    found = tree if tree is not None else read_active(store, name).tree
    if found.partial and any(journal_subject(found, journal) is None for journal in journals):
        return read_log(store, name).tree
    return found


# ── search ───────────────────────────────────────────────────────────────────────────────────────


def search_journals(store: Store, rows: Sequence[SessionRow], query: str, *, limit: int) -> list[SearchHit]:
    """Return the journals of these sessions that match a query, as hits of the type `journal`.

    Catalogs do not index journals, so a temporary index in memory is built for each query. Only sessions that a worker
    has not finished can have journals; the others are skipped.
    """
    found = [
        (row, texts) for row in rows if _may_have_journals(row) and (texts := read_journals(store, row.name)).partials
    ]
    if not found:
        return []
    hits = _journal_catalog(found).search(query, limit=limit)
    return [msgspec.structs.replace(hit, type="journal", seq=None, cursor="") for hit in hits]


def _may_have_journals(row: SessionRow) -> bool:
    return row.attached or row.state in _STATES_WITH_JOURNALS


def _journal_catalog(found: Sequence[tuple[SessionRow, JournalTexts]]) -> Catalog:
    """Return an in-memory catalog of sessions that consist of their journal texts."""
    store = open_store("memory:")
    for row, texts in found:
        header = SessionHeader(
            id=row.id, timestamp=row.created, version=FORMAT_VERSION, agent=row.agent, sender=row.sender, cwd=row.cwd
        )
        bodies: list[KnownBody] = [header, *map(_searchable_entry, texts.partials)]
        store.adopt(row.id, row.name, b"".join(encode(body) + b"\n" for body in bodies))
    catalog = open_catalog("memory:", store)
    catalog.refresh()
    return catalog


def _searchable_entry(partial: Partial) -> Partial:
    """Return the text of a journal as an entry that fits a line, cut to `_SEARCHED_CHARS`."""
    text = BaseMessage(content=partial.content).text[:_SEARCHED_CHARS]
    return msgspec.structs.replace(partial, seq=None, content=(Text(text=text),))
