"""OpenAI and compatible servers: the Responses API (`openai:NAME`) and Chat Completions (`openai-chat:NAME`).

`responses` and `chat` hold a provider and its reply parser each, `responses_request` and `chat_request` build the
requests. Both share `api` (address, headers, errors) and `conversation` (tool calls paired with results, data bound to
parts).
"""
