"""Merge configuration layers: the user's file, the project's files from the outside in, variables, options. Pure.

Each layer overrides the layers before it, key by key; lists are replaced as a whole. Variables and options override all
files, including the models of single agents.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from wakelog.config.checking import inconsistencies
from wakelog.config.nesting import config_of
from wakelog.config.reading import RIVALS, Reading
from wakelog.config.shape import keys_of, misfit, words_for
from wakelog.config.trust import Before, may_say, notice_of
from wakelog.config.values import (
    DEFAULT,
    DEFAULT_AGENT,
    Config,
    Loaded,
    Mistake,
    Notice,
    Path,
    Place,
    Setting,
    Source,
)

VARIABLES: Mapping[str, str] = {
    "WAKELOG_MODEL": "model",
    "WAKELOG_AGENT": "agent",
    "WAKELOG_STORE": "store",
    "WAKELOG_REDACT": "redact",
}
OPTIONS: Mapping[str, str] = {"--model": "model", "--agent": "agent", "--store": "store"}
# Values that the variable accepted when the setting was a boolean.
_SWITCHED = {**dict.fromkeys(("1", "true", "yes", "on"), "keys"), **dict.fromkeys(("0", "false", "no"), "off")}


class Layer(msgspec.Struct, frozen=True):
    """One file and its content."""

    source: Source
    reading: Reading


def resolve(
    layers: Sequence[Layer],
    environ: Mapping[str, str],
    options: Mapping[str, str],
    *,
    user_file: str,
    real: Callable[[str], str] = os.path.normpath,
) -> Loaded:
    """Return the merged configuration with the places of values, mistakes and notices. `real` resolves symlinks."""
    merged = _Merged(user_file, real)
    for layer in layers:
        merged.take_file(layer)
    spoken = spoken_by(environ, options)
    merged.take(spoken.settings)
    settings = _with_models(merged.settings)
    sources = tuple(layer.source for layer in layers)
    misread = [*(mistake for layer in layers for mistake in layer.reading.mistakes), *spoken.mistakes]
    return Loaded(
        config=config_of(settings),
        places={path: setting.place for path, setting in settings.items()},
        mistakes=in_order(sources, *misread, *inconsistencies(settings, misread)),
        notices=tuple(merged.notices),
        sources=sources,
    )


def in_order(sources: Sequence[Source], *mistakes: Mistake) -> tuple[Mistake, ...]:
    """Return mistakes ordered by file and line; those of variables and options last."""
    order = {source.path: number for number, source in enumerate(sources)}
    return tuple(sorted(mistakes, key=lambda each: (order.get(each.place.name, len(order)), each.place.line)))


class _Merged:
    """The settings merged so far."""

    def __init__(self, user_file: str, real: Callable[[str], str]) -> None:
        self.settings: dict[Path, Setting] = {}
        self.notices: list[Notice] = []
        self._user_file = user_file
        self._real = real
        self._untrusted: set[str] = set()

    def take_file(self, layer: Layer) -> None:
        """Merge a file: all settings if it is trusted, otherwise those that an untrusted file may set."""
        said, source = layer.reading.settings, layer.source
        if source.trusted:
            self.take(said)
            return
        self._untrusted.add(source.path)
        before = Before(self.settings, self._untrusted)
        held = {setting.path: setting for setting in said if not may_say(setting, before, source.root, self._real)}
        self.take(setting for setting in said if setting.path not in held)
        if held:
            self.notices.append(notice_of(source, tuple(held.values()), self._user_file))

    def take(self, said: Iterable[Setting]) -> None:
        """Merge settings; each replaces its previous value and its excluded counterpart."""
        for setting in said:
            for path in self._replaced(setting):
                self.settings.pop(path, None)
            if len(setting.path) > 2 or setting.value != {} or setting.path not in self.settings:
                self.settings[setting.path] = setting

    def _replaced(self, setting: Setting) -> list[Path]:
        if setting.path == ("model",) and setting.place.kind != "file":
            return [path for path in self.settings if path[0] == "agents" and path[2:] == ("model",)]
        rival = RIVALS.get(setting.path[-1]) if len(setting.path) == 3 else None
        return [(*setting.path[:-1], rival)] if rival is not None else []


def spoken_by(environ: Mapping[str, str], options: Mapping[str, str]) -> Reading:
    """Return the settings of variables and options. Empty ones are ignored."""
    found = [
        *(_spoken(Place("variable", name), key, environ[name]) for name, key in VARIABLES.items() if environ.get(name)),
        *(_spoken(Place("option", name), key, options[name]) for name, key in OPTIONS.items() if options.get(name)),
    ]
    return Reading(
        tuple(each for each in found if isinstance(each, Setting)),
        tuple(each for each in found if isinstance(each, Mistake)),
    )


def _spoken(place: Place, key: str, text: str) -> Setting | Mistake:
    value = _SWITCHED.get(text.lower(), text.lower()) if key == "redact" else text
    kind = keys_of(Config)[key]
    if misfit(value, kind):
        return Mistake(place, f"{key} must be {words_for(kind)}", path=(key,))
    return Setting((key,), value, place)


def _with_models(settings: Mapping[Path, Setting]) -> dict[Path, Setting]:
    """Add the default agent to the agents, and the general model (or None) to each agent without one."""
    chosen = settings.get(("agent",), Setting(("agent",), DEFAULT_AGENT, DEFAULT))
    model = settings.get(("model",), Setting(("model",), None, DEFAULT))
    names = dict.fromkeys((*(path[1] for path in settings if path[0] == "agents"), chosen.value))
    paths: list[Path] = [("agents", name, "model") for name in names]
    return {**{path: Setting(path, model.value, model.place) for path in paths}, **settings}
