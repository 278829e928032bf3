"""The agent runtime: `wake` loads a session, decides, acts and appends until there is nothing left to do.

Rule 1: each decision has one function here. It gets a `Step`; besides the log it uses only the `Runtime` of that step.
Rule 2: an entry that announces an effect is written before it: the model call before the request, `tool_started`
before the tool runs; a blob before the entry that names it. An entry that reports an effect is written after it: the
result, the reply, `sent`.
Rule 3: this package makes no decisions. A function carries out one decision of the table; then the table decides again.

Read in this order: `interface` (store, clock, models, tools and channels as one object), `wake` (the loop), `step` (how
entries get into the log), `model_call`, `tool_run`, `actions`, `compaction`, `lease`, `subagents`, `live` (the runtime
of a real process) and `replay` (a runtime that answers from the log).
"""
