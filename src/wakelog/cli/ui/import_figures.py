"""Lines of an imported session: where it comes from, and what was not imported of it."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wakelog.cli.ui.quantities import counted
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.cli.ui.terminal import TerminalStyle
from wakelog.log.entry import Custom
from wakelog.projections.branch_state import IMPORTED_SETTING
from wakelog.projections.session_state import IMPORT_TYPE
from wakelog.reading import Log

_LOSSES_SHOWN = 8


def import_lines(look: TerminalStyle, log: Log) -> Iterator[str]:
    """Yield where an imported session comes from, and what was not imported of it."""
    entries = (entry.value for entry in log.entries if isinstance(entry.value, Custom))
    *_, last = (None, *(entry.data for entry in entries if entry.custom_type == IMPORT_TYPE))
    if not isinstance(last, dict):
        return
    figures = ImportFigures.of(last)
    yield look.paint("dim", visible(figures.summary))
    for line in figures.not_imported[:_LOSSES_SHOWN]:
        yield look.paint("dim", f"  {first_line(line)}")
    if len(figures.not_imported) > _LOSSES_SHOWN:
        yield look.paint("dim", f"  and {len(figures.not_imported) - _LOSSES_SHOWN:,} more")


def verbatim_records(log: Log) -> frozenset[str]:
    """Return the ids of entries that only keep a record of another agent, or the figures of its import."""
    tool = log.tree.header.settings.get(IMPORTED_SETTING)
    if not isinstance(tool, str):
        return frozenset()
    customs = (entry.value for entry in log.entries if isinstance(entry.value, Custom))
    return frozenset(
        custom.id
        for custom in customs
        if custom.custom_type == IMPORT_TYPE or (custom.custom_type.startswith(f"{tool}:") and not custom.in_context)
    )


class ImportFigures(NamedTuple):
    """What the entry of an import says: where the session comes from, and what became of its records."""

    summary: str
    not_imported: tuple[str, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "ImportFigures":
        """Read the data of the entry, which is as untrusted as everything that is stored."""
        origin = " ".join(str(data.get(key) or "") for key in ("tool", "version")).strip()
        read, mapped, kept = (_count(data.get(key)) for key in ("read", "mapped", "verbatim"))
        shares = f": {mapped:,} of {read:,} records are entries, {kept:,} are kept verbatim (--full)" if read else ""
        skipped = [
            f"{counted(_count(each.get('count')), str(each.get('kind')))} not imported: {each.get('reason')}"
            for each in _objects(data.get("skipped"))
        ]
        bad = [
            f"line {_count(each.get('line')):,} not imported: {each.get('reason')}"
            for each in _objects(data.get("bad"))
        ]
        return cls(f"imported from {origin}{shares}", (*skipped, *bad))


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
