"""Channels: where replies are delivered. All implement the same port and pass the same test suite.

A channel gets text at offsets and does not show again what it has already, so a repeat is harmless; it has the same
reply id. `sent` is appended only after `end` has returned, so a channel that cannot show something must raise: the
whole reply is then delivered again later. Channels know nothing of sessions. Read `offsets` (which text is new),
then `in_process` (callback and memory) and `terminal`.
"""
