"""Fixtures of the command line, the first front end that uses `app`."""

from tests.cli.conftest import mine, script, shell, starts, store, story

__all__ = ["mine", "script", "shell", "starts", "store", "story"]
