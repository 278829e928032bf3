"""Combine settings, each with its path, into nested configuration values. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.config.values import Config, Path, Setting

Settings = Mapping[Path, Setting]
"""The settings in force, by path."""


def nested(settings: Settings) -> dict[str, Any]:
    """Return the nested tables that contain these settings."""
    made: dict[str, Any] = {}
    for path, setting in settings.items():
        table = made
        for key in path[:-1]:
            table = table.setdefault(key, {})
        if setting.value == {} and len(path) == 2:
            table.setdefault(path[-1], {})
        else:
            table[path[-1]] = setting.value
    return made


def config_of(settings: Settings) -> Config:
    """Return the configuration. Each setting was already validated when it was read."""
    return msgspec.convert(nested(settings), Config)


def by_agent(settings: Settings) -> dict[str, dict[Path, Setting]]:
    """Return the settings of each agent, by name."""
    found: dict[str, dict[Path, Setting]] = {}
    for path, setting in settings.items():
        if path[0] == "agents":
            found.setdefault(path[1], {})[path] = setting
    return found
