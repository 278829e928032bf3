"""What must hold when the disk, the process or the bytes go wrong, shown on real files with real processes.

`samples.py` makes logs, `processes.py` starts children, `children.py` is what they run. Every fault that a
test plans is counted where it happened, so that a harness which injects nothing cannot pass.
"""
