"""OpenAI and everything that speaks its language: the Responses API, and Chat Completions for compatible servers.

`responses.py` and `chat.py` hold a provider each. What goes out (`*_request.py`) and what comes back (`*_reply.py`) are
pure. The official SDK is an extra, looked for when a model is opened.
"""

from wakelog.errors import UsageError

try:
    import openai  # noqa: F401 - only to see whether it is there
except ImportError as _missing:
    raise UsageError(
        f"models of OpenAI need an SDK that is not installed ({_missing})", hint="pip install 'wakelog[openai]'"
    ) from _missing
