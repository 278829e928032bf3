"""Command `service`: show or install systemd units (or show cron lines) that wake sessions on boot and by a timer.

Rule 1: no command is run here. The next commands are printed for the user to run.
Rule 2: a file that wakelog did not write, or that was edited since, is kept unless `--force` is given. Both files are
checked before either is written, and each is replaced atomically.
"""

import os
import pwd
import sys

import click

from wakelog.cli.failures import note
from wakelog.cli.options import Asked, command
from wakelog.cli.output import put, put_json
from wakelog.cli.places import shown_url, store_url
from wakelog.cli.safe import visible
from wakelog.cli.times import parse_span
from wakelog.cli.units import CRON_FILE, NAME, Plan, Unit, cron_lines, is_ours, units
from wakelog.config.finding import user_file
from wakelog.errors import Conflict, UsageError
from wakelog.stores.files import storage, sync_folder, write_all

_SYSTEM_FOLDER = "/etc/systemd/system"
_SYSTEM_KEYS = "/etc/wakelog/environment"
_USER_KEYS = "%h/.config/wakelog/environment"
# Variables copied into the unit: the program path for tools, and the locations of files.
_CARRIED = ("PATH", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_SHORTEST_S = 60


@command(
    "service",
    examples="""
    wakelog service show                     the units for systemd that wake what owes something
    wakelog service install                  write them for you, and say what to run next
    sudo wakelog service install --system --as ann
    wakelog service show --cron --every 15m  the same for a crontab
    """,
)
@click.argument("act", type=click.Choice(["show", "install"]), default="show")
@click.option("--system", is_flag=True, help="For the whole machine. [default: for you]")
@click.option("--as", "user", metavar="NAME", help="With --system: who runs it. [default: who called sudo, else you]")
@click.option("--every", metavar="TIME", default="5m", show_default=True, help="How long to wait between two times.")
@click.option("--cron", is_flag=True, help="Lines for a crontab instead.")
@click.option("--force", is_flag=True, help="Replace files that somebody else wrote or changed.")
def service(asked: Asked, act: str, *, system: bool, user: str | None, every: str, cron: bool, force: bool) -> None:
    """Wake sessions on boot and by a timer: show the units for systemd, or install them."""
    if user is not None and not system:
        raise UsageError("--as is for the whole machine", hint="say --system too, or leave it out")
    if force and act == "show":
        raise UsageError("--force is for install", hint="leave it out")
    if cron and act == "install":
        raise UsageError("a crontab is edited by hand", hint="`wakelog service show --cron` prints the lines for it")
    plan = _plan(asked, _runner(user) if system else "", _every(every))
    if cron:
        _show_cron(asked, plan)
    elif act == "show":
        _show(asked, plan)
    else:
        _install(asked, plan, force=force)


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────


def _every(text: str) -> int:
    every_s = int(parse_span(text))
    if every_s < _SHORTEST_S:
        raise UsageError(f"{text} is too often", hint="at least 1m")
    return every_s


def _runner(given: str | None) -> str:
    """Return the user that runs a system service. `UsageError` for root, unless it was named with `--as`."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    name = given or os.environ.get("SUDO_USER") or me
    if name == "root" and given is None:
        raise UsageError("sessions would be woken as root", hint="say --as NAME for who runs them")
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"there is no user {name!r} here", hint="--as takes the name of one") from None
    return name


def _plan(asked: Asked, user: str, every_s: int) -> Plan:
    if not sys.executable:
        raise UsageError("it is not known which Python runs this", hint="run it as `python -m wakelog service …`")
    # The path of this interpreter without resolving symbolic links, because a virtual environment is found by it.
    # `-P`: a folder named wakelog in the working directory is not imported.
    words = (os.path.abspath(sys.executable), "-P", "-m", "wakelog", "wake", "--all", "--quiet")
    keys = _SYSTEM_KEYS if user else _user_keys()
    return Plan(words=words, environment=_environment(asked, user, keys), keys_file=keys, every_s=every_s, user=user)


def _user_keys() -> str:
    config = os.environ.get("XDG_CONFIG_HOME")
    return os.path.join(os.path.abspath(config), "wakelog", "environment") if config else _USER_KEYS


def _environment(asked: Asked, user: str, keys: str) -> dict[str, str]:
    """Return the variables for the service: program path, file locations, and the store unless its URL has a secret."""
    carried = _CARRIED[:1] if user else _CARRIED
    found = {name: os.environ[name] for name in carried if os.environ.get(name)}
    if not user and os.environ.get("WAKELOG_CONFIG"):
        found["WAKELOG_CONFIG"] = user_file(os.environ)
    if _unsaid(asked, user):
        return found
    url = _settled(store_url(asked.store_url))
    if shown_url(url) == url:
        return found | {"WAKELOG_STORE": url}
    note(f"the store's URL has a secret in it, so it is left out: write WAKELOG_STORE=… into {_spoken(keys)}")
    return found


def _unsaid(asked: Asked, user: str) -> bool:
    """Return whether no store was named and the service runs as another user; its default is found when it runs."""
    named = asked.store_url or os.environ.get("WAKELOG_STORE")
    return not named and bool(user) and pwd.getpwnam(user).pw_uid != os.geteuid()


def _settled(url: str) -> str:
    """Return a store's URL that is valid in any working directory."""
    scheme, colon, place = url.partition(":")
    if colon and scheme == "memory":
        raise UsageError("a store in memory is gone when this ends", hint="name another with --store")
    if colon and scheme in ("jsonl", "sqlite"):
        return f"{scheme}:{os.path.abspath(os.path.expanduser(place.removeprefix('//')))}"
    return url if colon and "://" in url else os.path.abspath(os.path.expanduser(url))


def _spoken(keys: str) -> str:
    return f"~{keys.removeprefix('%h')}" if keys.startswith("%h/") else keys


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


def _folder(plan: Plan) -> str:
    """Return the folder in which systemd looks for units."""
    if plan.user:
        return _SYSTEM_FOLDER
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(os.path.abspath(config), "systemd", "user")


def _show(asked: Asked, plan: Plan) -> None:
    folder, made = _folder(plan), units(plan)
    if asked.json:
        states = [_state(os.path.join(folder, unit.name), unit) for unit in made]
        _answer(plan, folder, made, states)
        return
    for unit in made:
        put(f"# {visible(os.path.join(folder, unit.name))}\n{unit.text}")


def _show_cron(asked: Asked, plan: Plan) -> None:
    lines = cron_lines(plan)
    if asked.json:
        text = "".join(f"{line}\n" for line in lines)
        path = CRON_FILE if plan.user else None
        put_json({"files": [{"path": path, "text": text, "state": None}], "next": [], "keys": _spoken(plan.keys_file)})
        return
    for line in lines:
        put(line)
    place = f"into {CRON_FILE}" if plan.user else "with `crontab -e`"
    note(f"put these lines {place}; keys stand in {_spoken(plan.keys_file)}, NAME=value on a line")


def _answer(plan: Plan, folder: str, made: tuple[Unit, ...], states: list[str]) -> None:
    files = [
        {"path": os.path.join(folder, unit.name), "text": unit.text, "state": state}
        for unit, state in zip(made, states, strict=True)
    ]
    put_json({"files": files, "next": _next(plan), "keys": _spoken(plan.keys_file)})


# ── install ──────────────────────────────────────────────────────────────────────────────────────


def _install(asked: Asked, plan: Plan, *, force: bool) -> None:
    folder, made = _folder(plan), units(plan)
    paths = [os.path.join(folder, unit.name) for unit in made]
    before = [_state(path, unit) for path, unit in zip(paths, made, strict=True)]
    for path, state in zip(paths, before, strict=True):
        if state == "foreign" and not force:
            raise Conflict(f"{path} was written or changed by somebody else", hint="--force replaces it")
    for path, unit, state in zip(paths, made, before, strict=True):
        if state != "current":
            _replace(path, unit.text.encode())
    after = ["unchanged" if state == "current" else "written" for state in before]
    if asked.json:
        _answer(plan, folder, made, after)
        return
    for path, state in zip(paths, after, strict=True):
        put(f"{state}  {visible(path)}")
    _tell_next(plan)


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
    return "older" if is_ours(text) else "foreign"


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


def _next(plan: Plan) -> list[str]:
    """Return the commands to run. Without lingering, a user's units run only while that user is logged in."""
    ours = "systemctl" if plan.user else "systemctl --user"
    linger = [] if plan.user else ["loginctl enable-linger"]
    return [f"{ours} daemon-reload", f"{ours} enable --now {NAME}.timer", *linger]


def _tell_next(plan: Plan) -> None:
    note("nothing was started; run")
    for line in _next(plan):
        note(f"    {line}")
    if not plan.user:
        note("the last one lets it begin on boot, before you log in")
    note(f"keys stand in {_spoken(plan.keys_file)}, NAME=value on a line; keep it readable for you alone (chmod 600)")
