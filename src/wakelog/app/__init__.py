"""Application layer: what every front end needs (command line, chat, viewer, worker, library user).

Rule 1: no module here imports `click` or `wakelog.cli`, or writes to stdout or stderr. Notices and progress go through
`notices`; the front end decides how to show them.
Rule 2: no module here imports another one on behalf of a caller: start-up time matters, so import the module you need.
Reading order: stores, addresses, settings, models, runner, approvals.
"""
