"""Models of Anthropic's Messages API: `anthropic:NAME`.

`to_wire.py` builds requests, `from_wire.py` parses replies, and `provider.py` connects the two. The official SDK is an
optional extra, looked up when a model is opened and imported when it is called.
"""

from wakelog.providers.extras import ANTHROPIC

# Checked before the modules here import packages that come with it.
ANTHROPIC.check()
