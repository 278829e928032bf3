"""Models behind Anthropic's Messages interface: `anthropic:NAME`.

What is said is made in `to_wire.py`, what comes back is understood in `from_wire.py`, and `provider.py` is the door
between the two. The official SDK is an extra, looked for when a model is opened and loaded when it is asked.
"""

from wakelog.providers.extras import ANTHROPIC

# Before anything that comes with it is needed.
ANTHROPIC.check()
