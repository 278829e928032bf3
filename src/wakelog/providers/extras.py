"""Optional SDK packages: each is looked up at once, and imported late, because that takes a second or two.

So a missing key or an invalid setting is reported before the import. This module must not import an SDK, nor a package
that comes with one.
"""

import importlib
import importlib.util
from typing import Any, NamedTuple

from wakelog.errors import UsageError


class Extra(NamedTuple):
    """An SDK: the name of its package, which is also that of the extra, and what needs it, in words."""

    package: str
    needed_by: str

    def check(self) -> None:
        """Raise `UsageError` if it is not installed. Nothing is imported for that."""
        if importlib.util.find_spec(self.package) is None:
            raise self._missing(f"there is no package {self.package}")

    def load(self) -> Any:
        """Import the package; `UsageError` if that fails."""
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
