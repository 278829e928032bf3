"""Command `copy`: copy sessions to another store and print one line for each.

A session that cannot be copied does not stop the others; the exit code is that of the worst result. While a progress
bar is drawn, the lines are held back until it is gone. The results are printed even if the copy is interrupted.
"""

import contextlib
import os

import click
import msgspec

from wakelog.app.addresses import BUNDLE_SUFFIX, find_session
from wakelog.app.integrity import damage_values
from wakelog.app.stores import StoreLocation, open_trusted_store
from wakelog.cli.ui.errors import CONFLICT, DAMAGED, FAILED, note, note_damage, report_error
from wakelog.cli.ui.options import SharedOptions, command, sessions_argument
from wakelog.cli.ui.output import progress_bar, put, put_json
from wakelog.cli.ui.quantities import plural, size_text
from wakelog.cli.ui.safe_text import visible
from wakelog.cli.ui.terminal import style_of
from wakelog.errors import UsageError
from wakelog.ports.stores import Store
from wakelog.stores.urls import parse_store_url
from wakelog.transfer import Copied
from wakelog.transfer import copy as copy_sessions

_STYLES = {"copied": "good", "pending": "bold", "conflict": "bad", "failed": "bad"}
_STATUS_TEXTS = {"unchanged": "unchanged", "conflict": "in conflict", "failed": "failed"}
_CODES = {"conflict": CONFLICT, "failed": FAILED}
_CODES_BY_PRIORITY = (CONFLICT, FAILED, DAMAGED, 0)


class _Source(msgspec.Struct):
    """A store to copy from, and the names of its sessions to copy; None for all."""

    url: str
    store: Store
    names: list[str] | None


@command(
    "copy",
    examples="""
    wakelog copy crab_user_3 --to sqlite:sessions.db
    wakelog copy --all --to /mnt/backup/sessions             if repeated, only new data is copied
    wakelog copy --all --to postgresql://host/agents --dry-run
    wakelog copy --all --to DIR --json | jq -r 'select(.status == "conflict") | .name'
    """,
)
@sessions_argument
@click.option("--to", "target_url", metavar="URL", required=True, help="The store to copy to, named as for --store.")
@click.option("--all", "everything", is_flag=True, help="Copy every session.")
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
def copy(shared: SharedOptions, sessions: tuple[str, ...], target_url: str, *, everything: bool, dry_run: bool) -> None:
    """Copy sessions to another store, byte for byte, with the blobs and the sessions they need.

    Data that the target already has is compared and not copied again, so an interrupted copy continues where it was.
    """
    if everything == bool(sessions):
        raise UsageError("give the sessions to copy, or --all", hint="see `wakelog ls`")
    sources = [_whole_store(shared)] if everything else _named_sessions(shared, sessions)
    target = _target(target_url, sources)
    printer = _ResultPrinter(shared, dry_run=dry_run)
    try:
        with contextlib.nullcontext() if shared.json else progress_bar("Copying sessions") as progress:
            printer.holds_back = progress is not None
            for source in sources:
                for done in copy_sessions(source.store, target, source.names, dry_run=dry_run, progress=progress):
                    printer.add(done)
    finally:
        printer.end()
    if printer.code:
        raise click.exceptions.Exit(printer.code)


# ── source and target ────────────────────────────────────────────────────────────────────────────


def _whole_store(shared: SharedOptions) -> _Source:
    place = StoreLocation(shared.store_url)
    return _Source(place.url, place.store, None)


def _named_sessions(shared: SharedOptions, sessions: tuple[str, ...]) -> list[_Source]:
    """Group the typed sessions by store. A path names the store of its own folder."""
    place = StoreLocation(shared.store_url)
    sources: dict[str, _Source] = {}
    for typed in sessions:
        address = find_session(shared.store_url, typed)
        if address.entry is not None:
            raise UsageError(f"{typed} names an entry", hint="a session is copied whole: leave the entry out")
        if address.ref == address.name:
            address.store.close()
            found = _Source(place.url, place.store, [])
        else:
            real = os.path.realpath(address.ref)
            # A bundle is a store of its own.
            found = _Source(
                f"jsonl:{real if real.endswith(BUNDLE_SUFFIX) else os.path.dirname(real)}", address.store, []
            )
        names = sources.setdefault(_normalized_url(found.url), found).names
        assert names is not None
        names.append(address.name)
    return list(sources.values())


