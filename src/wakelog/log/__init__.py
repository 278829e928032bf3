"""The log format: entries, encoding, seals, tree and reading. Pure: no clock, file, network or randomness.

Read in this order: content, entry, ids, codec, seal, lines, end, tree, tail, proof.
"""
