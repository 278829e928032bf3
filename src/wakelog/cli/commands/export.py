"""Commands `export` and `handoff`: write a session as JSONL, JSON, Markdown or a session of another agent."""

import os
import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
import msgspec

from wakelog.app.addresses import Address, find_session
from wakelog.app.export import ExportContent, document_content, jsonl_content, write_new_file
from wakelog.cli import load
from wakelog.cli.ui.errors import BUNDLE_HINT, exit_if_damaged, note
from wakelog.cli.ui.options import SharedOptions, at_option, command, session_argument
from wakelog.cli.ui.output import put, put_bytes, put_json
from wakelog.cli.ui.quantities import counted
from wakelog.cli.ui.safe_text import visible
from wakelog.errors import UsageError

if TYPE_CHECKING:
    from wakelog.exchange.handoff import HandoffPlan
    from wakelog.exchange.writing import Loss, SessionToWrite, WrittenSession
    from wakelog.log.lines import Damage

TARGETS = ("claude-code", "codex", "pi", "opencode", "gemini", "goose", "aider", "openai", "anthropic")


@command(
    "export",
    examples="""
    wakelog export @latest --format md | less
    wakelog export crab_user_3 -f jsonl -o session.jsonl
    wakelog export crab_user_3 -f bundle -o session.wakelog
    wakelog export crab_user_3:12 -f md -o until-12.md
    wakelog export crab_user_3 --to claude-code -o session.jsonl
    wakelog export crab_user_3 --json | jq .title
    """,
)
@session_argument
@click.option("-f", "--format", "shape", type=click.Choice(["jsonl", "md", "json", "bundle"]), help="[default: jsonl]")
@click.option("--to", "target", type=click.Choice(TARGETS), help="Write the format of another agent or API.")
@click.option("-o", "--output", metavar="FILE", help="Write to a new file. [default: standard output]")
@at_option
def export(
    shared: SharedOptions, session: str, shape: str | None, target: str | None, output: str | None, at: str | None
) -> None:
    """Export a session as JSONL, Markdown or JSON, or for another agent.

    jsonl is the log itself, json (or --json) one document, md one branch for people to read, bundle one file with the
    log, its blobs and the sessions it needs, which `wakelog show`, `verify`, `replay` and `copy` open. With --to, what
    the other format cannot hold is reported; `wakelog handoff` writes such a session into the tool's own place.
    """
    if shared.json and (target is not None or shape not in (None, "json")):
        raise UsageError("--json is the format json", hint="leave out --json, or --format and --to")
    shape = "json" if shared.json else shape
    address = find_session(shared.store_url, session, at)
    if target is not None:
        if shape is not None or address.entry is not None:
            raise UsageError("--to takes the whole session, and no --format", hint="fork the session at that entry")
        _export_to(address, target, output)
        return
    shape = shape or "jsonl"
    if address.entry is not None and shape != "md":
        raise UsageError(f"--at requires --format md; {shape} contains every branch", hint="leave the entry out")
    content = _content(address, shape)
    if content.left_out:
        note(f"not in the export: {', '.join(content.left_out)}; {BUNDLE_HINT}")
    if output is None or output == "-":
        for piece in content.pieces:
            put_bytes(piece)
    else:
        write_new_file(output, content.pieces)
        if sys.stderr.isatty():
            note(f"wrote {output}")
    exit_if_damaged(address.ref, content.damage)


def _content(address: Address, shape: str) -> ExportContent:
    if shape == "jsonl":
        return jsonl_content(address)
    if shape != "bundle":
        return document_content(address, shape, visible)
    bundles = load("wakelog.transfer.bundles")
    pieces, copied = bundles.make_bundle(address.store, address.name)
    for lost in bundles.lost_items(copied):
        note(f"not in the bundle: {visible(lost)}")
    return ExportContent(pieces, [damage for done in copied for damage in done.damage])


