"""What it means: pure functions from a branch (or a tree) to a value. No clock, file, network or chance.

A view is never stored and never repaired: delete everything but the log and it comes out the same.
Read in this order: active, context, pending, state, overview, transcript, usage, memory.
"""
