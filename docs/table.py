"""Prints the decision table into docs/decide.md, from the rows themselves: `python docs/table.py`."""

from pathlib import Path

from wakelog.decide.open_tool_calls import TOOL_CALL_RULES
from wakelog.decide.table import DECISION_RULES

_ABOUT = """\
# What is decided

Printed from the code by `python docs/table.py`; a test compares it. The function is `wakelog.decide.table.decide`: it
sees the log, the policy in force, the time and the channels in reach, and nothing else. Starting, going on and coming
back after a crash are this one table. Rows are read from the top and the first that fits wins; `tests/cases/` has a
log for each.

"""
_BETWEEN = """
Open calls are judged one by one, each by the first of these rows that fits. Whatever can move, moves, and calls that
run, run side by side; waiting is the answer only when none can move.

"""
_BEHIND = """
The first entry of a step is appended directly after the entries that the decision was based on, or not at all: then the
session decides again. `src/wakelog/decide/policy.py` holds every limit and what happens at it; `src/wakelog/runtime/`
holds what each decision does.
"""


def page() -> str:
    """The whole page."""
    return (
        _ABOUT + _table("the branch …", DECISION_RULES) + _BETWEEN + _table("an open call …", TOOL_CALL_RULES) + _BEHIND
    )


def _table(head: str, rows: tuple) -> str:
    lines = [f"| row | {head} | then |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.name} | {row.when} | {row.then} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "decide.md").write_text(page())
