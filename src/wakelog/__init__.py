"""The session log that AI agents wake from."""
