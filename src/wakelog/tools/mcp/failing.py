"""Exceptions for failed requests to a server; this module can be imported without the SDK."""


class Stale(Exception):
    """The server has forgotten this connection and did nothing: the request can be repeated on a new one."""


class Failure(Exception):
    """A failure of a server; the message is for people."""
