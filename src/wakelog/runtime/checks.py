"""Checks before a session is run: what cannot be done here is raised before anything is written.

A missing key, an untrusted address, an unknown setting or a file that another user may write to has to be fixed by the
caller. Until then, wakes that fail must leave no entries.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wakelog.decide.decisions import Await, CallModel, Compact, Decision, RecoverReply
from wakelog.errors import NoAccess, NotFound, Untrusted, UsageError
from wakelog.log.entry import Entry, Origin
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.references import blob_references_in
from wakelog.log.tree import Tree
from wakelog.ports.runtime import CheckedProvider, OpenProvider
from wakelog.ports.stores import Exposure, Store
from wakelog.projections.branch_state import BranchState
from wakelog.reading import read_session_header
from wakelog.session import Session


def needs_model(decision: Decision) -> bool:
    """Return whether a decision makes a model call. A timed wait counts: it is the back-off before a call."""
    return isinstance(decision, CallModel | RecoverReply | Compact) or (
        isinstance(decision, Await) and decision.until_ms is not None
    )


def check_model(open_provider: OpenProvider, name: str, state: BranchState) -> None:
    """Raise `UsageError` if the model in force in session `name` cannot be called. Uses no network, writes nothing."""
    params = state.context.params if state.context is not None else {}
    try:
        check_provider(open_provider, state.provider or "", state.model or "", params)
    except UsageError:
        if state.model:
            raise
        hint = f"set one with `wakelog run -s {name} --model PROVIDER:NAME` or `Agent(model=…).run(…, session=…)`"
        raise UsageError(f"{name} has no model that can be called", hint=hint) from None


def check_provider(open_provider: OpenProvider, provider: str, model: str, params: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a model cannot be called with these parameters, as far as is known without a request."""
    opened = open_provider(provider, model)
    if isinstance(opened, CheckedProvider):
        opened.check(model, params)


# ── file owners and modes ────────────────────────────────────────────────────────────────────────

_FORKS_MAX = 64


def check_files(session: Session) -> None:
    """Raise `Untrusted` if other users own or may write to files that running a session relies on.

    These are the store, the session's log, locks and journals, the logs that a fork reads through, and the blobs that
    its entries name.
    """
    tree = session.tree
    blobs = _referenced_blobs(tree)
    found = [*session.store.custody(session.name, blobs=blobs)]
    for parent in _ancestor_names(session.store, tree.header.parent):
        found += session.store.custody(parent)
    raise_if_exposed(f"{session.name} cannot be run", found)


def check_store_files(store: Store) -> None:
    """Raise `Untrusted` if other users own or may write to the store in which a session is about to be created."""
    raise_if_exposed("no session can be created", store.custody())


def raise_if_exposed(what: str, exposures: Sequence[Exposure]) -> None:
    """Raise `Untrusted` that names the first exposure, if there are any."""
    if exposures:
        first, paths = exposures[0], {exposure.path for exposure in exposures}
        more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
        raise Untrusted(f"{what}: {first.path} {first.reason}{more}", hint=exposure_hint(first))


def exposure_hint(exposure: Exposure) -> str:
    """Return how to end an exposure, or to accept it."""
    accept = "name the user or group in `trusted_owners` of your own configuration"
    return f"check what it holds, then `{exposure.remedy}`; or {accept}" if exposure.remedy else accept


def _referenced_blobs(tree: Tree) -> list[str]:
    """Return the digests of the blobs that the loaded entries of a session name."""
    digests: dict[str, None] = {}
    for entry in _entries(tree):
        if b'"digest"' in entry.raw:
            digests.update(dict.fromkeys(digest for digest, _ in blob_references_in(entry.raw)))
    return list(digests)


def _entries(tree: Tree) -> Iterator[Entry]:
    yield from tree.nodes.values()
    for node in tree.nodes:
        yield from tree.annotations(node)


def _ancestor_names(store: Store, origin: Origin | None) -> Iterator[str]:
    """Yield the names of the sessions that a fork inherits from, nearest first, up to one that cannot be read."""
    for _ in range(_FORKS_MAX):
        if origin is None or origin.kind != "fork":
            return
        try:
            name = store.name(origin.session)
            first = read_session_header(store, name)
        except (NotFound, NoAccess):
            # Reading the fork reports this.
            return
        yield name
        origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
