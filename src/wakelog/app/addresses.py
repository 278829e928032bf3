"""Resolve what a user types to a session and an entry.

A session: the path of a log file or bundle, `@latest`, an id, a name, or a unique prefix of an id or name. An entry:
its id, its number in the session, its label, or a unique prefix of its id. `SESSION:ENTRY` names both. An ambiguous
address is a usage error that lists the candidates. `entry_names` returns the shortest form that can be typed for an
entry.
"""

import os
import re
import unicodedata
from typing import TYPE_CHECKING

import msgspec

from wakelog.app.entry_names import EntryNames, inherited_names
from wakelog.app.stores import StoreLocation, open_trusted_store, remember_store
from wakelog.errors import BadId, NotFound, UsageError, WakelogError
from wakelog.log.entry import Entry, Label
from wakelog.log.session_names import is_name
from wakelog.log.tree import Tree
from wakelog.ports.stores import Store
from wakelog.reading import Log, read_active, read_identity, read_log
from wakelog.stores import load

if TYPE_CHECKING:
    from wakelog.session import Session

LOG_SUFFIX = ".jsonl"
BUNDLE_SUFFIX = ".wakelog"
_CANDIDATES_SHOWN = 5
_FIRST_LINE_BYTES = 4096
# How every line begins that wakelog writes.
_OWN_LINE = b'{"v":'
_HEADER = re.compile(rb'\s*\{"type":\s*"session",')
# The version of another format, such as pi's, which is not that of wakelog's format.
_LATER_VERSION = re.compile(rb'"version"\s*:\s*([2-9]|[1-9]\d)')


class Address(msgspec.Struct, frozen=True):
    """A session of a store and, if one was named, an entry of it as it was typed.

    `ref` is what to type for the session: its name, or the path it was found at.
    """

    store: Store
    name: str
    ref: str
    entry: str | None = None


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def find_session(store_url: str | None, typed: str, entry: str | None = None) -> Address:
    """Return the address of a typed session in the store of a URL (None: the default store).

    `UsageError` if `entry` contradicts the one in `SESSION:ENTRY`.
    """
    session, named = _split_address(typed)
    if named is not None and entry is not None and named != entry:
        raise UsageError(f"two entries given: {named} and {entry}", hint="give one")
    entry = entry.removeprefix(f"{session}:") if entry is not None else named
    if _is_path(session):
        store, name = _at_path(session)
        remember_store(store, name)
        return Address(store, name, session, entry)
    place = StoreLocation(store_url)
    name = _resolve_name(place, session)
    remember_store(place.store, name)
    return Address(place.store, name, name, entry)


def _split_address(typed: str) -> tuple[str, str | None]:
    try:
        is_nameable = b"\0" not in os.fsencode(typed)
    except UnicodeEncodeError:
        is_nameable = False
    if not is_nameable:
        raise BadId(f"{typed[:60]!r} is not a valid name", hint="see `wakelog ls`")
    session, colon, entry = typed.rpartition(":")
    if not colon or "/" in entry or entry.endswith((LOG_SUFFIX, BUNDLE_SUFFIX)):
        return typed, None
    if not session or not entry:
        raise UsageError(f"{typed!r} is not SESSION:ENTRY", hint="see `wakelog ls`")
    return session, entry


def _is_path(session: str) -> bool:
    return "/" in session or session.endswith((LOG_SUFFIX, BUNDLE_SUFFIX))


def _at_path(path: str) -> tuple[Store, str]:
    """Return the store of a log file's folder, and the session's name there. Symbolic links are resolved first.

    A bundle is a read-only store of its own.
    """
    real = os.path.realpath(path)
    folder, file = os.path.split(real)
    try:
        os.lstat(real)
    except PermissionError as error:
        raise load("wakelog.stores.files").storage_error(f"look for {path[:200]}", error) from error
    except OSError:
        raise NotFound(f"file {path[:200]} does not exist") from None
    if os.path.isdir(real):
        raise UsageError(f"{path[:200]} is a folder", hint="name a log file, or use --store for a folder of them")
    if file.endswith(BUNDLE_SUFFIX):
        found: tuple[Store, str] = load("wakelog.transfer.bundles").open_bundle(real)
        return found
    _refuse_foreign(path, real)
    if not file.endswith(LOG_SUFFIX) or not is_name(file.removesuffix(LOG_SUFFIX)):
        raise BadId(
            f"{file[:200]} is not the name of a log file",
            hint="a log is named NAME.jsonl, with letters, digits, dot, dash and underscore",
        )
    return open_trusted_store(f"jsonl:{folder}"), file.removesuffix(LOG_SUFFIX)


def _refuse_foreign(path: str, real: str) -> None:
    """Raise `UsageError` for a session of another agent that has no header of a session in its first line.

    A log with such a header, as pi and the first source document have it, opens as it stands (LOG-6).
    """
    try:
        with open(real, "rb") as file:
            first = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        # Opening the log reports it.
        return
    is_header = _HEADER.match(first) and not _LATER_VERSION.search(first)
    if not first or first.startswith(_OWN_LINE) or is_header:
        return
    try:
        tool = load("wakelog.exchange.detection").tool_of(real)
    except WakelogError:
        return
    if tool:
        raise UsageError(f"{path[:200]} is a session of {tool}", hint=f"`wakelog import {path[:200]}` imports it")


