"""What wakelog costs, as ratios to a floor measured in the same run on the same disk.

One file a concern; each gives `Figure`s. A floor is the least that anybody would have to do for the same
effect, written out plainly in the same file. Floor and subject take turns, so that a noisy machine
disturbs both alike. Nothing here is a test: a missed goal is printed and stays in the table as missed.
"""
