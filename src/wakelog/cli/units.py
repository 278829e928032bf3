"""systemd units and cron lines that wake sessions with pending work, as text. No file is touched here.

Rule 1: values from the machine (paths, a store's URL) are quoted for their reader: systemd, or cron and a shell. Text
that cannot be written there, such as a line break, is refused and never altered.
Rule 2: a unit contains no secret, because every user of the machine may read it. Keys are in a separate file.
Rule 3: a unit counts as written by wakelog while the digest in its first line matches the rest; an edited one does not.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from wakelog.errors import UsageError
from wakelog.log.digest import digest_of

NAME = "wakelog-wake"
CRON_FILE = "/etc/cron.d/wakelog"
_MARK = re.compile(r"# Written by `wakelog service install` \((sha256:[0-9a-f]{64})\)")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@+=:,./~-]+")
# Text that no line can contain: control characters, and undecodable bytes of a path.
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Some crons cut off a longer line and would run the beginning of it.
_CRON_LINE_MAX = 990


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How to wake sessions, how often and as which user. With a `user`, system units that run as that user."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = {}
    keys_file: str
    every_s: int
    user: str = ""


class Unit(msgspec.Struct, frozen=True):
    """A unit file: its name and its text."""

    name: str
    text: str


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────


def units(plan: Plan) -> tuple[Unit, Unit]:
    """Return the service and the timer. Only the timer is enabled; it starts the service."""
    return Unit(f"{NAME}.service", _what(plan)), Unit(f"{NAME}.timer", _when(plan))


def is_ours(text: str) -> bool:
    """Return whether a unit file is unchanged since wakelog wrote it."""
    first, _, rest = text.partition("\n")
    found = _MARK.match(first)
    return found is not None and found[1] == digest_of(rest.encode(errors="surrogateescape"))


def _signed(plan: Plan, name: str, lines: Sequence[str]) -> str:
    """Return the unit text: a line with the digest, a line that says how to edit the unit, then `lines`."""
    edit = f"# To change it: systemctl {'' if plan.user else '--user '}edit {name}"
    rest = "".join(f"{line}\n" for line in (edit, *lines))
    return f"# Written by `wakelog service install` ({digest_of(rest.encode())})\n{rest}"


def _what(plan: Plan) -> str:
    network = ["Wants=network-online.target", "After=network-online.target"] if plan.user else []
    return _signed(
        plan,
        f"{NAME}.service",
        [
            "[Unit]",
            "Description=Wake the agent sessions that owe something",
            *network,
            "",
            "[Service]",
            "Type=oneshot",
            *([f"User={_refuse_unwritable(plan.user)}", "WorkingDirectory=~"] if plan.user else []),
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in plan.environment.items()),
            "# Keys stand in this file, NAME=value on a line, and never in a unit. It need not be there.",
            f"EnvironmentFile=-{_file(plan.keys_file)}",
            "# The colon: a dollar sign is a dollar sign.",
            f"ExecStart=:{' '.join(_quoted(word) for word in _startable(plan.words))}",
            "# What agents say stays in their logs; the journal gets what went wrong, and who is waited for.",
            "StandardOutput=null",
            "# A session that waits for a person is no failure.",
            "SuccessExitStatus=6",
            "# Tools reach what their user reaches, and become nobody else: no sudo, nothing setuid.",
            "NoNewPrivileges=yes",
            "# A tool that takes all the memory ends alone.",
            "OOMPolicy=continue",
        ],
    )


def _when(plan: Plan) -> str:
    return _signed(
        plan,
        f"{NAME}.timer",
        [
            "[Unit]",
            "Description=Wake the agent sessions that owe something, after the start and from time to time",
            "",
            "[Timer]",
            "# Soon after the start, then this long after each time has ended: never two at once.",
            "OnStartupSec=30s",
            f"OnUnitInactiveSec={plan.every_s}s",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ],
    )


def _startable(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words for ExecStart; through a shell if the program's path has a quote or backslash."""
    return ("/bin/sh", "-c", 'exec "$0" "$@"', *words) if re.search(r"[\"'\\]", words[0]) else words


def _quoted(word: str) -> str:
    """Return a word quoted for a unit."""
    escaped = _refuse_unwritable(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if _PLAIN_WORD.fullmatch(word) else f'"{escaped}"'


def _file(path: str) -> str:
    """Return a path escaped for a setting where systemd expands patterns; a leading `%h/` keeps its meaning."""
    home, rest = ("%h", path[2:]) if path.startswith("%h/") else ("", path)
    return home + re.sub(r"([*?\[\\])", r"\\\1", _refuse_unwritable(rest)).replace("%", "%%")


def _refuse_unwritable(text: str) -> str:
    found = _UNWRITABLE.search(text)
    if found is not None:
        raise UsageError(f"{text!r} cannot stand in a unit or a crontab", hint="give it a name without such characters")
    return text


# ── cron ─────────────────────────────────────────────────────────────────────────────────────────


def cron_lines(plan: Plan) -> tuple[str, ...]:
    """Return the crontab lines: at boot, and at the interval. A system crontab also names the user."""
    keys = f'"$HOME/{plan.keys_file[3:]}"' if plan.keys_file.startswith("%h/") else shlex.quote(plan.keys_file)
    steps = (
        "set -a",
        *(f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()),
        # Keys are read last, as in systemd, so that they take precedence.
        f"test ! -r {keys} || . {keys}",
        # Replies stay in their logs.
        f"{shlex.join(plan.words)} 2>&1 >/dev/null | logger -t {NAME}",
    )
    command = _for_cron("; ".join(steps))
    return tuple(" ".join(filter(None, (when, plan.user, command))) for when in ("@reboot", _cron_times(plan.every_s)))


def _for_cron(script: str) -> str:
    """Escape a command for cron, which turns each unescaped percent sign into a line break."""
    _refuse_unwritable(script)
    if "\\" in script:
        raise UsageError("crons differ in how they read a backslash", hint="use the units of systemd instead")
    escaped = script.replace("%", "\\%")
    if len(escaped) > _CRON_LINE_MAX:
        hint = "shorten $PATH for this command, or use the units of systemd"
        raise UsageError(f"the line is too long for a crontab: {len(escaped)} characters", hint=hint)
    return escaped


def _cron_times(every_s: int) -> str:
    minutes, seconds = divmod(every_s, 60)
    if not seconds and minutes in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30):
        return f"*/{minutes} * * * *"
    hours, minutes = divmod(minutes, 60)
    if not seconds and not minutes and hours in (1, 2, 3, 4, 6, 8, 12, 24):
        return f"0 */{hours} * * *" if hours < 24 else "0 0 * * *"
    raise UsageError(
        "cron cannot say how often that is", hint="use 1m to 30m or 1h to 24h that divide an hour or a day"
    )
