"""Models of Anthropic's Messages API: `anthropic:NAME`.

`messages_request` builds requests; `messages` parses replies and errors and holds the provider. The official SDK is
an optional extra, looked up when a model is opened and imported when it is called.
"""

from wakelog.providers import ANTHROPIC_SDK

# Checked before the modules here import packages that come with it.
ANTHROPIC_SDK.check()
