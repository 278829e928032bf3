"""OpenAI and compatible servers: the Responses API (`openai:NAME`) and Chat Completions (`openai-chat:NAME`).

`responses` and `chat` hold a provider and its reply parser each, `responses_request` and `chat_request` build the
requests. Both share `api` (address, SDK, errors) and `conversation` (tool calls paired with results, data bound to
parts). The official SDK is an optional extra, looked up when a model is opened and imported when it is called.
"""

from wakelog.providers import OPENAI_SDK

# Checked before the modules here import packages that come with it.
OPENAI_SDK.check()
