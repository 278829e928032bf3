"""Commands that look for harm: `verify` proves, `doctor` explains and makes missing links. Neither changes a log.

`verify` says whether a log is what was written; `doctor` says what each fault means, what was kept and
what to do, and can write a clean copy into a new file.
"""

from collections.abc import Iterator

import click
import msgspec

from wakelog.cli.addresses import Address, find
from wakelog.cli.draw import Look, look, wrap
from wakelog.cli.export import write_new
from wakelog.cli.failures import DAMAGED, note
from wakelog.cli.harm import find_harm, noted, place
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put, put_json, put_text
from wakelog.cli.places import Place
from wakelog.cli.safe import visible
from wakelog.cli.store_checks import check_store
from wakelog.cli.times import plural, size
from wakelog.errors import UsageError
from wakelog.exchange.jsonl import standalone
from wakelog.log.proof import Proof, prove
from wakelog.log.salvage import Salvaged
from wakelog.log.seal import seal_of
from wakelog.reading import Log, read_log

_RELINKED_SHOWN = 20

# ── verify ───────────────────────────────────────────────────────────────────────────────────────


class Verdict(msgspec.Struct, frozen=True):
    """What `verify` answers."""

    ok: bool
    entries: int
    damage: list[dict[str, object]]
    broken: list[dict[str, object]]
    unsealed: int
    noted: list[dict[str, object]]
    head: str
    anchored: bool | None


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
    """Prove that nobody touched a log: every line readable, every seal right. Exit code 4 if not."""
    address = find(asked, session)
    log = read_log(address.store, address.name, verify=True)
    verdict = _judge(log, prove(address.store.load(address.name)), anchored=_anchored(address, kept))
    if asked.json:
        put_json(verdict)
    else:
        put_text(_verdict_lines(look(asked.color), address, verdict))
    if not verdict.ok:
        raise click.exceptions.Exit(DAMAGED)


def _anchored(address: Address, kept: str | None) -> bool | None:
    """Whether a digest that was kept elsewhere is one of the chain's."""
    if kept is None:
        return None
    return any(seal_of(line.raw) == kept for line in address.store.load(address.name) if line.whole)


def _judge(log: Log, proof: Proof, *, anchored: bool | None) -> Verdict:
    return Verdict(
        ok=not (log.damage or proof.broken or proof.unsealed or anchored is False),
        entries=len(log.entries),
        damage=[place(hurt) for hurt in log.damage],
        broken=[{"line": line, "offset": offset} for line, offset in proof.broken],
        unsealed=proof.unsealed,
        noted=noted(log),
        head=proof.head,
        anchored=anchored,
    )


def _verdict_lines(seen: Look, address: Address, verdict: Verdict) -> Iterator[str]:
    word = seen.paint("good", "ok") if verdict.ok else seen.paint("bad", "NOT OK")
    yield f"{visible(address.ref)}: {word}, {plural(verdict.entries, 'entry', 'entries')}"
    for hurt in verdict.damage:
        of = f"{visible(str(hurt['session']))}, " if "session" in hurt else ""
        yield f"  damage   {of}line {hurt['line']}, byte {hurt['offset']}: {visible(str(hurt['reason']))}"
    for seal in verdict.broken:
        yield f"  broken   line {seal['line']}, byte {seal['offset']}: this line, or what stands before it, was changed"
    if verdict.unsealed:
        yield f"  unsealed {plural(verdict.unsealed, 'line')} at the end without a seal"
    for hurt in verdict.noted:
        yield seen.paint("dim", f"  known    line {hurt['line']}, byte {hurt['offset']}: {hurt['reason']}")
    if verdict.anchored is not None:
        found = "is in the chain" if verdict.anchored else "is NOT in the chain: the log was cut or rewritten"
        yield f"  anchor   the digest you kept {found}"
    if verdict.head:
        yield seen.paint("dim", f"  head     {verdict.head}")
    else:
        yield seen.paint("dim", "  head     no line has a seal: there is nothing to prove yet")
    if not verdict.ok:
        yield f"  `wakelog doctor {visible(address.ref)}` explains"


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
    log = read_log(address.store, address.name, verify=True)
    findings = list(find_harm(log, prove(address.store.load(address.name))))
    saved = _salvaged(address, log, salvage) if salvage is not None else None
    if asked.json:
        put_json({"session": log.id, "name": log.name, "ok": not findings, "findings": findings, "salvage": saved})
    else:
        put_text(_doctor_lines(look(asked.color), address, log, findings, saved))
    if findings:
        raise click.exceptions.Exit(DAMAGED)


def _salvaged(address: Address, log: Log, path: str) -> dict[str, object]:
    copy: Salvaged = standalone(address.store, log)
    if not copy.lines:
        raise UsageError(f"nothing in {log.name} can be read", hint="there is nothing to make a copy of")
    write_new(path, copy.content)
    return {
        "file": path,
        "entries": copy.kept,
        "mended": copy.mended,
        "lost": copy.lost,
        "leftOut": [place(hurt) for hurt in copy.left_out],
    }


def _doctor_lines(
    seen: Look, address: Address, log: Log, findings: list[dict[str, object]], saved: dict[str, object] | None
) -> Iterator[str]:
    kept, ref = plural(len(log.entries), "entry", "entries"), visible(address.ref)
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
            yield from (f"    {line}" for line in wrap(text, seen.columns - 4))
    for hurt in noted(log):
        yield seen.paint("dim", f"  known: line {hurt['line']}, byte {hurt['offset']}: {hurt['reason']}")
    if findings:
        yield ""
        yield f"  The log itself is never changed. A clean copy: wakelog doctor {ref} --salvage FILE"


def _saved_lines(saved: dict[str, object]) -> Iterator[str]:
    entries, mended, lost = (int(str(saved[key])) for key in ("entries", "mended", "lost"))
    yield f"  wrote {visible(str(saved['file']))}: {plural(entries, 'entry', 'entries')}, sealed anew"
    if mended:
        yield f"    {plural(mended, 'entry', 'entries')} put under the nearest one that can be read"
    if lost:
        yield f"    {plural(lost, 'place')} where something may have been lost is marked in it"


def _doctor_store(asked: Asked) -> None:
    """The store itself: where it is, what lies in it, who may read it, which sessions are damaged; links are made."""
    report = check_store(Place(asked.store_url))
    if asked.json:
        put_json(report)
        return
    seen = look(asked.color)
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
    if not report.problems and not report.damaged:
        put(seen.paint("good", "nothing to complain about"))
    elif report.damaged:
        note(f"{plural(len(report.damaged), 'damaged session')}")
