"""Projections: pure functions from a branch or a tree to a value. No clock, file, network or randomness.

A projection is never stored and never repaired: everything but the log can be deleted, and the values stay the same.
Read in this order: active, context, pending, state, overview, transcript, usage, memory.
"""
