"""Models of Anthropic's Messages API: `anthropic:NAME`.

`messages_request` builds requests; `messages` parses replies and errors and holds the provider.
"""
