"""Find and read configuration files, and get the API key of a provider: the effects of this package.

Rule 1: reading a path never blocks and never fills memory, whatever the path is; an unreadable file is a mistake.
Rule 2: the files of a project depend on real paths only: from the root of the git repository that contains the folder
down to the folder itself. A repository inside another is a separate project with separate trust.
Rule 3: a key comes from the configured variable, the configured program, or the provider's usual variable. It is
returned, never stored, logged or shown.
"""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from wakelog.config.layers import Layer, merge_layers, sort_mistakes
from wakelog.config.parsing import ParsedFile, parse_config
from wakelog.config.schema import AgentConfig, Config, LoadedConfig, Mistake, Path, Place, ProviderConfig, Source
from wakelog.config.validation import KEY_VARIABLES, nearest
from wakelog.errors import UsageError
from wakelog.folders import CONFIG_FILE, config_folder, folders_from_root, home_folder, open_nonblocking

PROJECT_FILE = ".wakelog.toml"
FILE_MAX_BYTES = 128 * 1024
_KEY_TIMEOUT_S = 60


def load_config(cwd: str, environ: Mapping[str, str], options: Mapping[str, str] | None = None) -> LoadedConfig:
    """Return the configuration for a folder; an empty `cwd` is the current folder.

    `options` are those of the command line: `{"--model": "demo"}`.
    """
    path = user_file(environ)
    home = home_folder(environ)
    user = _read_layer(Source(path, "user"), home, is_required=bool(environ.get("WAKELOG_CONFIG")))
    trusted = {os.path.realpath(folder) for folder in _trusted_folders(user.reading)}
    projects = [_read_layer(source, home) for source in project_files(cwd, trusted)]
    layers = [user, *(layer for layer in projects if layer.source.found)]
    return _with_system_prompts(merge_layers(layers, environ, options or {}, user_file=path, real=os.path.realpath))


def configured_store(environ: Mapping[str, str]) -> str | None:
    """Return the configured store; mistakes that cannot affect it are ignored, because a reader needs no other key.

    An untrusted project has no influence, not even by its mistakes. Mistakes of the file that sets the store are
    ignored too.
    """
    loaded, own = load_config("", environ), user_file(environ)
    files = {source.path for source in loaded.sources if source.trusted} - {loaded.place_of("store").name}
    relevant = (mistake for mistake in loaded.mistakes if mistake.place.name in files)
    hiding = tuple(mistake for mistake in relevant if _may_hide_store(mistake, own))
    return msgspec.structs.replace(loaded, mistakes=hiding).require_valid().store


