"""The API key of a provider: from the configured variable, the configured program, or the provider's usual variable.

Pure: the environment and the function that runs programs are passed in. A key is returned, never stored, logged or
shown.
"""

from collections.abc import Callable, Mapping, Sequence

from wakelog.config.names import KEY_VARIABLES
from wakelog.config.values import Config, ProviderConfig
from wakelog.errors import UsageError

_DEMO = "or use --model demo, which needs none"


def key_for(
    provider: str, config: Config, environ: Mapping[str, str], run: Callable[[Sequence[str]], str]
) -> str | None:
    """Return the key; None if no source is configured and the usual variable is not set.

    Raises `UsageError` if the configured variable is not set or the program prints no usable key.
    """
    said = config.providers.get(provider, ProviderConfig())
    if said.key_command is not None:
        return _first_line(provider, run(said.key_command))
    if said.key_env is not None:
        if not environ.get(said.key_env):
            raise UsageError(f"${said.key_env}, which holds the key of {provider}, is not set", hint=f"set it, {_DEMO}")
        return environ[said.key_env]
    usual = KEY_VARIABLES.get(provider)
    return environ.get(usual) or None if usual is not None else None


def _first_line(provider: str, printed: str) -> str:
    """Return the first line of a program's output as the key; refuse what cannot be an HTTP header value, unshown."""
    key = printed.partition("\n")[0].strip()
    if not key or not key.isascii() or not key.isprintable():
        what = "no key" if not key else "something that is no key"
        raise UsageError(f"the key_command of {provider} printed {what}", hint="its first line must be the key alone")
    return key
