"""OpenAI and everything that speaks its language: the Responses API, and Chat Completions for compatible servers.

`responses.py` and `chat.py` hold a provider each. What goes out (`*_request.py`) and what comes back (`*_reply.py`) are
pure; `client.py` alone knows the SDK and the socket.
"""
