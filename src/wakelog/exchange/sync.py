"""Import files of other agents: find out what each is, read its sessions, and import what is new.

A file that cannot be imported does not stop the others: it has a result of its own that says why.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from wakelog.errors import NotASession, StoreError, UsageError, WakelogError
from wakelog.exchange.account import Account, ImportedSession
from wakelog.exchange.codex_titles import CodexTitles
from wakelog.exchange.detection import DetectedSource, detect
from wakelog.exchange.importing import import_session
from wakelog.exchange.own_logs import TOOL as OWN_TOOL
from wakelog.exchange.own_logs import import_own_log, is_own_log_file
from wakelog.exchange.sessions import ForeignSession, SessionOrigin, session_id
from wakelog.exchange.sync_index import Signature, SyncIndex, signature_of
from wakelog.log.ids import IdTable
from wakelog.ports.stores import ListsOnce, Store
from wakelog.session import Session


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file: its sessions; or that it was imported before and has not changed; or an error."""

    path: str
    status: Literal["imported", "unchanged", "failed", "no session"]
    tool: str = ""
    sessions: tuple[ImportedSession, ...] = ()
    error: WakelogError | None = None
    damage: tuple[str, ...] = ()
    """What could not be read of a database, as sentences. It is reported again by each import."""


def import_files(
    store: Store,
    paths: Iterable[str],
    index: SyncIndex | None = None,
    *,
    dry_run: bool = False,
    read_unchanged: bool = False,
) -> Iterator[ImportedFile]:
    """Import files one by one, and yield the result of each.

    `read_unchanged` reads files that are as they were at the last import, for the account of their records.
    """
    titles = CodexTitles()
    with store.listed_once() if isinstance(store, ListsOnce) else contextlib.nullcontext():
        for path in paths:
            known = index.unchanged(path) if index is not None else None
            if known == []:
                error = NotASession(f"{path} is not a known session")
                yield ImportedFile(path=path, status="no session", error=error)
            elif known is not None and not read_unchanged and all(_has_session(store, session) for session in known):
                yield ImportedFile(path=path, status="unchanged")
            else:
                yield _import_file(store, path, index, titles, dry_run=dry_run)


def _has_session(store: Store, session: str) -> bool:
    try:
        store.name(session)
    except WakelogError:
        return False
    return True


def _import_file(
    store: Store, path: str, index: SyncIndex | None, titles: CodexTitles, *, dry_run: bool
) -> ImportedFile:
    tool = ""
    signature: Signature = {path: signature_of(path)}
    try:
        if is_own_log_file(path):
            return _import_own(store, path, index, dry_run=dry_run)
        with detect(path) as source:
            tool = source.tool
            done = tuple(
                _import_one(store, source, _with_title(foreign, path, titles), dry_run=dry_run)
                for foreign in _sessions_of(store, source)
                if not foreign.part_of or not _has_session(store, session_id(source.tool, foreign.part_of))
            )
            signature, damage = source.opened, source.damage
    except NotASession as error:
        if index is not None and not dry_run:
            index.remember(path, signature, [])
        return ImportedFile(path=path, status="no session", error=error)
    except Exception as error:  # noqa: BLE001 - a file of which no reader has thought must not stop the others
        return ImportedFile(path=path, status="failed", tool=tool, error=_as_wakelog_error(path, error))
    if index is not None and done and not dry_run and not damage and all(each.error is None for each in done):
        index.remember(path, signature, [each.session for each in done])
    return ImportedFile(path=path, status="imported", tool=tool, sessions=done, damage=damage)


def _with_title(foreign: ForeignSession, path: str, titles: CodexTitles) -> ForeignSession:
    """Return a session of Codex with the title that is not in its rollout; any other as it is."""
    if foreign.origin.tool != "codex" or foreign.title:
        return foreign
    return msgspec.structs.replace(foreign, title=titles.find(path, foreign.origin.id))


def _import_own(store: Store, path: str, index: SyncIndex | None, *, dry_run: bool) -> ImportedFile:
    """Import a log of wakelog itself, as the session that it is."""
    signature = {path: signature_of(path)}
    done = tuple(import_own_log(store, path, dry_run=dry_run, unattended=True))
    if index is not None and not dry_run and all(each.error is None for each in done):
        index.remember(path, signature, [each.session for each in done])
    return ImportedFile(path=path, status="imported", tool=OWN_TOOL, sessions=done)


def _sessions_of(store: Store, source: DetectedSource) -> Iterator[ForeignSession]:
    """Yield the sessions of a source. A reader that must be told which entries are stored is told those of each."""
    if not source.takes_known_entries:
        yield from source.sessions()
        return
    stored = IdTable()
    for foreign in source.sessions(stored.__contains__):
        # Before the items of the session are read: its reader asks while it reads them.
        name = session_id(foreign.origin.tool, foreign.origin.id)
        if _has_session(store, name):
            stored.add_ids(entry.id for entry in Session(store, name).entries())
        yield foreign


def _import_one(store: Store, source: DetectedSource, foreign: ForeignSession, *, dry_run: bool) -> ImportedSession:
    """Import one session; an error is a part of its result, and does not stop the other sessions of the file."""
    try:
        return import_session(store, foreign, dry_run=dry_run)
    except Exception as error:  # noqa: BLE001 - as for a file
        origin: SessionOrigin = foreign.origin
        return ImportedSession(
            origin=origin,
            session=session_id(origin.tool, origin.id),
            name=None,
            is_new=False,
            added=0,
            account=Account(skipped={}, bad=[]),
            error=_as_wakelog_error(source.path, error),
        )


def _as_wakelog_error(path: str, error: Exception) -> WakelogError:
    if isinstance(error, WakelogError):
        return error
    if isinstance(error, FileNotFoundError):
        return UsageError(f"there is no file {path}")
    if isinstance(error, OSError):
        return StoreError(f"{path} cannot be read: {error.strerror or error}")
    return StoreError(
        f"{path} cannot be imported: {type(error).__name__}: {error}",
        hint="this is a defect of wakelog: report it, with the file if you can share it",
    )
