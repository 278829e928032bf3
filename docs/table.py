"""Print the decision table into docs/decide.md, from the rules in the code: `python docs/table.py`."""

from pathlib import Path

from wakelog.decide.open_tool_calls import TOOL_CALL_RULES
from wakelog.decide.table import DECISION_RULES

_ABOUT = """\
# The decision table

This page is printed from the code by `python docs/table.py`; a test compares both. `wakelog.decide.table.decide` is a
pure function of the log, the policy in force, the time and the reachable channels. Starting a session, continuing it
and recovering it after a crash use the same table. The first rule that matches decides; `tests/cases/` has a log for
each. The decisions in the last column are the classes of `wakelog.decide.decisions`.

"""
_BETWEEN = """
Open tool calls are decided one by one, each by the first of these rules that matches. Tools that can run do so
concurrently. The decision is to wait only if no open tool call can proceed.

"""
_BEHIND = """
The first entry of a step is appended directly after the entries that the decision was based on, or not at all: then the
session decides again. `src/wakelog/decide/policy.py` has the limits and what happens at each; `src/wakelog/runtime/`
carries out the decisions.
"""


def page() -> str:
    """The whole page."""
    return (
        _ABOUT
        + _table("the branch …", DECISION_RULES)
        + _BETWEEN
        + _table("an open tool call …", TOOL_CALL_RULES)
        + _BEHIND
    )


def _table(head: str, rows: tuple) -> str:
    lines = [f"| rule | {head} | decision |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.name} | {row.when} | {row.then} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "decide.md").write_text(page())
