"""Commands `verify` and `doctor`: check logs, blobs and the store. Neither changes a log.

`verify` reports whether a log and its blobs are as they were written. `doctor` explains each fault, what was kept and
what to do; it can write a clean copy to a new file. Without a session it checks the store and makes missing links.
"""

from collections.abc import Iterator

import click
import msgspec

from wakelog.auditing import Audit, NamedBlobs
from wakelog.cli.addresses import Address, find
from wakelog.cli.anchors import Anchor, find_anchor
from wakelog.cli.draw import Look, look, wrap
from wakelog.cli.export import write_new
from wakelog.cli.failures import DAMAGED, FAILED, note
from wakelog.cli.harm import find_harm, losing, noted, place
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put, put_json, put_text
from wakelog.cli.places import Place
from wakelog.cli.safe import visible
from wakelog.cli.store_checks import StoreReport, check_store
from wakelog.cli.times import plural, size
from wakelog.errors import UsageError
from wakelog.exchange.jsonl import content_of, standalone
from wakelog.log.proof import Proof, prove
from wakelog.scanning import Scan, scan_log

_RELINKED_SHOWN = 20

# ── verify ───────────────────────────────────────────────────────────────────────────────────────


class Verdict(msgspec.Struct, frozen=True):
    """The result of `verify`; its fields are the `--json` output."""

    ok: bool
    entries: int
    damage: list[dict[str, object]]
    broken: list[dict[str, object]]
    unsealed: int
    noted: list[dict[str, object]]
    blobs: int
    lost: list[dict[str, object]]
    head: str
    anchored: bool | None
    since: int | None

    @property
    def is_explained(self) -> bool:
        """Return whether `doctor` can explain it. A missing kept digest alone is not a finding in the log."""
        return bool(self.damage or self.broken or self.unsealed or self.lost)


@command(
    "verify",
    examples="""
    wakelog verify @latest
    wakelog verify crab_user_3 --json | jq .head       keep this digest elsewhere …
    wakelog verify crab_user_3 --head DIGEST           … and find a cut tail with it
    """,
)
@session_argument
@click.option("--head", "kept", metavar="DIGEST", help="A digest that was kept: it must still be in the chain.")
def verify(asked: Asked, session: str, kept: str | None) -> None:
    """Prove that nobody touched a log: every line readable, every seal right, every blob there. Exit code 4 if not."""
    address = find(asked, session)
    scan, proof, blobs = _checked(address)
    anchor = find_anchor(address, kept, proof.head) if kept is not None else None
    verdict = _judge(scan, proof, blobs, anchor)
    if asked.json:
        put_json(verdict)
    else:
        put_text(_verdict_lines(look(asked.color), address, verdict, anchor))
    if not verdict.ok:
        raise click.exceptions.Exit(_exit_code(blobs))


def _checked(address: Address) -> tuple[Scan, Proof, Audit]:
    """Check every line, seal and blob of a session. Reads line by line: the log may be larger than memory."""
    named = NamedBlobs()
    scan = scan_log(address.store, address.name, named.take)
    return scan, prove(address.store.load(address.name)), named.audit(address.store.blobs)


def _exit_code(blobs: Audit) -> int:
    """Return `FAILED` if a blob is not accessible to this user, because then damage is not proved; else `DAMAGED`."""
    return FAILED if any(loss.kind == "inaccessible blob" for loss in blobs.losses) else DAMAGED


def _judge(scan: Scan, proof: Proof, blobs: Audit, anchor: Anchor | None) -> Verdict:
    anchored = anchor.since is not None if anchor is not None else None
    return Verdict(
        ok=not (scan.damage or proof.broken or proof.unsealed or blobs.losses or anchored is False),
        entries=scan.entries,
        damage=[place(hurt) for hurt in scan.damage],
        broken=[{"line": line, "offset": offset} for line, offset in proof.broken],
        unsealed=proof.unsealed,
        noted=noted(scan),
        blobs=blobs.blobs,
        lost=[losing(loss) for loss in blobs.losses],
        head=proof.head,
        anchored=anchored,
        since=anchor.since if anchor is not None else None,
    )


def _verdict_lines(seen: Look, address: Address, verdict: Verdict, anchor: Anchor | None) -> Iterator[str]:
    word = seen.paint("good", "ok") if verdict.ok else seen.paint("bad", "NOT OK")
    blobs = f", {plural(verdict.blobs, 'blob')}" if verdict.blobs else ""
    yield f"{visible(address.ref)}: {word}, {plural(verdict.entries, 'entry', 'entries')}{blobs}"
    for hurt in verdict.damage:
        of = f"{visible(str(hurt['session']))}, " if "session" in hurt else ""
        yield f"  damage   {of}line {hurt['line']}, byte {hurt['offset']}: {visible(str(hurt['reason']))}"
    for seal in verdict.broken:
        yield f"  broken   line {seal['line']}, byte {seal['offset']}: this line, or what stands before it, was changed"
    if verdict.unsealed:
        yield f"  unsealed {plural(verdict.unsealed, 'line')} at the end without a seal"
    for hurt in verdict.noted:
        yield seen.paint("dim", f"  known    line {hurt['line']}, byte {hurt['offset']}: {hurt['reason']}")
    for loss in verdict.lost:
        yield f"  {str(loss['kind']).removesuffix(' blob'):<8} {visible(str(loss['reason']))}"
    if anchor is not None:
        yield f"  anchor   {visible(_anchor_words(anchor))}"
    if verdict.head:
        yield seen.paint("dim", f"  head     {verdict.head}")
    else:
        yield seen.paint("dim", "  head     no line has a seal: there is nothing to prove yet")
    if verdict.is_explained:
        yield f"  `wakelog doctor {visible(address.ref)}` explains"


