"""OpenAI and compatible servers: the Responses API and Chat Completions.

`responses.py` and `chat.py` hold a provider each. Requests (`*_request.py`) and replies (`*_reply.py`) are handled by
pure modules. The official SDK is an optional extra, looked up when a model is opened and imported when it is called.
"""

from wakelog.providers.extras import OPENAI

# Checked before the modules here import packages that come with it.
OPENAI.check()
