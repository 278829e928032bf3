"""The recording API behind `Session`: a log for agent loops that wakelog does not run.

`replies` turns the responses of model APIs into replies, `requests` turns the log into request messages, `tool_runs`
and `streams` write what happens between two replies, `recovery` settles what a crash left open, and `held_lease` keeps
other processes out meanwhile.
"""