def _export_to(address: Address, target: str, output: str | None) -> None:
    """Write a session in the format of another agent: one file, or a folder if the format has several."""
    _, written, damage = _written(address, target)
    if output is None or output == "-":
        put_bytes(written.files[0].content)
        if len(written.files) > 1:
            note(f"{len(written.files) - 1} more files belong to it; -o FOLDER writes all")
    elif len(written.files) == 1:
        write_new_file(output, [written.files[0].content])
    else:
        for file in written.files:
            path = os.path.join(output, file.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_new_file(path, [file.content])
    _note_losses(written.losses)
    exit_if_damaged(address.ref, damage)


@command(
    "handoff",
    examples="""
    wakelog handoff crab_user_3 --to pi               ask, write it into the folder of pi, print how to continue
    wakelog handoff crab_user_3 --to codex --dry-run  what would be written, and what the format cannot hold
    """,
)
@session_argument
@click.option("--to", "target", type=click.Choice(TARGETS[:7]), required=True, help="The tool that continues it.")
@click.option("--model", metavar="MODEL", help="The model to continue with, as the tool spells it.")
@click.option("--cwd", metavar="FOLDER", help="The folder to continue in. [default: that of the session]")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def handoff(
    shared: SharedOptions, session: str, target: str, model: str | None, cwd: str | None, *, dry_run: bool, yes: bool
) -> None:
    """Hand a session to another agent, in its own place.

    Nothing is overwritten. What was written is read back and compared; then the command is printed that continues the
    session there. The session here is unchanged. If the tool does not have the model or the folder of the session, this
    is said before anything is written.
    """
    if cwd is not None and not os.path.isdir(cwd):
        raise UsageError(f"{cwd} is not a folder", hint="--cwd takes the folder in which the tool continues")
    address = find_session(shared.store_url, session)
    source, written, damage = _written(address, target, os.path.abspath(cwd) if cwd is not None else None)
    handing = load("wakelog.exchange.handoff")
    plan: HandoffPlan = handing.plan_handoff(source, written, os.environ, model=model)
    if not shared.json:
        for warning in plan.warnings:
            note(visible(warning))
    if not dry_run:
        _confirm(plan, written, yes=yes)
        handing.carry_out(plan, source, os.environ)
    _put_plan(shared, plan, written, dry_run=dry_run)
    exit_if_damaged(address.ref, damage)


def _written(
    address: Address, target: str, cwd: str | None = None
) -> "tuple[SessionToWrite, WrittenSession, tuple[Damage, ...]]":
    """Return a session, in another folder if `cwd` names one, the same in the format of a target, and its damage."""
    exporting = load("wakelog.exchange.exporting")
    source, damage = exporting.read_to_write(address.store, address.name)
    source = source if cwd is None else msgspec.structs.replace(source, cwd=cwd)
    return source, exporting.write_session(source, target), damage


def _confirm(plan: "HandoffPlan", written: "WrittenSession", *, yes: bool) -> None:
    """Ask before anything is written; `UsageError` where there is no terminal and no --yes."""
    if yes:
        return
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError("a handoff writes into another tool's folder", hint="--yes agrees, --dry-run shows it")
    where = plan.paths[0] if plan.paths else f"the database of {written.tool}, by `{written.load_command}`"
    _note_losses(written.losses)
    click.confirm(f"Write this session to {visible(where)}?", err=True, abort=True)


def _put_plan(shared: SharedOptions, plan: "HandoffPlan", written: "WrittenSession", *, dry_run: bool) -> None:
    if shared.json:
        losses = [{"kind": loss.kind, "count": loss.count, "reason": loss.reason} for loss in written.losses]
        put_json(
            {
                "tool": written.tool,
                "id": written.id,
                "paths": list(plan.paths),
                "written": not dry_run,
                "losses": losses,
                "cwd": plan.cwd,
                "warnings": list(plan.warnings),
                "resume": list(plan.resume),
            }
        )
        return
    for path in plan.paths:
        put(f"{'would write' if dry_run else 'wrote'} {visible(path)}")
    if not plan.paths:
        put(f"{'would be' if dry_run else 'was'} taken in by `{visible(written.load_command)}`")
    _note_losses(written.losses)
    folder = f"cd {shlex.quote(plan.cwd)} && " if os.path.isdir(plan.cwd) else ""
    put(f"continue there: {visible(folder + shlex.join(plan.resume))}")


def _note_losses(losses: "Iterable[Loss]") -> None:
    for loss in losses:
        note(f"{counted(loss.count, loss.kind)}: {loss.reason}")
