"""Decisions: pure functions from the log to what the runtime does next. No clock, file, network or randomness.

Read in this order: `policy` (the policy in force), `decisions` (the snapshot a decision is made from, and the possible
decisions as values), `table` (the rules of the decision table), `open_tool_calls` (the rules for one open tool call),
`retries` (failed model calls and deliveries), `compaction`, `damage`, then `assembly` (from deltas and journals to
parts), `timing` (retry delays and lease terms) and `wording`.
"""
