"""Command `audit`: every tool call of a session or a store, with who or what allowed it; with `--context` also the
settings in force in each turn, and what changed from turn to turn.
"""

from collections.abc import Iterable, Iterator

import click

from wakelog.app.addresses import find_session
from wakelog.app.audit import AuditFilter, AuditReport
from wakelog.app.export import find_scanned_node
from wakelog.app.stores import StoreLocation
from wakelog.auditing import SessionAudit
from wakelog.cli.ui.audit_lines import call_line, settings_lines, total_line, turn_heading
from wakelog.cli.ui.errors import DAMAGED, exit_if_damaged, note_damage, report_error
from wakelog.cli.ui.options import SharedOptions, at_option, command, optional_session_argument
from wakelog.cli.ui.output import put_json_lines, put_pages
from wakelog.cli.ui.terminal import TerminalStyle, style_of
from wakelog.errors import UsageError, WakelogError
from wakelog.log.lines import Damage
from wakelog.projections.tool_audit import AUDIT_STATUSES, AuditedTurn


@command(
    "audit",
    examples="""
    wakelog audit @latest
    wakelog audit crab_user_3 --context      with the instructions, tools and settings of each turn
    wakelog audit crab_user_3 --tool shell --status denied
    wakelog audit --all --json | jq -c 'select(.effectUnknown)'
    """,
    paged=True,
)
@optional_session_argument
@click.option("--all", "everything", is_flag=True, help="Every session of the store; inherited calls are listed once.")
@click.option("--context", "with_turns", is_flag=True, help="Also the instructions, tools and settings of each turn.")
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="Only calls of this tool. May be repeated.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(AUDIT_STATUSES),
    help="Only calls with this status. May be repeated.",
)
@at_option
@click.option("--all-branches", is_flag=True, help="Also the calls on other branches.")
def audit(
    shared: SharedOptions,
    session: str | None,
    at: str | None,
    tools: tuple[str, ...],
    statuses: tuple[str, ...],
    *,
    everything: bool,
    with_turns: bool,
    all_branches: bool,
) -> None:
    """List every tool call, and who or what allowed it. Compacted and inherited calls are listed too.

    With --json: one object per line, inputs whole.
    """
    if everything == (session is not None):
        raise UsageError("name a session, or use --all")
    wanted = AuditFilter(tools, statuses, all_branches=all_branches, turns=with_turns or not shared.json)
    if session is None:
        if at is not None:
            raise UsageError("--at requires a session", hint="name the session that the entry is in")
        _audit_store(shared, wanted, with_turns=with_turns)
        return
    address = find_session(shared.store_url, session, at)
    found = SessionAudit(address.store, address.name)
    node = find_scanned_node(address.store, found.scan, address.entry) if address.entry is not None else None
    _put(shared, [AuditReport(address.store, found, wanted, node)], with_turns=with_turns)
    exit_if_damaged(address.ref, found.damage)


def _audit_store(shared: SharedOptions, wanted: AuditFilter, *, with_turns: bool) -> None:
    """Audit every session. Those that are damaged or cannot be read are reported after the others are listed."""
    store = StoreLocation(shared.store_url).store
    damaged: list[tuple[str, tuple[Damage, ...]]] = []
    errors: list[WakelogError] = []

    def reports() -> Iterator[AuditReport]:
        for stat in store.sessions():
            try:
                found = SessionAudit(store, stat.name)
            except WakelogError as error:
                errors.append(error)
                continue
            if found.damage:
                damaged.append((stat.name, found.damage))
            yield AuditReport(store, found, wanted, inherited=False)

    _put(shared, reports(), with_turns=with_turns)
    for name, damage in damaged:
        note_damage(name, damage)
    codes = [*(report_error(error, as_json=shared.json) for error in errors), *(DAMAGED for _ in damaged)]
    if codes:
        raise click.exceptions.Exit(codes[0])


def _put(shared: SharedOptions, reports: Iterable[AuditReport], *, with_turns: bool) -> None:
    if shared.json:
        put_json_lines(value for report in reports for value in report.values())
    else:
        look = style_of(shared.color)
        put_pages(shared, (line for report in reports for line in _lines(look, report, with_turns=with_turns)))


def _lines(look: TerminalStyle, report: AuditReport, *, with_turns: bool) -> Iterator[str]:
    """Yield the lines of an audit; a turn without calls has a heading only where settings are shown."""
    heading: str | None = None
    for row in report.rows():
        if isinstance(row, AuditedTurn):
            heading = turn_heading(look, row)
            if with_turns:
                yield heading
                yield from settings_lines(look, report.turn_values(row), is_first=row.turn.before is None)
                heading = None
        else:
            if heading is not None:
                yield heading
                heading = None
            yield call_line(look, row)
    yield total_line(look, report.total)
