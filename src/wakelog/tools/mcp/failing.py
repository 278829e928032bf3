"""How a server fails those who ask it. Known without the SDK, so that whoever asks can tell before it is loaded."""


class Stale(Exception):
    """The server has forgotten this connection and did nothing: ask it again on a new one."""


class Failure(Exception):
    """What went wrong with a server, in words for people."""
