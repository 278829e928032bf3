"""Models behind Anthropic's Messages interface: `anthropic:NAME`.

Here is only the door: what is said is made in `to_wire.py`, what comes back is understood in `from_wire.py`, and
`provider.py` is the socket between the two. The official SDK is an extra, looked for when a model is opened.
"""

from collections.abc import Mapping

from wakelog.errors import UsageError
from wakelog.ports import Provider

try:
    import anthropic  # noqa: F401 - only to see whether it is there
except ImportError as _missing:
    raise UsageError(
        f"anthropic models need an SDK that is not installed ({_missing})", hint="pip install 'wakelog[anthropic]'"
    ) from _missing

from wakelog.providers.anthropic.provider import AnthropicProvider


def open_model(model: str, environ: Mapping[str, str]) -> Provider:
    """The model of that name, with the key and the address that the environment gives."""
    if model == AnthropicProvider.name:
        raise UsageError("anthropic alone names no model", hint="write anthropic:NAME")
    key, token = _secret(environ, "ANTHROPIC_API_KEY"), _secret(environ, "ANTHROPIC_AUTH_TOKEN")
    if not key and not token:
        raise UsageError(
            "anthropic models need a key", hint="set ANTHROPIC_API_KEY, or use --model demo, which needs none"
        )
    # Where both are set the key is meant, as everywhere else.
    return AnthropicProvider(key=key, token="" if key else token, base_url=environ.get("ANTHROPIC_BASE_URL"))


def _secret(environ: Mapping[str, str], variable: str) -> str:
    """A key out of the environment; it goes into a header, which does not hold everything."""
    value = environ.get(variable, "").strip()
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"{variable} holds characters that are in no key", hint="set it again")
    return value