def trusted_owners(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the users and groups trusted by the user's file; no other file, variable or option is considered.

    Raises `UsageError` for a mistake in that file that may be about this key.
    """
    reading = _read_layer(Source(user_file(environ), "user"), home_folder(environ)).reading
    hiding = [mistake for mistake in reading.mistakes if not mistake.path or _is_about(mistake, "trusted_owners")]
    LoadedConfig(mistakes=tuple(hiding)).require_valid()
    values = [setting.value for setting in reading.settings if setting.path == ("trusted_owners",)]
    return tuple(values[0]) if values else ()


def _is_about(mistake: Mistake, key: str) -> bool:
    """Return whether a mistake is about a key, or about a misspelling of it."""
    return mistake.path[-1] == key or bool(nearest(mistake.path[-1], (key,)))


def _may_hide_store(mistake: Mistake, own: str) -> bool:
    """Return whether a mistake may hide a setting of the store: by its key, or by trust of the project that sets it."""
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
    folders = folders_from_root(cwd)
    root = folders[0]
    for folder in folders:
        is_trusted = root in trusted or folder in trusted
        yield Source(os.path.join(folder, PROJECT_FILE), "project", root, trusted=is_trusted)


def _trusted_folders(reading: ParsedFile) -> tuple[str, ...]:
    values = [setting.value for setting in reading.settings if setting.path == ("trust", "projects")]
    return tuple(values[0]) if values else ()


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _read_layer(source: Source, home: str, *, is_required: bool = False) -> Layer:
    try:
        text = _read_text(source.path)
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = (_unreadable(source.path, error),) if is_required else ()
        return Layer(msgspec.structs.replace(source, found=False), ParsedFile(mistakes=missing))
    except (OSError, UnicodeDecodeError) as error:
        return Layer(source, ParsedFile(mistakes=(_unreadable(source.path, error),)))
    return Layer(source, parse_config(text, source.path, source.role, home))


def _read_text(path: str) -> str:
    """Return the text of a regular file of at most `FILE_MAX_BYTES`; raise `OSError` for any other."""
    with open(path, "rb", opener=open_nonblocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) and path != os.devnull:
            raise OSError(0, "it is not a regular file")
        raw = file.read(FILE_MAX_BYTES + 1)
    if len(raw) > FILE_MAX_BYTES:
        raise OSError(0, f"it is larger than {FILE_MAX_BYTES // 1024} KiB")
    return raw.decode("utf-8-sig")


def _unreadable(path: str, error: OSError | UnicodeDecodeError) -> Mistake:
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return Mistake(Place("file", path, line), f"{path} is not UTF-8")
    return Mistake(Place("file", path), _read_error(path, error))


def _read_error(path: str, error: OSError) -> str:
    return f"{path} cannot be read: {error.strerror or error}"


# ── system prompts in files ──────────────────────────────────────────────────────────────────────


def _with_system_prompts(loaded: LoadedConfig) -> LoadedConfig:
    """Return the configuration with the text of every `system_file` read."""
    results = {name: _with_system_prompt(agent) for name, agent in loaded.config.agents.items()}
    agents = {name: each for name, each in results.items() if isinstance(each, AgentConfig)}
    mistakes = [
        _system_file_mistake(loaded, ("agents", name, "system_file"), each)
        for name, each in results.items()
        if not isinstance(each, AgentConfig)
    ]
    config = msgspec.structs.replace(loaded.config, agents={**loaded.config.agents, **agents})
    return msgspec.structs.replace(
        loaded, config=config, mistakes=sort_mistakes(loaded.sources, *loaded.mistakes, *mistakes)
    )


def _system_file_mistake(loaded: LoadedConfig, path: Path, error: OSError) -> Mistake:
    return Mistake(loaded.place_of(*path), _read_error(error.filename, error), path=path)


def _with_system_prompt(agent: AgentConfig) -> AgentConfig | OSError:
    if agent.system_file is None:
        return agent
    path = agent.system_file
    try:
        return msgspec.structs.replace(agent, system=_read_text(path))
    except OSError as error:
        return OSError(error.errno, error.strerror, path)
    except UnicodeDecodeError:
        return OSError(0, "it is not UTF-8", path)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def run_key_command(command: Sequence[str]) -> str:
    """Return the output of a program, run without a shell. Error messages never contain the output."""
    try:
        completed = subprocess.run(  # noqa: S603 - the command comes from the user's own file
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=_KEY_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"key_command {command[0]} printed no key within {_KEY_TIMEOUT_S} s", hint="check key_command"
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"key_command {command[0]} cannot be run: {why}", hint="check key_command") from None
    if completed.returncode:
        raise UsageError(
            f"key_command {command[0]} exited with status {completed.returncode}", hint="check key_command"
        )
    return completed.stdout.decode(errors="replace")


_DEMO_HINT = "or use --model demo, which needs none"


def key_for(
    provider: str, config: Config, environ: Mapping[str, str], run: Callable[[Sequence[str]], str]
) -> str | None:
    """Return the key; None if no source is configured and the usual variable is not set.

    Raises `UsageError` if the configured variable is not set or the program prints no usable key.
    """
    settings = config.providers.get(provider, ProviderConfig())
    if settings.key_command is not None:
        return _key_in_output(provider, run(settings.key_command))
    if settings.key_env is not None:
        if not environ.get(settings.key_env):
            raise UsageError(
                f"${settings.key_env}, which holds the key of {provider}, is not set", hint=f"set it, {_DEMO_HINT}"
            )
        return environ[settings.key_env]
    usual = KEY_VARIABLES.get(provider)
    return environ.get(usual) or None if usual is not None else None


def _key_in_output(provider: str, printed: str) -> str:
    """Return the first line of a program's output as the key; refuse what cannot be an HTTP header value, unshown."""
    key = printed.partition("\n")[0].strip()
    if not key or not key.isascii() or not key.isprintable():
        problem = "no key" if not key else "an invalid key"
        raise UsageError(
            f"the key_command of {provider} printed {problem}", hint="its first output line must be the key alone"
        )
    return key
