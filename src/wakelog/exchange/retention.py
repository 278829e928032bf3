"""Which tools delete their sessions, after how many days, and how many of their sessions are not imported yet.

Claude Code deletes transcripts that were not changed for `cleanupPeriodDays` (30 without the setting), Gemini CLI those
that are older than `general.sessionRetention.maxAge` (30 days without the setting, unless it is disabled).
"""

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.exchange.places import folder_of, usual_files
from wakelog.exchange.sync_index import SyncIndex

_DEFAULT_DAYS = 30
_SOON_DAYS = 7
_DAY_S = 86_400
_SETTINGS_BYTES_MAX = 1 << 20


class ToolHistory(msgspec.Struct, frozen=True, rename="camel"):
    """The session files of one tool: how many there are, and how many a store does not have as they are now."""

    tool: str
    files: int
    not_imported: int
    deletes_after_days: int | None
    """None if the tool keeps its sessions, as far as is known."""
    deleted_soon: int
    """How many of the files that are not imported will be deleted within a week, or are due."""


def tool_histories(environ: Mapping[str, str], index: SyncIndex, now_s: float) -> list[ToolHistory]:
    """Return the history of each tool that has sessions in its usual place."""
    return [_history(tool, files, environ, index, now_s) for tool, files in usual_files(environ).items()]


def _history(tool: str, files: list[str], environ: Mapping[str, str], index: SyncIndex, now_s: float) -> ToolHistory:
    missing = [path for path in files if index.unchanged(path) is None]
    days = deletes_after_days(tool, environ)
    soon = 0 if days is None else sum(_age_days(path, now_s) >= days - _SOON_DAYS for path in missing)
    return ToolHistory(tool, len(files), len(missing), days, soon)


def _age_days(path: str, now_s: float) -> float:
    try:
        return (now_s - os.stat(path).st_mtime) / _DAY_S
    except OSError:
        return 0.0


def deletes_after_days(tool: str, environ: Mapping[str, str]) -> int | None:
    """Return after how many days a tool deletes a session, by its settings; None if it does not."""
    settings = _settings(folder_of(tool, environ) or "")
    if tool == "claude-code":
        days = settings.get("cleanupPeriodDays")
        return days if isinstance(days, int) and not isinstance(days, bool) and days >= 0 else _DEFAULT_DAYS
    if tool == "gemini-cli":
        general = settings.get("general")
        retention = general.get("sessionRetention") if isinstance(general, dict) else None
        retention = retention if isinstance(retention, dict) else {}
        return None if retention.get("enabled") is False else _days(retention.get("maxAge"))
    return None


def _days(age: object) -> int:
    """Return the days of an age such as `7d`, `24h` or `2w`; the default for anything else."""
    found = re.fullmatch(r"(\d{1,6})([hdwm])", age) if isinstance(age, str) else None
    if found is None:
        return _DEFAULT_DAYS
    return int(found[1]) * {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24}[found[2]] // 24


def _settings(folder: str) -> dict[str, Any]:
    """Return the settings file of a tool; empty if it cannot be read."""
    try:
        with open(os.path.join(folder, "settings.json"), "rb") as file:
            found = msgspec.json.decode(file.read(_SETTINGS_BYTES_MAX))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
