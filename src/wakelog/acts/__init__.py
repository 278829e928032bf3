"""Doing it: each decision has one act, and each act touches the world in an order that a crash cannot spoil.

Rule 1: an act is given a step, and reaches the outside only through its world.
Rule 2: what could be lost is written first: the call before the request, `tool_started` before the effect, the
blob before the entry that names it; and what is claimed is written last: the result, the reply, `sent`.
Rule 3: no act decides anything. It does what the table said, and the table looks again.
"""