def _anchor_words(anchor: Anchor) -> str:
    if anchor.since == 0:
        return "the digest you kept is the head of this log"
    if anchor.since is not None:
        gone_on = plural(anchor.since, "entry", "entries")
        return f"the digest you kept is in the chain; the log has gone on since: {gone_on} later"
    if anchor.longer is not None:
        return f"this log was cut: {anchor.longer} is the same log, and goes on to the digest you kept"
    return (
        "the digest you kept is NOT in the chain: it is the digest of another log, "
        "or this log was cut or rewritten before it"
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
def doctor(asked: Asked, session: str | None, salvage: str | None) -> None:
    """Explain what is damaged, what was kept and what to do; without a session, check the store."""
    if session is None:
        if salvage is not None:
            raise UsageError("a copy is made of one session", hint="wakelog doctor SESSION --salvage FILE")
        _doctor_store(asked)
        return
    address = find(asked, session)
    scan, proof, blobs = _checked(address)
    findings = list(find_harm(scan.damage, proof, blobs.losses))
    saved = _salvaged(address, salvage) if salvage is not None else None
    if asked.json:
        put_json({"session": scan.id, "name": scan.name, "ok": not findings, "findings": findings, "salvage": saved})
    else:
        put_text(_doctor_lines(look(asked.color), address, scan, findings, saved))
    if findings:
        raise click.exceptions.Exit(_exit_code(blobs))


def _salvaged(address: Address, path: str) -> dict[str, object]:
    copy = standalone(address.store, scan_log(address.store, address.name, verify=False))
    if copy is None:
        raise UsageError(f"nothing in {address.name} can be read", hint="there is nothing to make a copy of")
    write_new(path, content_of(copy))
    return {
        "file": path,
        "entries": copy.kept,
        "mended": copy.mended,
        "lost": copy.lost,
        "leftOut": [place(hurt) for hurt in copy.left_out],
    }


def _doctor_lines(
    seen: Look, address: Address, scan: Scan, findings: list[dict[str, object]], saved: dict[str, object] | None
) -> Iterator[str]:
    kept, ref = plural(scan.entries, "entry", "entries"), visible(address.ref)
    state = seen.paint("bad", plural(len(findings), "finding")) if findings else seen.paint("good", "healthy")
    yield f"{ref}: {state}, {kept} read"
    if saved is not None:
        yield from _saved_lines(saved)
        return
    for finding in findings:
        yield ""
        of = f"in {visible(str(finding['session']))}, " if "session" in finding else ""
        where = f"{of}line {finding['line']}, byte {finding['offset']}" if finding["line"] else "at the end"
        yield f"  {seen.paint('bad', str(finding['kind']))} {where}: {visible(str(finding['reason']))}"
        for text in (str(finding["meaning"]), str(finding["advice"])):
            yield from (f"    {line}" for line in wrap(visible(text), seen.columns - 4))
    for hurt in noted(scan):
        yield seen.paint("dim", f"  known: line {hurt['line']}, byte {hurt['offset']}: {hurt['reason']}")
    if findings:
        yield ""
        yield f"  The log itself is never changed. A clean copy: wakelog doctor {ref} --salvage FILE"
    else:
        yield seen.paint("dim", "  Lines that were cut off at its end leave no trace in a log. A digest kept elsewhere")
        yield seen.paint("dim", f"  finds that: wakelog verify {ref} --head DIGEST")


def _saved_lines(saved: dict[str, object]) -> Iterator[str]:
    entries, mended, lost = (int(str(saved[key])) for key in ("entries", "mended", "lost"))
    yield f"  wrote {visible(str(saved['file']))}: {plural(entries, 'entry', 'entries')}, sealed anew"
    if mended:
        yield f"    {plural(mended, 'entry', 'entries')} put under the nearest one that can be read"
    if lost:
        yield f"    {plural(lost, 'place')} where something may have been lost is marked in it"


def _doctor_store(asked: Asked) -> None:
    """Report location, contents, permissions and damaged sessions of the store; make missing links."""
    report = check_store(Place(asked.store_url))
    if asked.json:
        put_json(report)
    else:
        _put_report(look(asked.color), report)
    if report.is_bad:
        raise click.exceptions.Exit(FAILED if report.inaccessible else DAMAGED)


def _put_report(seen: Look, report: StoreReport) -> None:
    put(f"store     {visible(report.store)}")
    put(f"sessions  {report.sessions}, {size(report.bytes)}")
    if report.index:
        put(f"index     {visible(report.index)} ({size(report.index_bytes)}, may be deleted at any time)")
    for link in report.relinked[:_RELINKED_SHOWN]:
        put(f"relinked  {visible(link)}")
    if len(report.relinked) > _RELINKED_SHOWN:
        put(f"relinked  {len(report.relinked) - _RELINKED_SHOWN} more; --json lists all")
    for problem in report.problems:
        put(f"{seen.paint('warn', 'problem')}   {visible(problem)}")
    for name in report.damaged:
        put(f"{seen.paint('bad', 'damaged')}   {visible(name)}; see `wakelog doctor {visible(name)}`")
    for found in report.lost:
        name, lost = visible(found.name), f"{plural(found.blobs, 'blob')} missing, or of another size"
        put(f"{seen.paint('bad', 'lost')}      {name}: {lost}; see `wakelog doctor {name}`")
    for name in report.inaccessible:
        put(f"{seen.paint('bad', 'no access')} {visible(name)}; check who owns it and its permissions")
    if not report.problems and not report.is_bad:
        put(seen.paint("good", "nothing to complain about"))
    elif report.damaged:
        note(f"{plural(len(report.damaged), 'damaged session')}")