def _target(url: str, sources: list[_Source]) -> Store:
    if not parse_store_url(url).kind.has_place:
        raise UsageError("a memory store is lost when this command ends", hint="name another store with --to")
    if any(_normalized_url(source.url) == _normalized_url(url) for source in sources):
        raise UsageError("a store cannot be copied onto itself", hint="name another store with --to")
    return open_trusted_store(url)


def _normalized_url(url: str) -> str:
    """Return a normalized store URL, to compare two. If two URLs of one store differ, the copy finds all unchanged."""
    return parse_store_url(url).canonical


# ── results ──────────────────────────────────────────────────────────────────────────────────────


class _ResultPrinter:
    """Print the result of each session: at once, or in `end` if `holds_back` is set."""

    def __init__(self, shared: SharedOptions, *, dry_run: bool) -> None:
        self.holds_back = False
        self._json = shared.json
        self._look = style_of(shared.color)
        self._verb = "would be copied" if dry_run else "copied"
        self._done: list[Copied] = []
        self._held_back: list[Copied] = []

    def add(self, done: Copied) -> None:
        """Record a result, and print it unless `holds_back` is set."""
        self._done.append(done)
        if self.holds_back:
            self._held_back.append(done)
        else:
            self._show(done)

    def end(self) -> None:
        """Print the results held back, and the summary."""
        for done in self._held_back:
            self._show(done)
        if not self._json:
            put(self._summary())

    @property
    def code(self) -> int:
        """Return the exit code of the worst result."""
        codes = {_CODES.get(done.status, DAMAGED if done.damage or done.lost else 0) for done in self._done}
        return next((code for code in _CODES_BY_PRIORITY if code in codes), 0)

    def _show(self, done: Copied) -> None:
        if self._json:
            put_json(_copy_values(done))
        elif done.status != "unchanged":
            status = self._look.paint(_STYLES[done.status], f"{done.status:<8}")
            put(f"{status}  {size_text(done.copied):>8}  {visible(_result_text(done))}")
        if done.error is not None:
            report_error(done.error, as_json=self._json)
        note_damage(done.name, done.damage, rest=f"and is {self._verb} as it is")
        for lost in done.lost:
            note(f"{done.name}: {lost.reason}; the rest is {self._verb}")
        if done.journals and done.status in ("copied", "pending"):
            note(f"{done.name}: an unfinished reply is not copied beyond what its log contains")

    def _summary(self) -> str:
        moved = [done for done in self._done if done.status in ("copied", "pending")]
        blobs = sum(done.blobs for done in moved)
        title = f"{plural(len(moved), 'session')} {self._verb}" if moved else f"nothing {self._verb}"
        line = self._look.paint("bold", title)
        if moved:
            line += f": {size_text(sum(done.copied for done in moved))}"
        if blobs:
            line += f" and {plural(blobs, 'blob')} of {size_text(sum(done.blob_bytes for done in moved))}"
        counts = {status: sum(done.status == status for done in self._done) for status in _STATUS_TEXTS}
        rest = ", ".join(f"{count:,} {_STATUS_TEXTS[status]}" for status, count in counts.items() if count)
        return f"{line}; {rest}" if rest else line


def _result_text(done: Copied) -> str:
    text = done.name
    if done.to not in (None, done.name):
        text += f" as {done.to}"
    if done.blobs:
        text += f", {plural(done.blobs, 'blob')}"
    return f"{text} (needed by {done.needed_by})" if done.needed_by else text


def _copy_values(done: Copied) -> dict[str, object]:
    return {
        "session": done.session,
        "name": done.name,
        "to": done.to,
        "status": done.status,
        "bytes": done.bytes,
        "copied": done.copied,
        "blobs": done.blobs,
        "blobBytes": done.blob_bytes,
        "damage": [damage_values(item) for item in done.damage],
        "lost": [{"what": lost.what, "reason": lost.reason} for lost in done.lost],
        "journals": done.journals,
        "neededBy": done.needed_by,
        "reason": done.error.message if done.error is not None else None,
    }
