"""The options of pytest for real tools: which of them are tested, and whether the crash comparison is written."""

import pytest

from tests.real_tools.pinned import PINNED

MARK = "real_tools"


def pytest_addoption(parser: pytest.Parser) -> None:
    names = ", ".join(PINNED)
    parser.addoption("--tools", default="all", help=f"the real tools to test, separated by blanks: all, {names}")
    parser.addoption("--write-comparison", action="store_true", help="write docs/crash-comparison.md")


def chosen_tools(names: str) -> list[str]:
    """Return the names of the tools to test; `UsageError` of pytest for an unknown one."""
    asked = names.replace(",", " ").split()
    unknown = [name for name in asked if name not in (*PINNED, "all")]
    if unknown:
        raise pytest.UsageError(f"no tool is called {unknown[0]!r}; there are {', '.join(PINNED)}")
    return list(PINNED) if "all" in asked else asked


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of tools that were not asked for. A mark without a tool belongs to all of them."""
    chosen = chosen_tools(str(config.getoption("--tools")))
    left_out = [item for item in items if not _is_chosen(item, chosen)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_chosen(item: pytest.Item, chosen: list[str]) -> bool:
    mark = item.get_closest_marker(MARK)
    return mark is None or not mark.args or mark.args[0] in chosen
