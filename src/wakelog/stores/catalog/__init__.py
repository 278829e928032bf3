"""Lists and full-text search over all sessions of a store: derived, thrown away and made anew at any time (law 2)."""
