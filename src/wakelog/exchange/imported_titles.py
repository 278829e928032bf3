"""Titles of an imported session: those of the tool, and those that a person gave here, which stay in force."""

import itertools
from collections.abc import Iterable


class ImportedTitles:
    """The titles that a session has had, by the ids of their entries, and which of them were given here."""

    def __init__(self) -> None:
        self._titles: dict[str, str | None] = {}
        self._given_here: dict[str, str | None] = {}
        self._last_stored = ""
        self.last_imported: str | None = None

    def __contains__(self, entry: str) -> bool:
        return entry in self._titles

    def of(self, entry: str) -> str | None:
        """Return the title that an entry gave."""
        return self._titles.get(entry)

    def add(self, entry: str, title: str | None) -> None:
        """Add the title of an entry of the stored session. It was given here unless it is found in the source."""
        is_header = not self._titles
        self._titles[entry], self._last_stored = title, entry
        if not is_header:
            self._given_here[entry] = title

    def imported_before(self, entries: Iterable[str]) -> None:
        """Note the entries that earlier imports made, up to the first that is not there."""
        for entry in itertools.takewhile(self.__contains__, entries):
            self._given_here.pop(entry, None)

    def imported(self, entry: str, title: str | None) -> None:
        """Note a title of the source."""
        self._given_here.pop(entry, None)
        self._titles[entry] = self.last_imported = title

    @property
    def given_here(self) -> str | None:
        """The title in force if a person gave it here."""
        return self._given_here.get(self._last_stored)
