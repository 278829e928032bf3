"""Models behind Anthropic's Messages interface: `anthropic:NAME`.

What is said is made in `to_wire.py`, what comes back is understood in `from_wire.py`, and `provider.py` is the door
between the two. The official SDK is an extra, looked for when a model is opened.
"""

from wakelog.errors import UsageError

try:
    import anthropic  # noqa: F401 - only to see whether it is there
except ImportError as _missing:
    raise UsageError(
        f"anthropic models need an SDK that is not installed ({_missing})", hint="pip install 'wakelog[anthropic]'"
    ) from _missing

from wakelog.providers.anthropic.provider import open_model

__all__ = ["open_model"]
