"""docs/decide.md is printed from the decision table."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_is_printed_from_the_rows():
    """RUN-4: the table in the documents is the table in the code."""
    spec = importlib.util.spec_from_file_location("table", DOCS / "table.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "decide.md").read_text() == module.page(), "run `python docs/table.py`"
