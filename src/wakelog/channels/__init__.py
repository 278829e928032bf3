"""Showing it: where replies are delivered, each channel behind the same port, each judged by the same suite.

A channel is handed text at offsets, and what it has already is not shown again: a repeat is harmless
and carries the same reply id. Whoever delivers appends `sent` only after `end` has returned, so a channel
that cannot show something raises, and never returns as if it had: the whole reply then comes again later.
Channels know nothing of sessions, and nothing of each other; what they share is the counting of offsets.
"""
