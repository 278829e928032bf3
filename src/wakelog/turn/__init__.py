"""What next: pure functions from what the log says to what is to be done. No clock, file, network or chance.

Read in this order: policy (what was agreed), decisions (what can be done), decide (what is done now),
then assemble (from deltas to a reply), compaction (what a summary may stand for) and words.
"""
