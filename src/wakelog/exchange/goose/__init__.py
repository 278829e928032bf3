"""The format of Goose: `reader.py` and `writer.py` have what the rest of wakelog uses."""
