"""Child processes: run a command under a supervisor that ends every process the command started.

Read `supervisor` first (a program of its own: it runs one command and kills what is left of it), then `command`
(start a command, read its output as it comes, keep the beginning and end of it, stop the command).
"""
