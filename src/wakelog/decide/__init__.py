"""Decisions: pure functions from the log to what the runtime does next. No clock, file, network or randomness.

Read in this order: `policy` (the settings in force), `decisions` (what can be decided, as values), `snapshot` (what a
decision looks at), `table` (the rows of the decision table), `open_tool_calls` (the rows for one tool call), then
`assemble` (from deltas to a reply), `compaction` (which messages a summary replaces) and `wording`.
"""
