"""Demos: real commands, run in a temporary store without a network or a key."""
