"""The official SDKs are extras, and take a second or two to load: each is looked for at once, and loaded late.

So a model that cannot be asked, for want of a key or because of its settings, says so before anybody has waited.
Nothing here may need an SDK, nor what comes with one.
"""

import importlib
import importlib.util
from typing import Any, NamedTuple

from wakelog.errors import UsageError


class Extra(NamedTuple):
    """An SDK by the name of its package, which is also that of the extra, and what needs it, in words."""

    package: str
    needed_by: str

    def check(self) -> None:
        """`UsageError` if it is not there. Nothing is loaded for that."""
        if importlib.util.find_spec(self.package) is None:
            raise self._missing(f"there is no package {self.package}")

    def load(self) -> Any:
        """The package; `UsageError` if it cannot be loaded."""
        try:
            return importlib.import_module(self.package)
        except ImportError as error:
            raise self._missing(str(error)) from error

    def _missing(self, why: str) -> UsageError:
        return UsageError(
            f"{self.needed_by} need an SDK that is not installed ({why})", hint=f"pip install 'wakelog[{self.package}]'"
        )


ANTHROPIC = Extra("anthropic", "anthropic models")
OPENAI = Extra("openai", "models of OpenAI")
