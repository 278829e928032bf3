"""docs/decide.md is the table itself."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_is_printed_from_the_rows():
    """DESIGN 5: the table in the documents is the table in the code."""
    spec = importlib.util.spec_from_file_location("table", DOCS / "table.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "decide.md").read_text() == module.page(), "run `python docs/table.py`"
