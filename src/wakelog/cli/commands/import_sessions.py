"""Command `import`: import the sessions of other agents, and bring imported ones up to date.

One line for each session that has changed and one summary line for each tool. A file that cannot be imported does not
stop the others. The result of every file is printed even if the import is interrupted.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import click

from wakelog.app.stores import StoreLocation
from wakelog.cli.ui.errors import DAMAGED, FAILED, note, report_error
from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import progress_bar, put, put_json
from wakelog.cli.ui.quantities import counted, plural, redacted_text
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.cli.ui.terminal import style_of
from wakelog.errors import UsageError, WakelogError
from wakelog.exchange.account import ImportedSession
from wakelog.exchange.places import session_files, usual_files
from wakelog.exchange.sync import ImportedFile, import_files
from wakelog.exchange.sync_index import SyncIndex
from wakelog.folders import user_folder

Progress: TypeAlias = Callable[[int, int], None]
_WATCH_S = 2.0
_BAD_SHOWN = 3


@command(
    "import",
    examples="""
    wakelog import --all                                     all tools, from their usual places
    wakelog import ~/.claude/projects/-home-me-repo          a folder, a file, or a database
    wakelog import --all --dry-run --report                  what would be imported, and what would not be mapped
    wakelog import --all --watch                             until Ctrl-C, whenever a session grows
    """,
)
@click.argument("paths", metavar="PATH…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Import from the usual places of all known tools.")
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.option("--report", is_flag=True, help="Show for each session which records were not mapped, and why.")
@click.option("--watch", is_flag=True, help="Look for changes every two seconds until interrupted.")
def import_(
    shared: SharedOptions, paths: tuple[str, ...], *, everything: bool, dry_run: bool, report: bool, watch: bool
) -> None:
    """Import the sessions of other agents.

    Known are Claude Code, Codex, pi, OpenCode, OpenClaw, Gemini CLI, Goose, efferent, crabtalk and Aider, lists of
    messages for the APIs of OpenAI and Anthropic, and logs of wakelog itself. A file is recognised by its content.

    Nothing is dropped silently: each record becomes an entry, is kept verbatim, or is counted in the report. Repeated
    imports add only what is new. Imported sessions start nothing; `wakelog fork` or `wakelog chat` continues one.
    """
    if everything == bool(paths):
        raise UsageError("give files or folders to import, or --all", hint="see `wakelog import --help`")
    if watch and dry_run:
        raise UsageError("--watch and --dry-run exclude each other")
    given = [os.path.abspath(os.path.expanduser(path)) for path in paths]
    place = StoreLocation(shared.store_url)
    told: set[str] = set()
    with SyncIndex(user_folder("cache"), place.url) as index:
        while True:
            printer = _ResultPrinter(shared, given, dry_run=dry_run, report=report, told=told)
            files = list(_files(given, everything=everything))
            if not files and not watch:
                note("no sessions of other agents were found")
            try:
                with _progress(shared, watch=watch) as progress:
                    printer.holds_back = progress is not None
                    again = (report or shared.json) and not watch
                    results = import_files(place.store, files, index, dry_run=dry_run, read_unchanged=again)
                    for number, done in enumerate(results, 1):
                        printer.add(done)
                        if progress is not None:
                            progress(number, len(files))
            finally:
                printer.end(is_quiet=watch)
            if not watch:
                break
            time.sleep(_WATCH_S)
    if printer.code:
        raise click.exceptions.Exit(printer.code)


def _files(paths: Iterable[str], *, everything: bool) -> Iterator[str]:
    if everything:
        for files in usual_files(os.environ).values():
            yield from files
    else:
        yield from session_files(paths)


def _progress(shared: SharedOptions, *, watch: bool) -> "contextlib.AbstractContextManager[Progress | None]":
    return contextlib.nullcontext() if shared.json or watch else progress_bar("Importing sessions")


class _ResultPrinter:
    """Print the result of each session: at once, or in `end` if `holds_back` is set.

    `told` has the errors that were printed before, which are not printed again while files are watched.
    """

    def __init__(
        self, shared: SharedOptions, named: Iterable[str], *, dry_run: bool, report: bool, told: set[str]
    ) -> None:
        self._told = told
        self.holds_back = False
        self._named = frozenset(named)
        self._json = shared.json
        self._look = style_of(shared.color)
        self._verb = "would be imported" if dry_run else "imported"
        self._report = report
        self._done: list[ImportedFile] = []
        self._held_back: list[ImportedFile] = []

    def add(self, done: ImportedFile) -> None:
        """Record a result, and print it unless `holds_back` is set."""
        self._done.append(done)
        if self.holds_back:
            self._held_back.append(done)
        else:
            self._show(done)

    def end(self, *, is_quiet: bool) -> None:
        """Print the results held back, and one summary line for each tool."""
        for done in self._held_back:
            self._show(done)
        if self._json or (is_quiet and not any(each.added for done in self._done for each in done.sessions)):
            return
        tools = dict.fromkeys(done.tool for done in self._done if done.tool)
        for tool in tools:
            put(self._summary(tool))
        for status, words in (("unchanged", "unchanged since the last import"), ("no session", "no session")):
            count = sum(done.status == status and not self._is_failure(done) for done in self._done)
            if count and not is_quiet:
                put(f"{plural(count, 'file')}: {words}")

    @property
    def code(self) -> int:
        """Return the exit code of the worst result."""
        if any(self._is_failure(done) or any(each.error for each in done.sessions) for done in self._done):
            return FAILED
        return DAMAGED if any(done.damage or each.account.bad for done in self._done for each in done.sessions) else 0

    def _is_failure(self, done: ImportedFile) -> bool:
        """Return whether a file failed. Files in a folder need not be sessions; one that was named must be."""
        return done.error is not None and (done.status == "failed" or done.path in self._named)

    def _show(self, done: ImportedFile) -> None:
        if done.error is not None and self._is_failure(done):
            self._show_error(done.error)
        for sentence in done.damage:
            note(f"{done.path}: {sentence}")
        for each in done.sessions:
            if each.error is not None:
                self._show_error(each.error)
            elif self._json:
                put_json(_values(done, each))
            elif each.added or self._report:
                self._show_session(each)

    def _show_error(self, error: WakelogError) -> None:
        if str(error) not in self._told:
            self._told.add(str(error))
            report_error(error, as_json=self._json)

    def _show_session(self, each: ImportedSession) -> None:
        status = "new" if each.is_new else "grown" if each.added else "same"
        where = each.name or each.origin.id
        title = self._look.paint("good", f"{status:<5}")
        put(f"{title}  {each.added:>6,}  {visible(where)}  {first_line(each.origin.path)}")
        account = each.account
        if self._report:
            put(f"       {plural(account.read, 'record')}: {_kept(account.mapped, account.verbatim, account.left_out)}")
            for (kind, reason), count in account.skipped.items():
                put(f"       {counted(count, visible(kind))} left out: {visible(reason)}")
        for bad in account.bad[: None if self._report else _BAD_SHOWN]:
            note(f"{each.origin.path}: line {bad.line} (byte {bad.offset:,}) is not imported: {bad.reason}")
        if self._report and account.bad_count > len(account.bad):
            note(f"{each.origin.path}: {account.bad_count - len(account.bad):,} more lines are not imported")

    def _summary(self, tool: str) -> str:
        sessions = [each for done in self._done if done.tool == tool for each in done.sessions if each.error is None]
        new = sum(each.is_new for each in sessions)
        grown = sum(bool(each.added) and not each.is_new for each in sessions)
        read = sum(each.account.read for each in sessions)
        mapped = sum(each.account.mapped for each in sessions)
        bad = sum(each.account.bad_count for each in sessions)
        failed = sum(1 for done in self._done if done.tool == tool and done.error is not None)
        words = [f"{plural(new, 'new session')} {self._verb}"]
        words += [f"{grown:,} grown"] if grown else []
        words += [f"{failed:,} failed"] if failed else []
        verbatim = sum(each.account.verbatim for each in sessions)
        left_out = sum(each.account.left_out for each in sessions)
        words += [plural(read, "record") + (f": {_kept(mapped, verbatim, left_out)}" if read else "")]
        words += [f"{plural(bad, 'unreadable record')}"] if bad else []
        redacted = sum((Counter(each.redacted) for each in sessions), Counter[str]())
        words += [redacted_text(redacted)] if redacted else []
        return f"{self._look.paint('bold', tool)}: {'; '.join(words)}"


def _kept(mapped: int, verbatim: int, left_out: int) -> str:
    """Return in words what became of records: shown as entries, kept verbatim, or left out."""
    words = [f"{mapped:,} shown"]
    words += [f"{verbatim:,} kept verbatim"] if verbatim else []
    words += [f"{left_out:,} left out"] if left_out else []
    return ", ".join(words)


def _values(done: ImportedFile, each: ImportedSession) -> dict[str, object]:
    return {
        "session": each.session,
        "name": each.name,
        "tool": done.tool,
        "path": done.path,
        "origin": each.origin.id,
        "isNew": each.is_new,
        "added": each.added,
        "redacted": dict(each.redacted),
        **each.account.to_plain(),
    }
