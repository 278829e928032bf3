"""Projections: pure functions over a tree or branch. Everything that is shown or decided is derived here from the log.

Read in this order: queue, usage, branch_state, session_state, context, pending, overview, transcript. `overview_stream`
computes overviews of logs that are too long for a tree; `losses` and `context_changes` serve damage reports and
comparisons of requests.
"""
