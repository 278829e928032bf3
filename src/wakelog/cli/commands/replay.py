"""Command `replay`: replay a session from its log alone. No model is called and no tool is run."""

import asyncio

import click

from wakelog.app.addresses import find_session
from wakelog.cli.ui.errors import DAMAGED, note, note_damage
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put, put_json
from wakelog.cli.ui.quantities import plural
from wakelog.cli.ui.safe_text import visible, visible_lines
from wakelog.cli.ui.terminal import style_of
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import ReplayReport
from wakelog.runtime.replay.verification import replay as happen_again

_SHOWN_BYTES = 2_000


@command(
    "replay",
    examples="""
    wakelog replay @latest                     see again what was shown
    wakelog replay @latest --verify            prove that the log is what the runtime writes
    wakelog replay crab_user_3 --verify --json
    """,
)
@session_argument
@click.option("--verify", is_flag=True, help="Compare every entry and every reply, byte for byte.")
def replay(asked: SharedOptions, session: str, *, verify: bool) -> int:
    """Let a session happen again from its log alone. Exit code 4 if another log would come out, or if it is damaged."""
    address = find_session(asked.store_url, session)
    damage = read_log(address.store, address.name).damage
    again = asyncio.run(happen_again(address.store, address.name))
    if verify:
        _put_verdict(asked, again)
    elif asked.json:
        for channel, replies in again.replies.items():
            for reply_id, text in replies.items():
                put_json({"channel": channel, "reply": reply_id, "text": text})
    else:
        _put_texts(again)
    if not again.ok and not verify:
        note(f"it would not come out the same: {visible(_why(again))}")
    note_damage(address.ref, damage)
    return 0 if again.ok and not damage else DAMAGED


def _put_texts(again: ReplayReport) -> None:
    shown = [text for replies in again.replies.values() for text in replies.values() if text]
    for text in shown:
        for line in visible_lines(text):
            put(line)
    if not shown:
        note("nothing was ever shown on a channel")


def _put_verdict(asked: SharedOptions, again: ReplayReport) -> None:
    if asked.json:
        put_json(_verdict(again))
        return
    seen = style_of(asked.color)
    if again.ok:
        written, workers = plural(again.written, "entry", "entries"), plural(again.workers, "worker")
        put(f"{seen.paint('mark', 'ok')}  {plural(again.lines, 'line')}; {written} of {workers} came out byte for byte")
        put("    no model was called, no tool was run, no configuration was read")
        return
    put(f"{seen.paint('bad', 'differs')}  {visible(_why(again))}")
    if again.divergence is not None:
        put(f"    in the log:  {visible(_line_text(again.divergence.recorded))}")
        put(f"    today:       {visible(_line_text(again.divergence.written))}")


def _verdict(again: ReplayReport) -> dict[str, object]:
    parted = again.divergence
    return {
        "ok": again.ok,
        "lines": again.lines,
        "written": again.written,
        "workers": again.workers,
        "reason": None if again.ok else _why(again),
        "line": parted.position + 1 if parted is not None else None,
        "recorded": _line_text(parted.recorded) if parted is not None else None,
        "today": _line_text(parted.written) if parted is not None else None,
    }


def _why(again: ReplayReport) -> str:
    return again.divergence.message if again.divergence is not None else again.reason


def _line_text(line: bytes) -> str:
    return line[:_SHOWN_BYTES].decode(errors="replace")
