"""Warning about files of a store that other users own or may write to: at most one line on stderr per command.

A command that reads still gives its output; a command that runs an agent refuses (`runtime/checks.py`), and its error
replaces the warning. The stores and sessions of a command are remembered in its click context.
"""

from collections.abc import Iterator

import click

from wakelog.cli.failures import note
from wakelog.errors import UsageError, WakelogError
from wakelog.ports import Exposure, Store
from wakelog.stores.files import Folder

_MET = "wakelog.stores"
_TOLD = "wakelog.exposure_told"


def remember(store: Store, session: str | None = None) -> None:
    """Remember a store, and optionally a session of it, that the running command reads."""
    context = click.get_current_context(silent=True)
    if context is not None:
        _, sessions = context.meta.setdefault(_MET, {}).setdefault(id(store), (store, dict[str, None]()))
        if session is not None:
            sessions[session] = None


def mark_told() -> None:
    """Record that the running command has reported the exposure as an error, so that no warning follows."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_TOLD] = True


def warn_once() -> None:
    """Warn about exposed files among all that the running command has read, unless they were reported already."""
    context = click.get_current_context(silent=True)
    if context is None or context.meta.get(_TOLD):
        return
    try:
        exposures = {found.path: found for found in _exposures(context)}
    except UsageError as error:
        # The configuration, which names the trusted users, is invalid.
        mark_told()
        note(str(error))
        return
    if exposures:
        mark_told()
        first = next(iter(exposures.values()))
        more = f" (and {len(exposures) - 1} more)" if len(exposures) > 1 else ""
        note(f"{first.path} {first.reason}{more}: it is read, but no agent is run on it; `{first.remedy}` ends that")


def _exposures(context: click.Context) -> Iterator[Exposure]:
    for store, sessions in context.meta.get(_MET, {}).values():
        for session in sessions or (None,):
            yield from _custody(store, session)
        # Files opened on the way: logs of a list, blobs, parents of forks.
        folder = getattr(store, "folder", None)
        if isinstance(folder, Folder):
            yield from folder.custody.exposed_so_far()


def _custody(store: Store, session: str | None) -> tuple[Exposure, ...]:
    """Return the exposed files; empty if they cannot be examined, because the reading itself reports that."""
    try:
        return store.custody(session)
    except UsageError:
        raise
    except (WakelogError, OSError):
        return ()
