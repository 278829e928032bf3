"""Tests with failing disks, killed processes and damaged bytes, on real files with real processes.

`samples.py` makes logs, `processes.py` starts children, `children.py` is what they run. Every fault that a
test plans is counted where it happened, so that a harness which injects nothing cannot pass.
"""
