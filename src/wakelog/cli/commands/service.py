"""Command `service`: show or install systemd units (or show cron lines) that wake sessions at boot and by a timer.

Rule 1: no command is run here. The next commands are printed for the user to run.
Rule 2: a file that wakelog did not write, or that was edited since, is kept unless `--force` is given. Both files are
checked before either is written, and each is replaced atomically. A unit counts as written by wakelog while the digest
in its first line matches the rest.
Rule 3: values from the machine (paths, a store's URL) are quoted for their reader: systemd, or cron and a shell. Text
that cannot be written there, such as a line break, is refused and never altered.
Rule 4: a unit contains no secret, because every user of the machine may read it. Keys are in a separate file.
"""

import os
import pwd
import re
import shlex
import sys
from collections.abc import Mapping, Sequence

import click
import msgspec

from wakelog.app.stores import store_url, url_for_display
from wakelog.cli.ui.errors import note
from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import put, put_json
from wakelog.cli.ui.quantities import parse_span
from wakelog.cli.ui.safe_text import visible
from wakelog.config.files import user_file
from wakelog.errors import Conflict, UsageError
from wakelog.folders import config_folder
from wakelog.log.ids import digest_of
from wakelog.stores.files import storage, sync_folder, write_all
from wakelog.stores.urls import parse_store_url

