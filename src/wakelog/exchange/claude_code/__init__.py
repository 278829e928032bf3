"""The format of Claude Code: `reader.py` has what the rest of wakelog uses."""
