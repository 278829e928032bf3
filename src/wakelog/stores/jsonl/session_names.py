"""Session names: name new log files, and find logs by id, name or title.

    {agent}_{sender}_{n}.jsonl            a log
    by-id/ID        → ../NAME.jsonl       created before the log; used unless the log's header has another id
    by-title/TITLE--NAME.jsonl → ../NAME.jsonl

Links are hints: without them every session is still found, by name or by reading first lines. They are
never followed; only the name in the link target is used, and only if it is a log of this folder.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping

from wakelog.errors import BadId, Conflict, NoAccess, NotFound
from wakelog.log.codec import LINE_MAX_BYTES, id_of
from wakelog.log.ids import checked_id, is_id
from wakelog.log.lines import split_lines
from wakelog.log.recovered_header import session_id_in
from wakelog.log.seal import is_changed_header
from wakelog.log.session_names import is_name, name_stem, split_name, title_part
from wakelog.ports.stores import FirstLine
from wakelog.stores.files import storage, sync_folder, write_all
from wakelog.stores.jsonl.folder import LOG_SUFFIX, Folder, blocks, checked_name, encodable
from wakelog.stores.session_numbers import NUMBERS_MAX, last_old_number

_FIRST_LINE_BYTES = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class SessionNames:
    """The session names of one store folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        self._last_number: dict[str, int] = {}
        # The files (name and inode) whose ids a search has read, and the names by id: a search reads new logs only.
        self._searched: set[tuple[str, int]] = set()
        self._found: dict[str, str] = {}
        # What one listing has found, while the folders are listed only once: see `listed_once`.
        self._listings = 0
        self._is_listed = False
        self._titled: dict[str, list[str]] | None = None

    # ── creating ─────────────────────────────────────────────────────────────────────────────────

    def create(self, session: str, agent: str, sender: str, content: Callable[[int], bytes]) -> str:
        """Create a session's log durably under the next free number, unless the session exists; return its name.

        `content` gets the number and returns the lines.
        """
        checked_id(session)
        with self._creating():
            with contextlib.suppress(NotFound):
                name = self._linked_name(session)
                # The process that created it may have died before it synced the folders.
                self._sync()
                return name
            stem = name_stem(agent, sender)
            last = self._last(stem) or last_old_number(self.first_lines, agent, sender)
            return self._numbered(session, stem, last, content)

    def adopt(self, session: str, name: str, content: bytes) -> str | None:
        """Create the log of a session copied from another store, durably, under this name or the next free number.

        Returns the name, or None if the session exists already.
        """
        checked_id(session)
        checked_name(name)
        with self._creating():
            with contextlib.suppress(NotFound):
                self._linked_name(session)
                return None
            stem, _ = split_name(name)
            if self._is_created(session, name, content):
                # The adopted number may be higher than the cached last number.
                self._last_number.pop(stem, None)
                return name
            return self._numbered(session, stem, self._last(stem), lambda _: content)

    def _numbered(self, session: str, stem: str, last: int, content: Callable[[int], bytes]) -> str:
        for number in range(last + 1, NUMBERS_MAX):
            name = f"{stem}{number}"
            # The cached last number may be out of date. No link is made for a number that is known to be taken.
            if not os.path.lexists(self._folder.log_path(name)) and self._is_created(session, name, content(number)):
                self._last_number[stem] = number
                return name
        raise Conflict(f"{stem}N: all session numbers are used")

    @contextlib.contextmanager
    def _creating(self) -> Iterator[None]:
        """Hold the lock for creating sessions, so that no two logs get the same id."""
        was_there = os.path.isdir(self._folder.inside("by-id"))
        path = self._folder.make("by-id")
        with storage(f"create a session in {self._folder.path}"):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._folder.lock(descriptor, fcntl.LOCK_EX, f"the lock for new sessions in {self._folder.path}")
                if not was_there:
                    self._link_all()
                yield
            finally:
                os.close(descriptor)

    def _link_all(self) -> None:
        """Recreate the id links of all logs after `by-id/` was removed, so that ids in use are not used again."""
        for session, name in self._ids():
            self._link("by-id", session, name)

    def _ids(self, without: Collection[str | None] = ()) -> Iterator[tuple[str, str]]:
        """The session id and the name of every log, read from its first line; logs named in `without` are skipped."""
        for entry in self._folder.log_names():
            name = entry.name.removesuffix(LOG_SUFFIX)
            session = self._id_of(name) if name not in without else None
            if session is not None and is_id(session):
                yield session, name

    def _last(self, stem: str) -> int:
        """The highest number in use, or 0; cached. A number that another process took meanwhile fails in `os.link`."""
        if stem in self._last_number:
            return self._last_number[stem]
        return max((number for number, _ in self._numbers(stem)), default=0)

    def _numbers(self, stem: str) -> Iterator[tuple[int, str]]:
        """The number and name of every log whose name is `stem` and a number."""
        for entry in self._folder.log_names(stem):
            name = entry.name.removesuffix(LOG_SUFFIX)
            found, number = split_name(name)
            if found == stem and number is not None:
                yield number, name

    def _is_created(self, session: str, name: str, content: bytes) -> bool:
        """Write a synced draft and link it to its name atomically; False if the name is taken."""
        path = self._folder.log_path(name)
        draft = os.path.join(self._folder.path, f".new-{session}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
            self._link("by-id", session, name)
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            os.close(descriptor)
            os.unlink(draft)
        self._sync()
        return True

    def _sync(self) -> None:
        """Make the names of logs and id links durable."""
        sync_folder(self._folder.path)
        sync_folder(os.path.join(self._folder.path, "by-id"))

    def _link(self, folder: str, link: str, name: str) -> None:
        """Create or replace a link to a log atomically."""
        path = os.path.join(self._folder.path, folder, link)
        fresh = os.path.join(self._folder.path, folder, f".{os.getpid()}-{threading.get_ident()}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(f"../{name}{LOG_SUFFIX}", fresh)
        os.replace(fresh, path)

    def set_title(self, name: str, title: str) -> None:
        """Update `by-title/`: one link for each log, named after its last title."""
        with storage("link the title"):
            self._folder.make("by-title")
            if self._listings and self._titled is None:
                self._titled = self._title_links()
            links = self._title_links(name) if self._titled is None else self._titled
            self._retitle(name, title, links.get(name, []))
            if self._titled is not None:
                self._titled[name] = [_title_link(title, name)] if title else []

    def _retitle(self, name: str, title: str, links: list[str]) -> None:
        for link in links:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder.path, "by-title", link))
        if title:
            self._link("by-title", _title_link(title, name), name)

    def _title_links(self, name: str = "") -> dict[str, list[str]]:
        """The links in `by-title/` by the log they point at; with a `name`, only links that end with it."""
        folder, found = self._folder.inside("by-title"), dict[str, list[str]]()
        for link in os.listdir(folder):
            target = _link_target(os.path.join(folder, link)) if link.endswith(f"{name}{LOG_SUFFIX}") else None
            if target is not None:
                found.setdefault(target, []).append(link)
        return found

    # ── repairing links ──────────────────────────────────────────────────────────────────────────

    def relink(self, titles: Mapping[str, str]) -> list[str]:
        """Create missing links; `titles` are by session name. Returns the paths of the new links."""
        with storage("create the missing links"):
            return [*self._relink_ids(), *self._relink_titles(titles)]

    def _relink_ids(self) -> Iterator[str]:
        folder = self._folder.inside("by-id")
        links = os.listdir(folder) if os.path.isdir(folder) else []
        linked = {_link_target(os.path.join(folder, link)) for link in links}
        missing = list(self._ids(without=linked))
        if not missing:
            return
        with self._creating():
            for session, name in missing:
                target = _link_target(os.path.join(folder, session))
                # If two logs have the same id, only one of them can be linked.
                if target is None or target == name or self._id_of(target) != session:
                    self._link("by-id", session, name)
                    yield os.path.join("by-id", session)

    def _relink_titles(self, titles: Mapping[str, str]) -> Iterator[str]:
        if not titles:
            return
        self._folder.make("by-title")
        links = self._title_links()
        for name, title in titles.items():
            link = _title_link(title, name)
            if title and link not in links.get(name, []):
                self._retitle(name, title, links.get(name, []))
                yield os.path.join("by-title", link)

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """See `ports.Store`."""
        for _, name in sorted(self._numbers(stem), reverse=True):
            try:
                first = FirstLine(name, self._first_line(name))
            except NotFound:
                continue
            yield first

    def name(self, session: str) -> str:
        """The name of a session, found in `by-id/`, as a name, or by reading the first line of every log; cached."""
        if session in self._names:
            return self._names[session]
        if not is_name(session):
            raise BadId(f"not a session id or name: {session[:60]!r}")
        for find in (self._linked_name, self._plain_name, self._searched_name):
            # An id need not be valid as a file name.
            with contextlib.suppress(NotFound, BadId):
                self._names[session] = find(session)
                return self._names[session]
        if ".." in session and os.path.lexists(os.path.join(self._folder.path, session + LOG_SUFFIX)):
            raise BadId(
                f"not a session name: {session[:60]!r}",
                hint="rename its file: a file name must not contain two consecutive dots",
            )
        raise NotFound(f"no session {session} in {self._folder.path}")

    @contextlib.contextmanager
    def listed_once(self) -> Iterator[None]:
        """List the folders of logs and titles at most once in this context, for many sessions that are created."""
        self._listings += 1
        try:
            yield
        finally:
            self._listings -= 1
            if not self._listings:
                self._is_listed, self._titled = False, None

    def forget(self) -> None:
        """Clear the cache of names found."""
        self._names.clear()
        self._searched.clear()
        self._found.clear()

    def _linked_name(self, session: str) -> str:
        name = _link_target(os.path.join(self._folder.path, "by-id", session))
        # A copy of a session whose header was changed is linked under the id that the header has now.
        if name is None or (self._id_of(name) not in (session, None) and id_of(self._first_line(name)) != session):
            raise NotFound(session)
        return self._plain_name(name)

    def _plain_name(self, session: str) -> str:
        os.close(self._folder.open_log(session))
        return session

    def _searched_name(self, session: str) -> str:
        self._read_new_ids()
        name = self._found.get(session)
        if name is not None and self._id_of(name) != session:
            # The log was removed or replaced by hand.
            self._searched.clear()
            self._found.clear()
            self._is_listed = False
            self._read_new_ids()
            name = self._found.get(session)
        if name is None:
            raise NotFound(session)
        return name

    def _read_new_ids(self) -> None:
        """Read the ids of the logs that no search has read yet. Fast if there are none: imports ask often."""
        if self._listings and self._is_listed:
            return
        self._is_listed = True
        searched = self._searched
        with storage(f"list {self._folder.path}"):
            try:
                entries = os.scandir(self._folder.path)
            except FileNotFoundError:
                return
        with entries:
            new = [entry for entry in entries if (entry.name, entry.inode()) not in searched]
        for entry in new:
            name = entry.name.removesuffix(LOG_SUFFIX)
            is_log = name != entry.name and is_name(name) and entry.is_file(follow_symlinks=False)
            session = self._id_of(name) if is_log else None
            if session is not None:
                searched.add((entry.name, entry.inode()))
                self._found.setdefault(session, name)

    def _id_of(self, name: str) -> str | None:
        """The session id in a log's first line, or in the entry after a damaged one.

        None if the log has none, or this user cannot read it.
        """
        try:
            first = self._first_line(name)
            named = id_of(first)
            if named is None or is_changed_header(first):
                with self._opened(name) as log:
                    named = session_id_in(split_lines(blocks(log, 0, LINE_MAX_BYTES))) or named
        except (NotFound, NoAccess):
            return None
        return named

    def _first_line(self, name: str) -> bytes:
        """The first line of a log, without LF and byte order mark."""
        with self._opened(name) as log:
            first = os.pread(log, _FIRST_LINE_BYTES, 0)
            if b"\n" not in first and len(first) == _FIRST_LINE_BYTES:
                first = next(line.raw for line in split_lines(blocks(log, 0, LINE_MAX_BYTES)))
            return first.partition(b"\n")[0].removeprefix(_BOM)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        log = self._folder.open_log(name)
        try:
            yield log
        finally:
            os.close(log)


def _title_link(title: str, name: str) -> str:
    return encodable(f"{title_part(title)}--{name}{LOG_SUFFIX}")


def _link_target(link: str) -> str | None:
    """The name of the log that a link points at; None if the link is missing or does not point at a log."""
    try:
        target = os.readlink(link)
    except OSError:
        return None
    name = target.removeprefix("../").removesuffix(LOG_SUFFIX)
    return name if target == f"../{name}{LOG_SUFFIX}" and is_name(name) else None
