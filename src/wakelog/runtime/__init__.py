"""The runtime: `wake` takes a session up, decides, acts and appends until there is nothing left to do.

Rule 1: each decision has one function here. It is given a step and reaches the outside only through its world.
Rule 2: what could be lost is written first: the model call before the request, `tool_started` before the tool runs, the
blob before the entry that names it. What is claimed is written last: the result, the reply, `sent`.
Rule 3: nothing here decides. A function does what the decision table said, and the table is asked again.

Read in this order: `world` (storage, clock, models, tools and channels as one value), `wake` (the loop), `step` (how
entries get into the log), `model_call`, `tool_run`, `delivery`, `compaction`, `subagents`, `journal_recovery`,
`lease_keeper`, and `live` (the world of a real process).
"""