def _resolve_name(place: StoreLocation, session: str) -> str:
    if session == "@latest":
        return _latest_session(place)
    # Some keyboards and file managers produce decomposed characters (NFD); session names are NFC.
    session = unicodedata.normalize("NFC", session)
    if not is_name(session):
        raise BadId(f"{session[:60]!r} is not a session name", hint="see `wakelog ls`")
    try:
        return place.store.name(session)
    except NotFound:
        return _by_prefix(place, session)


def _latest_session(place: StoreLocation) -> str:
    """Return the session that changed last. Sub-agent sessions are skipped, because their parents run them."""
    is_any = False
    for row in place.recent():
        header = read_identity(place.store, row.name) if row.origin is not None else None
        if header is None or header.origin != "subagent":
            return row.name
        is_any = True
    if is_any:
        raise NotFound("there are only sessions of sub-agents", hint="`wakelog ls` lists them")
    raise NotFound("there is no session yet", hint="`wakelog chat` creates one")


def _by_prefix(place: StoreLocation, session: str) -> str:
    rows = place.catalog.find(session)
    if not rows:
        raise NotFound(f"no session {session} in {place.display_url}", hint="`wakelog ls` lists them")
    if len(rows) > 1:
        names = ", ".join(row.name for row in rows[:_CANDIDATES_SHOWN]) + (
            ", …" if len(rows) > _CANDIDATES_SHOWN else ""
        )
        raise UsageError(f"{session} matches {len(rows)} sessions: {names}", hint="type more characters")
    return rows[0].name


def read_log_of(address: Address, *, tail: bool) -> Log:
    """Return the log of an address; only its end if `tail` is set and the address names no entry."""
    read = read_active if tail and address.entry is None else read_log
    return read(address.store, address.name)


# ── entries ──────────────────────────────────────────────────────────────────────────────────────


def find_entry(log: Log, typed: str) -> str:
    """Return the id of the typed entry. Tried in this order: id, number, inherited name, label, prefix of an id."""
    entries = _every_entry(log)
    if typed in entries:
        return typed
    for lookup in (_by_number, _by_name, _by_label, _by_id_prefix):
        found = lookup(log, typed, entries)
        if len(found) > 1:
            names = EntryNames(log.tree)
            listed = ", ".join(names.short(entries[one]) for one in found[:_CANDIDATES_SHOWN])
            more = ", …" if len(found) > _CANDIDATES_SHOWN else ""
            raise UsageError(f"{typed} matches {len(found)} entries: {listed}{more}", hint="name one of them")
        if found:
            return found[0]
    raise NotFound(f"no entry {typed[:60]} in {log.name}", hint="`wakelog tree` shows them")


def find_node(log: Log, typed: str | None) -> str | None:
    """Return the id of the node that a typed entry is or annotates; None if nothing was typed."""
    return None if typed is None else log.tree.find(find_entry(log, typed))


def find_target(address: Address, opened: "Session") -> str | None:
    """Return the node that an address names, for a command that writes. A full id near the head needs no reading."""
    if address.entry is None or address.entry in opened.tree.nodes:
        return address.entry
    return find_node(opened.read(), address.entry)


def node_labels(tree: Tree) -> dict[str, str]:
    """Return the current label of each labelled node, by node id."""
    named: dict[str, str] = {}
    for node in tree.nodes:
        for annotation in tree.annotations(node):
            if isinstance(annotation.value, Label):
                named[node] = annotation.value.label
    return {node: label for node, label in named.items() if label}


def _every_entry(log: Log) -> dict[str, Entry]:
    annotations = (annotation for node in log.tree.nodes for annotation in log.tree.annotations(node))
    return {entry.id: entry for entry in (*log.tree.nodes.values(), *annotations, *log.entries)}


def _by_number(log: Log, typed: str, entries: dict[str, Entry]) -> list[str]:  # noqa: ARG001
    if not (typed.isascii() and typed.isdigit()) or (typed[0] == "0" and typed != "0"):
        return []
    return [entry.id for entry in log.entries if str(entry.seq) == typed][:1]


def _by_name(log: Log, typed: str, entries: dict[str, Entry]) -> list[str]:  # noqa: ARG001
    return [node for node, name in inherited_names(log.tree).items() if name == typed]


def _by_label(log: Log, typed: str, entries: dict[str, Entry]) -> list[str]:  # noqa: ARG001
    return [node for node, label in node_labels(log.tree).items() if label == typed]


def _by_id_prefix(log: Log, typed: str, entries: dict[str, Entry]) -> list[str]:  # noqa: ARG001
    return [entry_id for entry_id in entries if entry_id.startswith(typed)]
