"""Command `replay`: replay a session from its log alone. No model is called and no tool is run."""

import asyncio
from collections.abc import Sequence

import click

from wakelog.app.addresses import find_session
from wakelog.cli.ui.errors import BUNDLE_HINT, DAMAGED, FAILED, note, note_damage
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put, put_json
from wakelog.cli.ui.quantities import plural
from wakelog.cli.ui.safe_text import visible, visible_lines
from wakelog.cli.ui.terminal import style_of
from wakelog.log.lines import Damage
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import ReplayReport
from wakelog.runtime.replay.verification import replay as replay_log

_SHOWN_BYTES = 2_000


@command(
    "replay",
    examples="""
    wakelog replay @latest                     print again what was displayed
    wakelog replay @latest --verify            check that the runtime writes the same log
    wakelog replay crab_user_3 --verify --json
    """,
)
@session_argument
@click.option("--verify", is_flag=True, help="Compare every entry and every reply byte for byte.")
def replay(shared: SharedOptions, session: str, *, verify: bool) -> int:
    """Replay a session from its log. Exit code 4 if the result differs from the log, or if the log is damaged.

    With --verify, exit code 1 if the log has no entry to compare: the runtime wrote none of it.
    """
    address = find_session(shared.store_url, session)
    damage = read_log(address.store, address.name, verify=True).damage
    report = asyncio.run(replay_log(address.store, address.name))
    reason = _why(report, damage)
    if verify:
        _put_verdict(shared, report, reason)
    elif shared.json:
        for channel, replies in report.replies.items():
            for reply_id, text in replies.items():
                put_json({"channel": channel, "reply": reply_id, "text": text})
    else:
        _put_texts(report)
    if not report.ok and not verify:
        note(f"the replay differs from the log: {visible(reason)}" + (f"; {BUNDLE_HINT}" if report.missing else ""))
    note_damage(address.ref, damage)
    if damage or not report.ok:
        return DAMAGED
    return FAILED if verify and reason else 0


def _put_texts(report: ReplayReport) -> None:
    shown = [text for replies in report.replies.values() for text in replies.values() if text]
    for text in shown:
        for line in visible_lines(text):
            put(line)
    if not shown:
        note("no text was sent to a channel")


def _put_verdict(shared: SharedOptions, report: ReplayReport, reason: str) -> None:
    if shared.json:
        put_json(_verdict(report, reason))
        return
    look = style_of(shared.color)
    if not reason:
        written, workers = plural(report.written, "entry", "entries"), plural(report.workers, "worker")
        put(f"{look.paint('mark', 'ok')}  {plural(report.lines, 'line')}; {written} reproduced exactly ({workers})")
        put("    no model was called, no tool was run, no configuration was read")
        return
    word = "not verified" if report.ok else "incomplete" if report.missing else "differs"
    put(f"{look.paint('bad', word)}  {visible(reason)}")
    for other in report.missing[1:]:
        put(f"    {visible(other)}")
    if report.missing:
        put(f"    {BUNDLE_HINT}")
    if report.divergence is not None:
        put(f"    in the log:  {visible(_line_text(report.divergence.recorded))}")
        put(f"    replayed:    {visible(_line_text(report.divergence.written))}")


def _verdict(report: ReplayReport, reason: str) -> dict[str, object]:
    divergence = report.divergence
    return {
        "ok": not reason,
        "lines": report.lines,
        "written": report.written,
        "workers": report.workers,
        "reason": reason or None,
        "missing": report.missing,
        "line": divergence.position + 1 if divergence is not None else None,
        "recorded": _line_text(divergence.recorded) if divergence is not None else None,
        "today": _line_text(divergence.written) if divergence is not None else None,
    }


def _why(report: ReplayReport, damage: Sequence[Damage]) -> str:
    """Return why the log is not verified: where the two differ, what is damaged, or that nothing was compared."""
    if report.divergence is not None:
        return report.divergence.message
    if report.reason:
        return report.reason
    if damage:
        place = f"{damage[0].session}, line {damage[0].line}" if damage[0].session else f"line {damage[0].line}"
        return f"the log is damaged: {place}: {damage[0].reason}"
    return "" if report.written else "nothing was compared: the runtime wrote no entry of this log"


def _line_text(line: bytes) -> str:
    return line[:_SHOWN_BYTES].decode(errors="replace")
