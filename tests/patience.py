"""Limits after which a waiting test fails. No result depends on them: other programs may keep the machine busy.

A run that expects failures, such as that of the planted bugs, sets a shorter limit in its environment.
"""

import os

PATIENCE_VARIABLE = "WAKELOG_TEST_PATIENCE_S"
PATIENCE_S = int(os.environ.get(PATIENCE_VARIABLE, "600"))
