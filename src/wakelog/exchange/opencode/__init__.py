"""The format of OpenCode: `reader.py` has what the rest of wakelog uses."""
