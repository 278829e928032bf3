"""Commands of the command line, one module a command or a small family of commands.

Rule: these modules do not import each other; what they share is in `wakelog.app` or `wakelog.cli.ui`. A new command is
a function with the `command` decorator here, a row in the table of `wakelog.cli`, and a section in `docs/cli.md`.
"""
