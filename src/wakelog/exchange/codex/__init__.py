"""The format of Codex: `reader.py` has what the rest of wakelog uses."""
