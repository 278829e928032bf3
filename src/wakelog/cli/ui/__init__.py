"""Terminal input and output that commands share: options, errors, text, drawing, running a session.

Rule: no module here imports a module of `cli.commands`, `cli.chat` or `cli.demo`.
"""