_SYSTEM_FOLDER = "/etc/systemd/system"
_SYSTEM_KEYS = "/etc/wakelog/environment"
_USER_KEYS = "%h/.config/wakelog/environment"
# Variables copied into the unit: the program path for tools, and the locations of files.
_CARRIED = ("PATH", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_SHORTEST_S = 60


@command(
    "service",
    examples="""
    wakelog service show                     the systemd units that wake sessions with pending work
    wakelog service install                  write them for the current user, and print what to run next
    sudo wakelog service install --system --as ann
    wakelog service show --cron --every 15m  the same for a crontab
    """,
)
@click.argument("act", type=click.Choice(["show", "install"]), default="show")
@click.option("--system", is_flag=True, help="For the whole machine. [default: for the current user]")
@click.option(
    "--as", "user", metavar="NAME", help="With --system: the user that runs it. [default: the caller of sudo, else you]"
)
@click.option("--every", metavar="TIME", default="5m", show_default=True, help="Interval between runs.")
@click.option("--cron", is_flag=True, help="Print lines for a crontab instead.")
@click.option("--force", is_flag=True, help="Replace files that wakelog did not write, or that were changed since.")
def service(
    shared: SharedOptions, act: str, *, system: bool, user: str | None, every: str, cron: bool, force: bool
) -> None:
    """Wake sessions at boot and by a timer: show the units for systemd, or install them."""
    if user is not None and not system:
        raise UsageError("--as requires --system", hint="add --system, or leave --as out")
    if force and act == "show":
        raise UsageError("--force applies only to install", hint="leave it out")
    if cron and act == "install":
        raise UsageError("--cron cannot be installed", hint="`wakelog service show --cron` prints the lines for it")
    plan = _plan(shared, _service_user(user) if system else "", _interval_s(every))
    if cron:
        _show_cron(shared, plan)
    elif act == "show":
        _show(shared, plan)
    else:
        _install(shared, plan, force=force)


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────


def _interval_s(text: str) -> int:
    every_s = int(parse_span(text))
    if every_s < _SHORTEST_S:
        raise UsageError(f"the interval {text} is too short", hint="use at least 1m")
    return every_s


def _service_user(given: str | None) -> str:
    """Return the user that runs a system service. `UsageError` for root, unless it was named with `--as`."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    name = given or os.environ.get("SUDO_USER") or me
    if name == "root" and given is None:
        raise UsageError("the service would run as root", hint="name its user with --as NAME")
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"unknown user {name!r}", hint="--as takes a user of this machine") from None
    return name


class ServicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How to wake sessions, how often and as which user. With a `user`, system units that run as that user."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = {}
    keys_file: str
    every_s: int
    user: str = ""


def _plan(shared: SharedOptions, user: str, every_s: int) -> ServicePlan:
    if not sys.executable:
        raise UsageError("the path of the Python interpreter is unknown", hint="run `python -m wakelog service …`")
    # The path of this interpreter without resolving symbolic links, because a virtual environment is found by it.
    # `-P`: a folder named wakelog in the working directory is not imported.
    words = (os.path.abspath(sys.executable), "-P", "-m", "wakelog", "wake", "--all", "--quiet")
    keys = _SYSTEM_KEYS if user else _user_keys()
    return ServicePlan(
        words=words, environment=_environment(shared, user, keys), keys_file=keys, every_s=every_s, user=user
    )


def _user_keys() -> str:
    is_set = os.path.isabs(os.environ.get("XDG_CONFIG_HOME", ""))
    return os.path.join(config_folder(os.environ), "environment") if is_set else _USER_KEYS


def _environment(shared: SharedOptions, user: str, keys: str) -> dict[str, str]:
    """Return the variables for the service: program path, file locations, and the store unless its URL has a secret."""
    carried = _CARRIED[:1] if user else _CARRIED
    found = {name: os.environ[name] for name in carried if os.environ.get(name)}
    if not user and os.environ.get("WAKELOG_CONFIG"):
        found["WAKELOG_CONFIG"] = user_file(os.environ)
    if _is_store_unnamed(shared, user):
        return found
    url = _absolute_url(store_url(shared.store_url))
    if url_for_display(url) == url:
        return found | {"WAKELOG_STORE": url}
    note(f"the store's URL contains a secret and is left out: write WAKELOG_STORE=… into {_keys_path_text(keys)}")
    return found


def _is_store_unnamed(shared: SharedOptions, user: str) -> bool:
    """Return whether no store was named and the service runs as another user; its default is found when it runs."""
    named = shared.store_url or os.environ.get("WAKELOG_STORE")
    return not named and bool(user) and pwd.getpwnam(user).pw_uid != os.geteuid()


def _absolute_url(url: str) -> str:
    """Return a store's URL that is valid in any working directory."""
    parsed = parse_store_url(url)
    if not parsed.kind.has_place:
        raise UsageError("a memory store is lost when this command ends", hint="name another with --store")
    return parsed.absolute


def _keys_path_text(keys: str) -> str:
    return f"~{keys.removeprefix('%h')}" if keys.startswith("%h/") else keys


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


def _folder(plan: ServicePlan) -> str:
    """Return the folder in which systemd looks for units."""
    if plan.user:
        return _SYSTEM_FOLDER
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(os.path.abspath(config), "systemd", "user")


def _show(shared: SharedOptions, plan: ServicePlan) -> None:
    folder, made = _folder(plan), units(plan)
    if shared.json:
        states = [_state(os.path.join(folder, unit.name), unit) for unit in made]
        _put_files(plan, folder, made, states)
        return
    for unit in made:
        put(f"# {visible(os.path.join(folder, unit.name))}\n{unit.text}")


def _show_cron(shared: SharedOptions, plan: ServicePlan) -> None:
    lines = cron_lines(plan)
    if shared.json:
        text = "".join(f"{line}\n" for line in lines)
        path = CRON_FILE if plan.user else None
        put_json(
            {
                "files": [{"path": path, "text": text, "state": None}],
                "next": [],
                "keys": _keys_path_text(plan.keys_file),
            }
        )
        return
    for line in lines:
        put(line)
    place = f"into {CRON_FILE}" if plan.user else "with `crontab -e`"
    note(f"put these lines {place}; keys belong in {_keys_path_text(plan.keys_file)}, one NAME=value per line")


class Unit(msgspec.Struct, frozen=True):
    """A unit file: its name and its text."""

    name: str
    text: str


def _put_files(plan: ServicePlan, folder: str, made: tuple[Unit, ...], states: list[str]) -> None:
    files = [
        {"path": os.path.join(folder, unit.name), "text": unit.text, "state": state}
        for unit, state in zip(made, states, strict=True)
    ]
    put_json({"files": files, "next": _next(plan), "keys": _keys_path_text(plan.keys_file)})


# ── install ──────────────────────────────────────────────────────────────────────────────────────


def _install(shared: SharedOptions, plan: ServicePlan, *, force: bool) -> None:
    folder, made = _folder(plan), units(plan)
    paths = [os.path.join(folder, unit.name) for unit in made]
    before = [_state(path, unit) for path, unit in zip(paths, made, strict=True)]
    for path, state in zip(paths, before, strict=True):
        if state == "foreign" and not force:
            raise Conflict(f"{path} was not written by wakelog, or was changed since", hint="--force replaces it")
    for path, unit, state in zip(paths, made, before, strict=True):
        if state != "current":
            _replace(path, unit.text.encode())
    after = ["unchanged" if state == "current" else "written" for state in before]
    if shared.json:
        _put_files(plan, folder, made, after)
        return
    for path, state in zip(paths, after, strict=True):
        put(f"{state}  {visible(path)}")
    _note_next(plan)


def _state(path: str, unit: Unit) -> str:
    """Return `absent`, `current`, `older` (written by wakelog, outdated) or `foreign`. Symbolic links are foreign."""
    with storage(f"read {path}"):
        if not os.path.lexists(path):
            return "absent"
        if os.path.islink(path) or not os.path.isfile(path):
            return "foreign"
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
    if text == unit.text:
        return "current"
    return "older" if is_unchanged(text) else "foreign"


def _replace(path: str, content: bytes) -> None:
    """Replace a file atomically: write and sync a `.new` file beside it, then rename. systemd ignores `.new` files."""
    fresh = f"{path}.{os.getpid()}.new"
    with storage(f"write {path}"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
            os.replace(fresh, path)
        except OSError:
            os.unlink(fresh)
            raise
        finally:
            os.close(descriptor)
        sync_folder(os.path.dirname(path))


def _next(plan: ServicePlan) -> list[str]:
    """Return the commands to run. Without lingering, a user's units run only while that user is logged in."""
    ours = "systemctl" if plan.user else "systemctl --user"
    linger = [] if plan.user else ["loginctl enable-linger"]
    return [f"{ours} daemon-reload", f"{ours} enable --now {UNIT_NAME}.timer", *linger]


def _note_next(plan: ServicePlan) -> None:
    note("nothing was started; run")
    for line in _next(plan):
        note(f"    {line}")
    if not plan.user:
        note("the last command lets the timer start at boot, before you log in")
    keys = _keys_path_text(plan.keys_file)
    note(f"keys belong in {keys}, one NAME=value per line; make it readable only for you (chmod 600)")


UNIT_NAME = "wakelog-wake"
CRON_FILE = "/etc/cron.d/wakelog"
_MARK = re.compile(r"# Written by `wakelog service install` \((sha256:[0-9a-f]{64})\)")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@+=:,./~-]+")
# Text that no line can contain: control characters, and undecodable bytes of a path.
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Some crons cut off a longer line and would run the beginning of it.
_CRON_LINE_MAX = 990


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────


def units(plan: ServicePlan) -> tuple[Unit, Unit]:
    """Return the service and the timer. Only the timer is enabled; it starts the service."""
    return Unit(f"{UNIT_NAME}.service", _service_text(plan)), Unit(f"{UNIT_NAME}.timer", _timer_text(plan))


def is_unchanged(text: str) -> bool:
    """Return whether a unit file is unchanged since wakelog wrote it."""
    first, _, rest = text.partition("\n")
    found = _MARK.match(first)
    return found is not None and found[1] == digest_of(rest.encode(errors="surrogateescape"))


def _signed(plan: ServicePlan, name: str, lines: Sequence[str]) -> str:
    """Return the unit text: a line with the digest, a line that says how to edit the unit, then `lines`."""
    edit = f"# To change it: systemctl {'' if plan.user else '--user '}edit {name}"
    rest = "".join(f"{line}\n" for line in (edit, *lines))
    return f"# Written by `wakelog service install` ({digest_of(rest.encode())})\n{rest}"


def _service_text(plan: ServicePlan) -> str:
    network = ["Wants=network-online.target", "After=network-online.target"] if plan.user else []
    return _signed(
        plan,
        f"{UNIT_NAME}.service",
        [
            "[Unit]",
            "Description=Wake agent sessions with pending work",
            *network,
            "",
            "[Service]",
            "Type=oneshot",
            *([f"User={_refuse_unwritable(plan.user)}", "WorkingDirectory=~"] if plan.user else []),
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in plan.environment.items()),
            "# Keys belong in this file, one NAME=value per line, never in a unit. The file is optional.",
            f"EnvironmentFile=-{_escape_path(plan.keys_file)}",
            "# The colon turns off variable expansion.",
            f"ExecStart=:{' '.join(_quoted(word) for word in _start_words(plan.words))}",
            "# Replies are in the session logs; the journal gets failures and the sessions that wait for a person.",
            "StandardOutput=null",
            "# A session that waits for a person is not a failure.",
            "SuccessExitStatus=6",
            "# Tools have the rights of their user and cannot become another one: no sudo, no setuid programs.",
            "NoNewPrivileges=yes",
            "# If a tool uses all the memory, only that tool is ended.",
            "OOMPolicy=continue",
        ],
    )


