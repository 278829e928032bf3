"""The format of Aider: `reader.py` has what the rest of wakelog uses."""
