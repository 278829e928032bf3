"""Effects of configuration: find and read files, and run the program that prints a key.

Rule 1: reading a path never blocks and never fills memory, whatever the path is; an unreadable file is a mistake.
Rule 2: the files of a project depend on real paths only: from the root of the git repository that contains the folder
down to the folder itself. A repository inside another is a separate project with separate trust.
"""

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from wakelog.config.reading import Reading, read_text
from wakelog.config.resolving import Layer, in_order, resolve
from wakelog.config.shape import nearest
from wakelog.config.values import AgentConfig, Loaded, Mistake, Path, Place, Source
from wakelog.errors import UsageError
from wakelog.projects import CONFIG_FILE, config_folder, folders_down, home_folder, without_waiting

PROJECT_FILE = ".wakelog.toml"
FILE_MAX_BYTES = 128 * 1024
_KEY_PATIENCE_S = 60


def load_config(cwd: str, environ: Mapping[str, str], options: Mapping[str, str] | None = None) -> Loaded:
    """Return the configuration for a folder; an empty `cwd` is the current folder.

    `options` are those of the command line: `{"--model": "demo"}`.
    """
    path = user_file(environ)
    home = home_folder(environ)
    user = _layer(Source(path, "user"), home, must_be_there=bool(environ.get("WAKELOG_CONFIG")))
    trusted = {os.path.realpath(folder) for folder in _trusted(user.reading)}
    projects = [_layer(source, home) for source in project_files(cwd, trusted)]
    layers = [user, *(layer for layer in projects if layer.source.found)]
    return _with_systems(resolve(layers, environ, options or {}, user_file=path, real=os.path.realpath))


def configured_store(environ: Mapping[str, str]) -> str | None:
    """Return the configured store; mistakes that cannot affect it are ignored, because a reader needs no other key.

    An untrusted project has no influence, not even by its mistakes. Mistakes of the file that sets the store are
    ignored too.
    """
    loaded, own = load_config("", environ), user_file(environ)
    files = {source.path for source in loaded.sources if source.trusted} - {loaded.place_of("store").name}
    found = (mistake for mistake in loaded.mistakes if mistake.place.name in files)
    hiding = tuple(mistake for mistake in found if _may_hide_store(mistake, own))
    return msgspec.structs.replace(loaded, mistakes=hiding).sound().store


def trusted_owners(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the users and groups trusted by the user's file; no other file, variable or option is considered.

    Raises `UsageError` for a mistake in that file that may be about this key.
    """
    reading = _layer(Source(user_file(environ), "user"), home_folder(environ)).reading
    hiding = [mistake for mistake in reading.mistakes if not mistake.path or _is_about(mistake, "trusted_owners")]
    Loaded(mistakes=tuple(hiding)).sound()
    said = [setting.value for setting in reading.settings if setting.path == ("trusted_owners",)]
    return tuple(said[0]) if said else ()


def _is_about(mistake: Mistake, key: str) -> bool:
    """Whether a mistake is about a key, or about a misspelling of it."""
    return mistake.path[-1] == key or bool(nearest(mistake.path[-1], (key,)))


def _may_hide_store(mistake: Mistake, own: str) -> bool:
    """Whether a mistake may hide a setting of the store: by its key, or by trust of the project that sets it."""
    match mistake.path:
        case ():
            return True
        case ("trust", *_):
            return mistake.place.name == own
    return _is_about(mistake, "store")


def user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's file, whether or not it exists."""
    named = environ.get("WAKELOG_CONFIG")
    if named:
        return os.path.abspath(home_folder(environ) + named[1:] if named.startswith("~/") else named)
    return os.path.join(config_folder(environ), CONFIG_FILE)


def project_files(cwd: str, trusted: set[str]) -> Iterator[Source]:
    """Yield the possible files of a project, outermost first."""
    folders = folders_down(cwd)
    root = folders[0]
    for folder in folders:
        is_trusted = root in trusted or folder in trusted
        yield Source(os.path.join(folder, PROJECT_FILE), "project", root, trusted=is_trusted)


def _trusted(reading: Reading) -> tuple[str, ...]:
    said = [setting.value for setting in reading.settings if setting.path == ("trust", "projects")]
    return tuple(said[0]) if said else ()


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _layer(source: Source, home: str, *, must_be_there: bool = False) -> Layer:
    try:
        text = _text(source.path)
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = (_unreadable(source.path, error),) if must_be_there else ()
        return Layer(msgspec.structs.replace(source, found=False), Reading(mistakes=missing))
    except (OSError, UnicodeDecodeError) as error:
        return Layer(source, Reading(mistakes=(_unreadable(source.path, error),)))
    return Layer(source, read_text(text, source.path, source.role, home))


def _text(path: str) -> str:
    """Return the text of a regular file of at most `FILE_MAX_BYTES`; raise `OSError` for any other."""
    with open(path, "rb", opener=without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) and path != os.devnull:
            raise OSError(0, "it is not a plain file")
        raw = file.read(FILE_MAX_BYTES + 1)
    if len(raw) > FILE_MAX_BYTES:
        raise OSError(0, f"it is larger than {FILE_MAX_BYTES // 1024} KiB")
    return raw.decode("utf-8-sig")


def _unreadable(path: str, error: OSError | UnicodeDecodeError) -> Mistake:
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return Mistake(Place("file", path, line), f"{path} is not UTF-8")
    return Mistake(Place("file", path), _why_unread(path, error))


def _why_unread(path: str, error: OSError) -> str:
    return f"{path} cannot be read: {error.strerror or error}"


# ── system prompts in files ──────────────────────────────────────────────────────────────────────


def _with_systems(loaded: Loaded) -> Loaded:
    """Return the configuration with the text of every `system_file` read."""
    found = {name: _with_system(agent) for name, agent in loaded.config.agents.items()}
    agents = {name: each for name, each in found.items() if isinstance(each, AgentConfig)}
    mistakes = [
        _without_system(loaded, ("agents", name, "system_file"), each)
        for name, each in found.items()
        if not isinstance(each, AgentConfig)
    ]
    config = msgspec.structs.replace(loaded.config, agents={**loaded.config.agents, **agents})
    return msgspec.structs.replace(
        loaded, config=config, mistakes=in_order(loaded.sources, *loaded.mistakes, *mistakes)
    )


def _without_system(loaded: Loaded, path: Path, error: OSError) -> Mistake:
    return Mistake(loaded.place_of(*path), _why_unread(error.filename, error), path=path)


def _with_system(agent: AgentConfig) -> AgentConfig | OSError:
    if agent.system_file is None:
        return agent
    path = agent.system_file
    try:
        return msgspec.structs.replace(agent, system=_text(path))
    except OSError as error:
        return OSError(error.errno, error.strerror, path)
    except UnicodeDecodeError:
        return OSError(0, "it is not UTF-8", path)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def run_key_command(words: Sequence[str]) -> str:
    """Return the output of a program, run without a shell. Error messages never contain the output."""
    try:
        done = subprocess.run(  # noqa: S603 - the command comes from the user's own file
            list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=_KEY_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{words[0]} printed no key within {_KEY_PATIENCE_S} s", hint="see key_command") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{words[0]} cannot be run for a key: {why}", hint="see key_command") from None
    if done.returncode:
        raise UsageError(f"{words[0]} was to print a key and ended with {done.returncode}", hint="see key_command")
    return done.stdout.decode(errors="replace")
