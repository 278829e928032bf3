"""Planted bugs, and the tests that must notice them: `python -m tests.mutants` plants each and expects red.

A mutant replaces one piece of a function, found by its syntax tree (`locate.py`): moved code, line breaks, comments
and messages do not matter. If the piece is not there exactly once, the mutant fails loudly and has to follow the
code. Each names the law or requirement it breaks and the tests that defend it; all of those must turn red, and all
must be green without any mutant.
"""
