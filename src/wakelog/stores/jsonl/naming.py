"""How session files get their names and are found again: numbers for people, links for ids and titles.

    {agent}_{sender}_{n}.jsonl            a log
    by-id/ID        → ../NAME.jsonl       made before the log, believed only if its first line agrees
    by-title/TITLE--NAME.jsonl → ../NAME.jsonl

Links are hints: without them every session is still found, by name or by reading first lines. They are
never followed; only the name in them is used, and only if it is one of this folder's.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from wakelog.errors import BadId, Conflict, NoAccess, NotFound
from wakelog.log.codec import id_of
from wakelog.log.ids import checked_id, is_id, slug, stem
from wakelog.stores.files import LOG_SUFFIX, Folder, checked_name, storage, sync_folder, write_all

_NUMBERS_MAX = 1_000_000
_FIRST_LINE_BYTES = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class Naming:
    """The names of one folder's sessions."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        self._last_number: dict[str, int] = {}

    # ── creating ─────────────────────────────────────────────────────────────────────────────────

    def create(self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes]) -> str:
        """A durable file for a session under the next free number; one that exists is left as it is."""
        checked_id(session)
        with self._creating():
            with contextlib.suppress(NotFound):
                name = self._linked_name(session)
                # Nobody knows whether whoever made it came as far as to sync the folders.
                self._sync()
                return name
            return self._numbered(session, f"{slug(agent)}_{slug(sender)}_", first_line)

    def adopt(self, session: str, name: str, content: bytes) -> str | None:
        """A durable file for a session kept elsewhere, under its name or the next free number; None if it is here."""
        checked_id(session)
        checked_name(name)
        with self._creating():
            with contextlib.suppress(NotFound):
                self._linked_name(session)
                return None
            if self._is_created(session, name, content):
                return name
            return self._numbered(session, stem(name), lambda _: content)

    def _numbered(self, session: str, prefix: str, first_line: Callable[[int], bytes]) -> str:
        for number in range(self._next_number(prefix), _NUMBERS_MAX):
            if self._is_created(session, f"{prefix}{number}", first_line(number)):
                self._last_number[prefix] = number
                return f"{prefix}{number}"
        raise Conflict(f"{prefix}N has no free number left")

    @contextlib.contextmanager
    def _creating(self) -> Iterator[None]:
        """One creator at a time, so that one id is never given to two files."""
        was_there = os.path.isdir(self._folder.inside("by-id"))
        path = self._folder.make("by-id")
        with storage(f"create a session in {self._folder.path}"):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if not was_there:
                    self._link_all()
                yield
            finally:
                os.close(descriptor)

    def _link_all(self) -> None:
        """Makes the links of every log anew, after somebody has removed them all: ids that are taken stay taken."""
        for entry in self._folder.log_names():
            name = entry.name.removesuffix(LOG_SUFFIX)
            session = self._id_of(name)
            if session is not None and is_id(session):
                self._point("by-id", session, name)

    def _next_number(self, prefix: str) -> int:
        """One more than the highest in use. What others took since we last looked is met when linking."""
        if prefix in self._last_number:
            return self._last_number[prefix] + 1
        names = (entry.name for entry in self._folder.log_names() if entry.name.startswith(prefix))
        numbers = (name[len(prefix) : -len(LOG_SUFFIX)] for name in names)
        return 1 + max((int(number) for number in numbers if number.isdigit()), default=0)

    def _is_created(self, session: str, name: str, content: bytes) -> bool:
        """Writes a draft and links it to its name in one step; False if somebody has that name already."""
        draft = os.path.join(self._folder.path, f".new-{session}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
            self._point("by-id", session, name)
            os.link(draft, self._folder.log_path(name))
        except FileExistsError:
            return False
        finally:
            os.close(descriptor)
            os.unlink(draft)
        self._sync()
        return True

    def _sync(self) -> None:
        """Makes the names durable: the log's, and the link's to it."""
        sync_folder(self._folder.path)
        sync_folder(os.path.join(self._folder.path, "by-id"))

    def _point(self, folder: str, link: str, name: str) -> None:
        """Points a link at a log, as a whole or not at all."""
        path = os.path.join(self._folder.path, folder, link)
        fresh = os.path.join(self._folder.path, folder, f".{os.getpid()}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(f"../{name}{LOG_SUFFIX}", fresh)
        os.replace(fresh, path)

    def entitle(self, name: str, title: str) -> None:
        """Keeps `by-title/` in step: one link, named after the last title."""
        with storage("link the title"):
            folder = self._folder.make("by-title")
            ending = f"--{name}{LOG_SUFFIX}"
            for old in os.listdir(folder):
                if old.endswith(ending):
                    os.unlink(os.path.join(folder, old))
            if title:
                self._point("by-title", slug(title) + ending, name)

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def name(self, session: str) -> str:
        """The name of a session: by `by-id`, as a name, or by reading the first line of every log."""
        if session in self._names:
            return self._names[session]
        if not is_id(session):
            raise BadId(f"not a session id or name: {session[:60]!r}")
        for way in (self._linked_name, self._plain_name, self._searched_name):
            # An id may be one that no file can be named after.
            with contextlib.suppress(NotFound, BadId):
                self._names[session] = way(session)
                return self._names[session]
        if ".." in session and os.path.lexists(os.path.join(self._folder.path, session + LOG_SUFFIX)):
            raise BadId(f"{session} is no name for a log", hint="rename its file: no two dots may follow each other")
        raise NotFound(f"no session {session} in {self._folder.path}")

    def forget(self) -> None:
        """Forgets what was found, so that it is looked for again."""
        self._names.clear()

    def _linked_name(self, session: str) -> str:
        try:
            target = os.readlink(os.path.join(self._folder.path, "by-id", session))
        except OSError:
            raise NotFound(session) from None
        name = target.removeprefix("../").removesuffix(LOG_SUFFIX)
        if target != f"../{name}{LOG_SUFFIX}" or not is_id(name) or self._id_of(name) not in (session, None):
            raise NotFound(session)
        return self._plain_name(name)

    def _plain_name(self, session: str) -> str:
        os.close(self._folder.open_log(session))
        return session

    def _searched_name(self, session: str) -> str:
        for entry in self._folder.log_names():
            name = entry.name.removesuffix(LOG_SUFFIX)
            if self._id_of(name) == session:
                return name
        raise NotFound(session)

    def _id_of(self, name: str) -> str | None:
        """The session id in a log's first line; None where that cannot be read, or not by this user."""
        try:
            log = self._folder.open_log(name)
        except (NotFound, NoAccess):
            return None
        try:
            return id_of(os.pread(log, _FIRST_LINE_BYTES, 0).partition(b"\n")[0].removeprefix(_BOM))
        finally:
            os.close(log)