def _timer_text(plan: ServicePlan) -> str:
    return _signed(
        plan,
        f"{UNIT_NAME}.timer",
        [
            "[Unit]",
            "Description=Wake agent sessions with pending work, after the start and at intervals",
            "",
            "[Timer]",
            "# Soon after the start, then this long after the end of each run: never two at once.",
            "OnStartupSec=30s",
            f"OnUnitInactiveSec={plan.every_s}s",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ],
    )


def _start_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words for ExecStart; through a shell if the program's path has a quote or backslash."""
    return ("/bin/sh", "-c", 'exec "$0" "$@"', *words) if re.search(r"[\"'\\]", words[0]) else words


def _quoted(word: str) -> str:
    """Return a word quoted for a unit."""
    escaped = _refuse_unwritable(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if _PLAIN_WORD.fullmatch(word) else f'"{escaped}"'


def _escape_path(path: str) -> str:
    """Return a path escaped for a setting where systemd expands patterns; a leading `%h/` keeps its meaning."""
    home, rest = ("%h", path[2:]) if path.startswith("%h/") else ("", path)
    return home + re.sub(r"([*?\[\\])", r"\\\1", _refuse_unwritable(rest)).replace("%", "%%")


def _refuse_unwritable(text: str) -> str:
    found = _UNWRITABLE.search(text)
    if found is not None:
        raise UsageError(
            f"{text!r} cannot be written into a unit or a crontab", hint="use a name without such characters"
        )
    return text


# ── cron ─────────────────────────────────────────────────────────────────────────────────────────


def cron_lines(plan: ServicePlan) -> tuple[str, ...]:
    """Return the crontab lines: at boot, and at the interval. A system crontab also names the user."""
    keys = f'"$HOME/{plan.keys_file[3:]}"' if plan.keys_file.startswith("%h/") else shlex.quote(plan.keys_file)
    steps = (
        "set -a",
        *(f"{name}={shlex.quote(value)}" for name, value in plan.environment.items()),
        # Keys are read last, as in systemd, so that they take precedence.
        f"test ! -r {keys} || . {keys}",
        # Replies stay in their logs.
        f"{shlex.join(plan.words)} 2>&1 >/dev/null | logger -t {UNIT_NAME}",
    )
    command = _for_cron("; ".join(steps))
    return tuple(" ".join(filter(None, (when, plan.user, command))) for when in ("@reboot", _cron_times(plan.every_s)))


def _for_cron(script: str) -> str:
    """Escape a command for cron, which turns each unescaped percent sign into a line break."""
    _refuse_unwritable(script)
    if "\\" in script:
        raise UsageError("cron programs differ in how they read a backslash", hint="use the systemd units instead")
    escaped = script.replace("%", "\\%")
    if len(escaped) > _CRON_LINE_MAX:
        hint = "shorten $PATH for this command, or use the systemd units"
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
        "cron cannot express this interval", hint="use 1m to 30m or 1h to 24h that divide an hour or a day"
    )
