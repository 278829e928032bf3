"""Plain lists of messages, as model APIs take them: `reader.py` has what the rest of wakelog uses."""
