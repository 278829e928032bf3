"""The log format: content, entries, encoding, seals, tree and reading from the end.

Pure: no clock, file, network or randomness.
Read in this order: content, entry, ids, codec, seal, lines, integrity, tree, tail. The others serve one purpose each:
session_names (names of sessions), timestamps, references (blobs and sessions that a log refers to), outline (the tree
of a log of any size) and clean_copy (a repaired copy of a log).
"""
