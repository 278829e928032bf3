"""Sessions of other agents: reading their formats without loss, and importing them into a store.

One module for each format turns records into entries (`claude_code`, `codex`, `pi`, `opencode`). Readers are pure: they
get bytes or rows and return entries. `records` has what they read, `sessions` what they return.
"""
