"""Sessions of other agents: reading their formats without loss, and importing them into a store.

One package for each format turns records into entries (`claude_code`, `codex`, `pi`, `opencode`; `openclaw` is pi with
more in it). Readers are pure: they get bytes or rows and return entries. `records` has what they read, `sessions` what
they return; `detection`, `files`, `places`, `importing` and `sync` open files and write to stores.
"""
