"""Session lists and full-text search over a store; derived from the logs, may be rebuilt at any time (law 2)."""
