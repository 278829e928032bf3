"""Redaction: secrets are replaced with a mark before anything is written or displayed. Pure functions.

Read in this order: `shapes` (how a kind of secret is described), `key_shapes` (secrets known by their form),
`assignments` and `assignment_values` (secrets known by the name they are assigned to), `contexts` (secrets known by the
text around them), `known_values` (secrets known by their value), `scanner` (where in a text a secret may begin),
`colour_codes` (what is no part of a text), `redactor` (a text without its secrets, also while it is streamed),
`entries` (which strings of an entry are redacted).
"""
