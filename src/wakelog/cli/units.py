"""Units for systemd and lines for cron that wake what owes something, as texts: no file is touched here.

Rule 1: what comes from the machine (paths, a store's URL) is quoted for whoever reads it next, systemd or cron and a
shell. What cannot be written there, such as a line break, is refused and never repaired.
Rule 2: no secret stands in a unit, which anybody on the machine may read. Keys have a file of their own.
Rule 3: a unit is ours while the digest in its first line fits the rest: one that somebody has edited is theirs.
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
# What no line can hold: control characters, and bytes of a path that are no text.
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# A longer line is cut off by some crons, which would run the beginning of it.
_CRON_LINE_MAX = 990


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Who wakes sessions, how, and how often. A `user` makes units of the system, which run as that user."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = {}
    keys_file: str
    every_s: int
    user: str = ""


class Unit(msgspec.Struct, frozen=True):
    """A unit file: its name, and what is in it."""

    name: str
    text: str


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────


def units(plan: Plan) -> tuple[Unit, Unit]:
    """What is run, and when. Only the timer is enabled: it starts the other one."""
    return Unit(f"{NAME}.service", _what(plan)), Unit(f"{NAME}.timer", _when(plan))


def is_ours(text: str) -> bool:
    """Whether a unit file is as we wrote it."""
    first, _, rest = text.partition("\n")
    found = _MARK.match(first)
    return found is not None and found[1] == digest_of(rest.encode(errors="surrogateescape"))


def _signed(plan: Plan, name: str, lines: Sequence[str]) -> str:
    """The lines, and before them who wrote them and how to change that."""
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
    """The words that systemd starts. It takes no program with a quote or a backslash in its path; a shell does."""
    return ("/bin/sh", "-c", 'exec "$0" "$@"', *words) if re.search(r"[\"'\\]", words[0]) else words


def _quoted(word: str) -> str:
    """A word of a unit, which systemd reads as it was."""
    escaped = _refuse_unwritable(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if _PLAIN_WORD.fullmatch(word) else f'"{escaped}"'


def _file(path: str) -> str:
    """A path where systemd takes the rest of the line, and looks for patterns in it. `%h` at its beginning is meant."""
    home, rest = ("%h", path[2:]) if path.startswith("%h/") else ("", path)
    return home + re.sub(r"([*?\[\\])", r"\\\1", _refuse_unwritable(rest)).replace("%", "%%")


def _refuse_unwritable(text: str) -> str:
    found = _UNWRITABLE.search(text)
    if found is not None:
        raise UsageError(f"{text!r} cannot stand in a unit or a crontab", hint="give it a name without such characters")
    return text


# ── cron ─────────────────────────────────────────────────────────────────────────────────────────


def cron_lines(plan: Plan) -> tuple[str, ...]:
    """The lines of a crontab: after the start, and from time to time. One of the system names who runs them."""
    keys = f'"$HOME/{plan.keys_file[3:]}"' if plan.keys_file.startswith("%h/") else shlex.quote(plan.keys_file)
    steps = (
        "set -a",
        *(f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()),
        # Keys are read last, as systemd reads them: they win.
        f"test ! -r {keys} || . {keys}",
        # What agents say stays in their logs.
        f"{shlex.join(plan.words)} 2>&1 >/dev/null | logger -t {NAME}",
    )
    command = _for_cron("; ".join(steps))
    return tuple(" ".join(filter(None, (when, plan.user, command))) for when in ("@reboot", _cron_times(plan.every_s)))


def _for_cron(script: str) -> str:
    """A command as cron takes it: it makes a line break of each percent sign that has no backslash."""
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
