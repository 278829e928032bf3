"""The format of pi: `reader.py` has what the rest of wakelog uses."""
