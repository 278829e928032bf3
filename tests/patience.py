"""Limits after which a waiting test fails. No result depends on them: other programs may keep the machine busy."""

PATIENCE_S = 600
