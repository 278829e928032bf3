"""Draw an audit as terminal lines: a heading for each turn, its settings if asked for, and one line a tool call.

Inputs are cut to the line; `--json` has them whole. Every stored string passes through `safe_text`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wakelog.app.audit import AuditTotal
from wakelog.cli.ui.quantities import duration_text, plural, size_text
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.cli.ui.terminal import TerminalStyle, clip, pad, text_width
from wakelog.cli.ui.transcripts import STATUS_STYLES, key_argument
from wakelog.log.codec import canonical_json
from wakelog.projections.settings_in_force import SettingDifference
from wakelog.projections.tool_audit import AuditedCall, AuditedTurn, Permission

_VALUE_CHARS = 60
_DIGEST_CHARS = 19
_PIPED_INPUT_CHARS = 200
_ALLOWED_TEXTS = {
    "rule": "not run, by a rule",
    "program": "ran by its program",
    "provider": "ran by the provider",
    "pending": "not decided",
    "unknown": "who allowed it is unknown",
}


def turn_heading(look: TerminalStyle, row: AuditedTurn) -> str:
    """Return the heading of a turn: its number in the session, time and prompt."""
    turn = row.turn
    inherited = " (inherited)" if row.inherited else ""
    beside = " (other branch)" if not row.on_branch else ""
    front = f"turn {turn.seq}{inherited}{beside}  {visible(_day_and_time(turn.timestamp))}  "
    room = max(10, look.columns - text_width(front))
    return look.paint("bold", front) + clip(look, first_line(turn.prompt), room)


def call_line(look: TerminalStyle, row: AuditedCall) -> str:
    """Return the line of a call: number, time, tool, input, status, who or what allowed it, and duration."""
    front = f"{row.seq:>6}  {pad(visible(row.time[11:19]), 8)}  "
    tool = pad(clip(look, visible(row.tool), 16), 16)
    status = row.status + (", effect unknown" if row.effect_unknown and row.status != "unknown" else "")
    took = duration_text(row.duration_ms) if row.duration_ms is not None else ""
    marks = [mark for mark, is_set in (("inherited", row.inherited), ("other branch", not row.on_branch)) if is_set]
    end = "  ".join(filter(None, (allowed_text(row.allowed), _outcome_text(row), took, *marks)))
    room = max(10, look.columns - text_width(front) - 20 - text_width(status) - text_width(end))
    given = key_argument(row.input)
    shown = clip(look, given, room) if look.width else clip(look, given, _PIPED_INPUT_CHARS)
    style = STATUS_STYLES.get(row.status, "bad")
    words = (look.paint("tool", tool), pad(shown, room if look.width else 0), look.paint(style, status), end)
    return (look.paint("dim", front) + "  ".join(words)).rstrip()


def allowed_text(allowed: Permission) -> str:
    """Return who or what allowed a call, in words: `policy auto`, `approve by ada at 10:00:05`."""
    if allowed.by == "person":
        return f"{visible(allowed.decision)} by {visible(allowed.person or 'a person')}{_at(allowed.time)}"
    if allowed.by == "policy":
        return f"policy {allowed.decision}"
    if allowed.by == "pending" and allowed.time is not None:
        return f"a person was asked{_at(allowed.time)}"
    return _ALLOWED_TEXTS[allowed.by]


def _outcome_text(row: AuditedCall) -> str:
    said = row.outcome
    return f"{visible(said.person or 'a person')} says: {visible(said.decision)}{_at(said.time)}" if said else ""


def _at(timestamp: str | None) -> str:
    return f" at {visible(timestamp[11:19])}" if timestamp else ""


def _day_and_time(timestamp: str) -> str:
    return timestamp[:19].replace("T", " ")


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def settings_lines(look: TerminalStyle, values: Mapping[str, Any], *, is_first: bool) -> Iterator[str]:
    """Yield the settings of a turn, as `AuditReport.turn_values` has them; after the first turn, what changed."""
    lines = _all_settings(values) if is_first else _changes(values["changed"])
    for line in lines:
        yield "        " + look.paint("dim", clip(look, line, max(20, look.columns - 8)) if look.width else line)


def _changes(changed: Sequence[SettingDifference]) -> Iterator[str]:
    if not changed:
        yield "unchanged"
    for each in changed:
        yield f"changed      {visible(each.what)}: {_value_text(each.before)} -> {_value_text(each.after)}"


def _all_settings(values: Mapping[str, Any]) -> Iterator[str]:
    named = ("model", "provider", "strategy", "reasoning", "approval")
    yield "settings     " + ", ".join(f"{name} {_value_text(values[name])}" for name in named)
    if values["context"] is None:
        yield "instructions, tools and policy are not recorded"
        return
    for source in values["sources"]:
        yield f"source       {_source_text(source)}"
    instructions = values["instructions"]
    if instructions is not None:
        yield f"instructions {size_text(instructions['bytes'])}, {visible(instructions['digest'][:_DIGEST_CHARS])}"
    names = values["tools"]["names"]
    yield "tools        " + ("cannot be read" if names is None else visible(", ".join(names)) or "none")
    for what in ("environment", "params", "policy"):
        if values[what]:
            yield f"{what:<13}" + ", ".join(f"{visible(key)} {_value_text(each)}" for key, each in values[what].items())


def _source_text(source: Mapping[str, Any]) -> str:
    name = f"{visible(source['path'])} ({visible(source['scope'])})"
    if source["error"] is not None:
        return f"{name}: {visible(source['error'])}"
    cut = ", truncated" if source["truncated"] else ""
    return f"{name}, {size_text(source['bytes'])}{cut}, {visible(source['hash'][:_DIGEST_CHARS])}"


def _value_text(value: object) -> str:
    text = value if isinstance(value, str) else "unknown" if value is None else canonical_json(value).decode()
    return first_line(text[:_VALUE_CHARS]) + ("…" if len(text) > _VALUE_CHARS else "")


# ── totals ───────────────────────────────────────────────────────────────────────────────────────


def total_line(look: TerminalStyle, total: AuditTotal) -> str:
    """Return the line with the number of calls by status, and of those on other branches."""
    statuses = ", ".join(f"{count:,} {status}" for status, count in total.statuses.items())
    parts = [f"{visible(total.session)}: {plural(total.calls, 'tool call')}" + (f" ({statuses})" if statuses else "")]
    if total.effects_unknown:
        parts.append(f"the effect of {total.effects_unknown:,} is unknown")
    if total.other_branches:
        parts.append(f"{total.other_branches:,} more on other branches (--all-branches)")
    return look.paint("dim", "; ".join(parts))
