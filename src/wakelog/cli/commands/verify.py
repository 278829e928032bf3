"""Commands `verify` and `doctor`: check logs, blobs and the store. Neither changes a log.

`verify` reports whether a log and its blobs are as they were written. `doctor` explains each fault, what was kept and
what to do; it can write a clean copy to a new file. Without a session it checks the store and makes missing links.
"""

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from wakelog.app.addresses import Address, find_session
from wakelog.app.integrity import (
    DigestMatch,
    Verdict,
    find_digest,
    find_problems,
    noted_damage,
    verdict_of,
    write_salvaged_copy,
)
from wakelog.app.store_checks import StoreReport, check_store
from wakelog.app.stores import StoreLocation
from wakelog.cli import load
from wakelog.cli.ui.errors import DAMAGED, FAILED, note
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put, put_json, put_text
from wakelog.cli.ui.quantities import plural, redacted_text, size_text
from wakelog.cli.ui.safe_text import visible
from wakelog.cli.ui.terminal import TerminalStyle, style_of, wrap
from wakelog.errors import UsageError
from wakelog.folders import user_folder
from wakelog.verification import BlobAudit, Verification, verify_session

if TYPE_CHECKING:
    from wakelog.exchange.retention import ToolHistory

_RELINKED_SHOWN = 20


@command(
    "verify",
    examples="""
    wakelog verify @latest
    wakelog verify crab_user_3 --json | jq .head       keep this digest elsewhere …
    wakelog verify crab_user_3 --head DIGEST           … and detect a removed tail with it
    """,
)
@session_argument
@click.option("--head", "kept", metavar="DIGEST", help="A digest kept elsewhere: it must still be in the chain.")
def verify(shared: SharedOptions, session: str, kept: str | None) -> None:
    """Check that a log and its blobs are unchanged: every line readable, every seal and every blob right.

    Exit code 4 if not.
    """
    address = find_session(shared.store_url, session)
    verified = verify_session(address.store, address.name)
    anchor = find_digest(address, kept, verified.head) if kept is not None else None
    verdict = verdict_of(verified, anchor)
    if shared.json:
        put_json(verdict)
    else:
        put_text(_verdict_lines(style_of(shared.color), address, verdict, anchor))
    if not verdict.ok:
        raise click.exceptions.Exit(_exit_code(verified.blobs))


def _exit_code(blobs: BlobAudit) -> int:
    """Return `FAILED` if a blob is not accessible to this user, because then damage is not proved; else `DAMAGED`."""
    return FAILED if any(loss.kind == "inaccessible blob" for loss in blobs.losses) else DAMAGED


def _verdict_lines(
    look: TerminalStyle, address: Address, verdict: Verdict, anchor: DigestMatch | None
) -> Iterator[str]:
    word = look.paint("good", "ok") if verdict.ok else look.paint("bad", "NOT OK")
    blobs = f", {plural(verdict.blobs, 'blob')}" if verdict.blobs else ""
    yield f"{visible(address.ref)}: {word}, {plural(verdict.entries, 'entry', 'entries')}{blobs}"
    for item in verdict.damage:
        of = f"{visible(str(item['session']))}, " if "session" in item else ""
        yield f"  damage   {of}line {item['line']}, byte {item['offset']}: {visible(str(item['reason']))}"
    for seal in verdict.broken:
        yield f"  broken   line {seal['line']}, byte {seal['offset']}: this line, or one before it, was changed"
    if verdict.unsealed:
        yield f"  unsealed {plural(verdict.unsealed, 'line')} at the end without a seal"
    for item in verdict.noted:
        yield look.paint("dim", f"  known    line {item['line']}, byte {item['offset']}: {item['reason']}")
    for loss in verdict.lost:
        yield f"  {str(loss['kind']).removesuffix(' blob'):<8} {visible(str(loss['reason']))}"
    if anchor is not None:
        yield f"  anchor   {visible(_digest_text(anchor))}"
    if verdict.head:
        yield look.paint("dim", f"  head     {verdict.head}")
    else:
        yield look.paint("dim", "  head     no line has a seal, so nothing can be proved yet")
    if verdict.is_explained:
        yield f"  `wakelog doctor {visible(address.ref)}` explains"


def _digest_text(anchor: DigestMatch) -> str:
    if anchor.since == 0:
        return "the digest you kept is the head of this log"
    if anchor.since is not None:
        appended = plural(anchor.since, "entry", "entries")
        return f"the digest you kept is in the chain; {appended} appended since"
    if anchor.longer is not None:
        return f"this log was cut: {anchor.longer} is the same log and contains the digest you kept"
    return (
        "the digest you kept is NOT in the chain: it belongs to another log, or this log was cut or rewritten before it"
    )


# ── doctor ───────────────────────────────────────────────────────────────────────────────────────


@command(
    "doctor",
    examples="""
    wakelog doctor                           check the store itself
    wakelog doctor crab_user_3               explain what is wrong with a session
    wakelog doctor crab_user_3 --salvage clean.jsonl
    """,
)
@click.argument("session", required=False, metavar="[SESSION]")
@click.option("--salvage", metavar="FILE", help="Write a clean copy into a new file; the log stays as it is.")
def doctor(shared: SharedOptions, session: str | None, salvage: str | None) -> None:
    """Explain what is damaged, what was kept and what to do; without a session, check the store."""
    if session is None:
        if salvage is not None:
            raise UsageError("--salvage requires a session", hint="use wakelog doctor SESSION --salvage FILE")
        _doctor_store(shared)
        return
    address = find_session(shared.store_url, session)
    verified = verify_session(address.store, address.name)
    scan = verified.scan
    findings = list(find_problems(verified.damage, verified.seals, verified.blobs.losses))
    saved = write_salvaged_copy(address, salvage) if salvage is not None else None
    if shared.json:
        found = {"ok": not findings, "findings": findings, "redacted": dict(verified.redacted), "salvage": saved}
        put_json({"session": scan.id, "name": scan.name, **found})
    else:
        put_text(_doctor_lines(style_of(shared.color), address, verified, findings, saved))
    if findings:
        raise click.exceptions.Exit(_exit_code(verified.blobs))


