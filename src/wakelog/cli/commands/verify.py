"""Commands `verify` and `doctor`: check logs, blobs and the store. Neither changes a log.

`verify` reports whether a log and its blobs are as they were written, or with `--all` those of every session. `doctor`
explains each fault, what was kept and what to do; it can write a clean copy to a new file. Without a session it checks
the store within a few seconds, says what it did not check, and makes missing links.
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
from wakelog.app.store_checks import StoreReport, check_store, verify_all
from wakelog.app.stores import StoreLocation
from wakelog.cli import load
from wakelog.cli.ui.errors import BUNDLE_HINT, DAMAGED, FAILED, note
from wakelog.cli.ui.options import SharedOptions, command, optional_session_argument
from wakelog.cli.ui.output import put, put_json, put_text
from wakelog.cli.ui.quantities import plural, redacted_text, size_text
from wakelog.cli.ui.safe_text import visible
from wakelog.cli.ui.terminal import TerminalStyle, style_of, wrap
from wakelog.errors import UsageError
from wakelog.folders import user_folder
from wakelog.verification import BlobAudit, BlobLoss, SessionCheck, Verification, verify_session

if TYPE_CHECKING:
    from wakelog.exchange.retention import ToolHistory

_RELINKED_SHOWN = 20


@command(
    "verify",
    examples="""
    wakelog verify @latest
    wakelog verify crab_user_3 --json | jq .head       keep this digest elsewhere …
    wakelog verify crab_user_3 --head DIGEST           … and detect a removed tail with it
    wakelog verify --all                               every session of the store
    """,
)
@optional_session_argument
@click.option("--head", "kept", metavar="DIGEST", help="A digest kept elsewhere: it must still be in the chain.")
@click.option("--all", "everything", is_flag=True, help="Check every session of the store.")
def verify(shared: SharedOptions, session: str | None, kept: str | None, *, everything: bool) -> None:
    """Check that a log and its blobs are unchanged: every line readable, every seal and every blob right.

    Exit code 4 if not. With --all, a damaged session does not end the check of the others.
    """
    if everything == (session is not None):
        raise UsageError("name a session, or use --all")
    if session is None:
        if kept is not None:
            raise UsageError("--head requires a session", hint="use wakelog verify SESSION --head DIGEST")
        _verify_all(shared)
        return
    address = find_session(shared.store_url, session)
    verified = verify_session(address.store, address.name)
    anchor = find_digest(address, kept, verified.head) if kept is not None else None
    verdict = verdict_of(verified, anchor)
    if shared.json:
        put_json(verdict)
    else:
        put_text(_verdict_lines(style_of(shared.color), address.ref, verdict, anchor, verified.blobs.losses))
    if not verdict.ok:
        raise click.exceptions.Exit(_exit_code(verified.blobs))


def _verify_all(shared: SharedOptions) -> None:
    """Verify every session; print the faults, or with `--json` a line for each session."""
    look, codes = style_of(shared.color), dict.fromkeys((0, FAILED, DAMAGED), 0)
    for check in verify_all(StoreLocation(shared.store_url).store):
        codes[_code_of(check)] += 1
        if shared.json:
            put_json({"name": check.name, "error": str(check.error) if check.error else None, **_values_of(check)})
        elif not check.ok:
            put_text(_fault_lines(look, check))
    good, unknown, bad = codes.values()
    if not shared.json:
        parts = (f"{good:,} ok", f"{bad:,} NOT OK" if bad else "", f"{unknown:,} not verified" if unknown else "")
        put(f"{plural(sum(codes.values()), 'session')}: {', '.join(filter(None, parts))}")
    if bad or unknown:
        raise click.exceptions.Exit(DAMAGED if bad else FAILED)


def _code_of(check: SessionCheck) -> int:
    """Return the exit code for one of many sessions."""
    if check.ok:
        return 0
    return DAMAGED if check.is_damaged or check.lost_blobs else FAILED


def _values_of(check: SessionCheck) -> dict[str, object]:
    """Return the fields of the verdict on a session; only `ok` if it could not be read."""
    if check.verified is None:
        return {"ok": False}
    values: dict[str, object] = msgspec.to_builtins(verdict_of(check.verified, None))
    return values


def _fault_lines(look: TerminalStyle, check: SessionCheck) -> Iterator[str]:
    if check.verified is not None:
        verified = check.verified
        yield from _verdict_lines(look, check.name, verdict_of(verified, None), None, verified.blobs.losses)
    else:
        word = "NOT OK" if check.is_damaged else "not verified"
        yield f"{visible(check.name)}: {look.paint('bad', word)}, {visible(str(check.error))}"


def _exit_code(blobs: BlobAudit) -> int:
    """Return `FAILED` if a blob is not accessible to this user, because then damage is not proved; else `DAMAGED`."""
    return FAILED if any(loss.kind == "inaccessible blob" for loss in blobs.losses) else DAMAGED


def _verdict_lines(
    look: TerminalStyle, ref: str, verdict: Verdict, anchor: DigestMatch | None, losses: Sequence[BlobLoss]
) -> Iterator[str]:
    word = look.paint("good", "ok") if verdict.ok else look.paint("bad", "NOT OK")
    blobs = f", {plural(verdict.blobs, 'blob')}" if verdict.blobs else ""
    yield f"{visible(ref)}: {word}, {plural(verdict.entries, 'entry', 'entries')}{blobs}"
    for item in verdict.damage:
        of = f"{visible(str(item['session']))}, " if "session" in item else ""
        yield f"  damage   {of}line {item['line']}, byte {item['offset']}: {visible(str(item['reason']))}"
    for seal in verdict.broken:
        yield f"  broken   line {seal['line']}, byte {seal['offset']}: this line, or one before it, was changed"
    if verdict.unsealed:
        yield f"  unsealed {plural(verdict.unsealed, 'line')} at the end without a seal"
    for item in verdict.noted:
        yield look.paint("dim", f"  known    line {item['line']}, byte {item['offset']}: {item['reason']}")
    for loss in losses:
        yield f"  {loss.kind.removesuffix(' blob'):<8} {visible(str(loss))}"
    if any(loss.kind == "missing blob" for loss in losses) or any(item["kind"] == "origin" for item in verdict.damage):
        yield f"  {BUNDLE_HINT}"
    if anchor is not None:
        yield f"  anchor   {visible(_digest_text(anchor))}"
    if verdict.head:
        yield look.paint("dim", f"  head     {verdict.head}")
    else:
        yield look.paint("dim", "  head     no line has a seal, so nothing can be proved yet")
    if verdict.is_explained:
        yield f"  `wakelog doctor {visible(ref)}` explains"


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
    if report.is_damaged or report.inaccessible:
        raise click.exceptions.Exit(DAMAGED if report.is_damaged else FAILED)


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
    put_text(_coverage_lines(look, report))
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
    if report.damaged:
        note(f"{plural(len(report.damaged), 'damaged session')}")
    elif not (report.problems or report.lost or report.inaccessible):
        put(look.paint("good", "no problems found" if report.is_complete else "no problems found in what was checked"))


def _coverage_lines(look: TerminalStyle, report: StoreReport) -> Iterator[str]:
    """Yield what `doctor` checked, and what it did not."""
    if report.verified:
        yield f"verified  {plural(report.verified, 'session')}: every line and seal, and that each blob has its size"
    if report.is_complete:
        return
    logs = f"{plural(report.unverified, 'session')} ({size_text(report.unverified_bytes)})" if report.unverified else ""
    blobs = f"the bytes of {plural(report.unread_blobs, 'blob')}" if report.unread_blobs else ""
    refused = "what this user may not read" if report.inaccessible else ""
    unchecked = ", ".join(filter(None, (logs, blobs, refused)))
    yield f"{look.paint('warn', 'unchecked')} {unchecked}; `wakelog verify --all` checks everything"
