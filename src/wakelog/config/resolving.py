"""Layers → one configuration. The user's file, the project's files from the outside in, variables, options. Pure.

Each layer replaces what the ones before it say, key by key; lists are replaced whole. What is said for one run, by a
variable or an option, wins over everything that is written down, the models of single agents included.
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
# What the variable could say before the setting had words.
_SWITCHED = {**dict.fromkeys(("1", "true", "yes", "on"), "keys"), **dict.fromkeys(("0", "false", "no"), "off")}


class Layer(msgspec.Struct, frozen=True):
    """One file and what it says."""

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
    """Everything together, with the place of each value, every mistake and every notice. `real` follows links."""
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
    """Mistakes file by file and line by line; those of variables and options last."""
    order = {source.path: number for number, source in enumerate(sources)}
    return tuple(sorted(mistakes, key=lambda each: (order.get(each.place.name, len(order)), each.place.line)))


class _Merged:
    """What holds so far."""

    def __init__(self, user_file: str, real: Callable[[str], str]) -> None:
        self.settings: dict[Path, Setting] = {}
        self.notices: list[Notice] = []
        self._user_file = user_file
        self._real = real
        self._untrusted: set[str] = set()

    def take_file(self, layer: Layer) -> None:
        """All that a file says, or all that it may say."""
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
        """Each of these in the place of whatever it replaces."""
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
    """What variables and options say. An empty one says nothing."""
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
    """The same, with the default agent among the agents and a model for each of them, if one was said."""
    chosen = settings.get(("agent",), Setting(("agent",), DEFAULT_AGENT, DEFAULT))
    model = settings.get(("model",), Setting(("model",), None, DEFAULT))
    names = dict.fromkeys((*(path[1] for path in settings if path[0] == "agents"), chosen.value))
    paths: list[Path] = [("agents", name, "model") for name in names]
    return {**{path: Setting(path, model.value, model.place) for path in paths}, **settings}