def _doctor_lines(
    look: TerminalStyle,
    address: Address,
    verified: Verification,
    findings: list[dict[str, object]],
    saved: dict[str, object] | None,
) -> Iterator[str]:
    scan, ref = verified.scan, visible(address.ref)
    kept = plural(scan.entries, "entry", "entries")
    state = look.paint("bad", plural(len(findings), "finding")) if findings else look.paint("good", "healthy")
    yield f"{ref}: {state}, {kept} read"
    if saved is not None:
        yield from _saved_lines(saved)
        return
    for finding in findings:
        yield ""
        of = f"in {visible(str(finding['session']))}, " if "session" in finding else ""
        where = f"{of}line {finding['line']}, byte {finding['offset']}" if finding["line"] else "at the end"
        yield f"  {look.paint('bad', str(finding['kind']))} {where}: {visible(str(finding['reason']))}"
        for text in (str(finding["meaning"]), str(finding["advice"])):
            yield from (f"    {line}" for line in wrap(visible(text), look.columns - 4))
    if verified.redacted:
        yield f"  {redacted_text(verified.redacted)}"
    for item in noted_damage(scan):
        yield look.paint("dim", f"  known: line {item['line']}, byte {item['offset']}: {item['reason']}")
    if findings:
        yield ""
        yield f"  The log itself is never changed. A clean copy: wakelog doctor {ref} --salvage FILE"
    else:
        yield look.paint(
            "dim", "  A log does not show that lines were removed at its end. A digest kept elsewhere does:"
        )
        yield look.paint("dim", f"  wakelog verify {ref} --head DIGEST")


def _saved_lines(saved: dict[str, object]) -> Iterator[str]:
    entries, reattached, lost = (int(str(saved[key])) for key in ("entries", "mended", "lost"))
    yield f"  wrote {visible(str(saved['file']))}: {plural(entries, 'entry', 'entries')}, sealed again"
    if reattached:
        yield f"    {plural(reattached, 'entry', 'entries')} attached to the nearest readable entry"
    if lost:
        yield f"    marked in the copy: {plural(lost, 'place')} where data may be lost"


def _doctor_store(shared: SharedOptions) -> None:
    """Report location, contents, permissions and damaged sessions of the store; make missing links."""
    place = StoreLocation(shared.store_url)
    report, tools = check_store(place), _tools(place)
    if shared.json:
        put_json({**msgspec.to_builtins(report), "tools": tools})
    else:
        _put_store_report(style_of(shared.color), report, tools)
    if report.is_bad:
        raise click.exceptions.Exit(FAILED if report.inaccessible else DAMAGED)


def _tools(place: StoreLocation) -> "list[ToolHistory]":
    """Return the histories of other agents on this machine."""
    with load("wakelog.exchange.sync_index").SyncIndex(user_folder("cache"), place.url, create=False) as index:
        found: list[ToolHistory] = load("wakelog.exchange.retention").tool_histories(os.environ, index, time.time())
        return found


def _tool_line(look: TerminalStyle, tool: "ToolHistory") -> str:
    """Return how many files of another agent are not imported, and when that agent deletes them."""
    words = f"{plural(tool.files, 'session file')}, {tool.not_imported:,} not imported"
    if tool.deletes_after_days is not None:
        words += f"; it deletes them after {tool.deletes_after_days} days"
    if tool.deleted_soon:
        words += look.paint("warn", f", {tool.deleted_soon:,} within a week") + "; `wakelog import --all` keeps them"
    return words


def _put_store_report(look: TerminalStyle, report: StoreReport, tools: "Sequence[ToolHistory]") -> None:
    put(f"store     {visible(report.store)}")
    put(f"sessions  {report.sessions}, {size_text(report.bytes)}")
    if report.index:
        put(f"index     {visible(report.index)} ({size_text(report.index_bytes)}, may be deleted at any time)")
    if report.redacted:
        put(f"secrets   {redacted_text(report.redacted)}")
    for link in report.relinked[:_RELINKED_SHOWN]:
        put(f"relinked  {visible(link)}")
    if len(report.relinked) > _RELINKED_SHOWN:
        put(f"relinked  {len(report.relinked) - _RELINKED_SHOWN} more; --json lists all")
    for problem in report.problems:
        put(f"{look.paint('warn', 'problem')}   {visible(problem)}")
    for tool in tools:
        put(f"agent     {tool.tool}: {_tool_line(look, tool)}")
    for name in report.damaged:
        put(f"{look.paint('bad', 'damaged')}   {visible(name)}; see `wakelog doctor {visible(name)}`")
    for found in report.lost:
        name, lost = visible(found.name), f"{plural(found.blobs, 'blob')} missing, or of another size"
        put(f"{look.paint('bad', 'lost')}      {name}: {lost}; see `wakelog doctor {name}`")
    for name in report.inaccessible:
        put(f"{look.paint('bad', 'no access')} {visible(name)}; check its owner and permissions")
    if not report.problems and not report.is_bad:
        put(look.paint("good", "no problems found"))
    elif report.damaged:
        note(f"{plural(len(report.damaged), 'damaged session')}")
