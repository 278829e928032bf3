"""The format of Gemini CLI: `reader.py` and `writer.py` have what the rest of wakelog uses."""
