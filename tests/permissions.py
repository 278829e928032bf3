"""Processes that permissions bind."""

import os


def bound() -> list[str]:
    """How to start a child that permissions bind: a superuser keeps the name and loses the powers."""
    return [] if os.geteuid() else ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
