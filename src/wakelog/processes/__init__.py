"""Child processes: run a command under a supervisor that ends every process the command started.

Read in this order: `supervisor` (a program of its own: it runs one command and kills what is left of it), `command`
(start a command, read its output as it comes, stop it), `output` (decode output and keep its beginning and end).
"""
