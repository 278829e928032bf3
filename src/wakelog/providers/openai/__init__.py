"""OpenAI and everything that speaks its language: the Responses API, and Chat Completions for compatible servers.

`responses.py` and `chat.py` hold a provider each. What goes out (`*_request.py`) and what comes back (`*_reply.py`) are
pure. The official SDK is an extra, looked for when a model is opened and loaded when it is asked.
"""

from wakelog.providers.extras import OPENAI

# Before anything that comes with it is needed.
OPENAI.check()
