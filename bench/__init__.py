"""The cost of wakelog, as ratios to a floor measured in the same run on the same disk.

One file per concern; each yields `Figure`s. A floor is the least work that has the same effect, written out in the same
file. Floor and subject are run alternately, so that a noisy machine disturbs both alike. Nothing here is a test: a
missed goal is printed and stays in the table as missed.
"""
