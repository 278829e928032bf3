"""The fixtures of the command line, which is the first front end that uses `app`."""

from tests.cli.conftest import mine, script, shell, starts, store, story

__all__ = ["mine", "script", "shell", "starts", "store", "story"]
