"""Ownership of a store's files: check owners and write permissions against the users and groups that are trusted.

Rule 1: a file or folder is private if this user owns it and neither its group nor others may write to it. Everything
else is an `Exposure`, unless `trusted_owners` covers it. ACLs need no separate rule: the group bits of the mode show
the most that an ACL grants.
Rule 2: a folder above the store may also belong to root or to the owner of the root folder, and may be writable by
others if it has the sticky bit, because they cannot replace its content then.
Rule 3: this module decides from the results of `stat` alone; only names of users and groups are looked up.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from wakelog.errors import Untrusted, UsageError
from wakelog.ports.stores import Exposure

Owners: TypeAlias = Sequence[str] | Callable[[], Sequence[str]]
"""Users and groups as `TrustedOwners.of` reads them, or a function that is called when something is not private."""
EVERYONE = "everyone"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OWNER_FORMS = 'name a user as "ada" or "uid:1000", a group as "group:agents" or "gid:1000"'


class TrustedOwners(msgspec.Struct, frozen=True):
    """The users and groups that are trusted like the user who runs wakelog. `everyone` switches all checks off."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()
    everyone: bool = False

    @classmethod
    def of(cls, owners: Iterable[str]) -> "TrustedOwners":
        """The users and groups of a list such as `["ada", "uid:1000", "group:agents"]`; `UsageError` for a bad one."""
        if isinstance(owners, str):
            raise UsageError("trusted_owners must be a list, not text", hint=f'write ["{owners}"]')
        words = tuple(owners)
        groups = {word: gid for word in words if (gid := _gid(word)) is not None}
        users = [word for word in words if word not in groups and word != EVERYONE]
        return cls(frozenset(map(_uid, users)), frozenset(groups.values()), EVERYONE in words)


def _gid(word: str) -> int | None:
    """The gid of a `group:NAME` or `gid:N` word; None for other words."""
    form, colon, name = word.partition(":")
    if not colon or form not in ("group", "gid"):
        return None
    if form == "gid" or name.isdecimal():
        return _parse_id(word, name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"trusted_owners: there is no group {name!r} on this system", hint=_OWNER_FORMS) from None


def _uid(word: str) -> int:
    """The uid of a user name, `uid:N` or number."""
    form, colon, name = word.partition(":")
    if (colon and form == "uid") or word.isdecimal():
        return _parse_id(word, name if colon else word)
    try:
        return pwd.getpwnam(word).pw_uid
    except (KeyError, ValueError):
        raise UsageError(f"trusted_owners: there is no user {word!r} on this system", hint=_OWNER_FORMS) from None


def _parse_id(word: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and int(digits) < 2**32):
        raise UsageError(f"trusted_owners: not a valid user or group id: {word!r}", hint=_OWNER_FORMS)
    return int(digits)


class OwnershipChecks:
    """Checks the files of one store. `noticed` collects files that were opened and are not private."""

    def __init__(self, owners: Owners = ()) -> None:
        self._owners = owners
        self._known: TrustedOwners | None = None
        self.noticed: dict[str, os.stat_result] = {}
        if not callable(owners):
            self._known = TrustedOwners.of(owners)

    @property
    def _trust(self) -> TrustedOwners:
        if self._known is None:
            self._known = TrustedOwners.of(self._owners() if callable(self._owners) else self._owners)
        return self._known

    def notice(self, path: str, found: os.stat_result) -> None:
        """Remember an opened file that is not private. Called on every open: two comparisons for a private file."""
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
            self.noticed[path] = found

    def noticed_exposures(self) -> list[Exposure]:
        """The exposures among the noticed files."""
        return [one for path, found in self.noticed.items() if (one := self.exposure(path, found)) is not None]

    def exposure(self, path: str, found: os.stat_result) -> Exposure | None:
        """The exposure of a file or folder of the store; None if there is none."""
        if found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE:
            return None
        owned = found.st_uid != os.geteuid() and found.st_uid not in self._trust.uids
        by_group = bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in self._trust.gids
        return self._make_exposure(path, found, owned=owned, by_group=by_group)

    def exposure_above(self, path: str, found: os.stat_result) -> Exposure | None:
        """The exposure of a folder above the store; None if there is none."""
        owners = (os.geteuid(), 0, os.stat(os.sep).st_uid)
        is_sticky = bool(found.st_mode & stat.S_ISVTX)
        if found.st_uid in owners and (is_sticky or not found.st_mode & _OTHERS_WRITE):
            return None
        owned = found.st_uid not in owners and found.st_uid not in self._trust.uids
        by_group = bool(found.st_mode & stat.S_IWGRP) and not is_sticky and not self._is_trusted_above(found.st_gid)
        return self._make_exposure(path, found, owned=owned, by_group=by_group, by_all=not is_sticky)

    def _is_trusted_above(self, gid: int) -> bool:
        return gid in self._trust.gids or _is_private_group(gid, os.geteuid())

    def _make_exposure(
        self, path: str, found: os.stat_result, *, owned: bool, by_group: bool, by_all: bool = True
    ) -> Exposure | None:
        by_all = by_all and bool(found.st_mode & stat.S_IWOTH)
        if self._trust.everyone or not (owned or by_group or by_all):
            return None
        mode = stat.S_IMODE(found.st_mode)
        reasons = [
            *([f"is owned by {user_name(found.st_uid)}"] if owned else []),
            *([f"can be written by the group {group_name(found.st_gid)}"] if by_group and not by_all else []),
            *(["can be written by all users"] if by_all else []),
        ]
        return Exposure(
            path=path,
            reason=f"{' and '.join(reasons)}, with mode {mode:04o}",
            remedy=_remedy(path, owned=owned, writable=by_group or by_all),
            uid=found.st_uid,
            gid=found.st_gid,
            mode=mode,
        )

    def check_owner(self, what: str, path: str, found: os.stat_result) -> None:
        """Raise `Untrusted` unless this user or a trusted one owns a folder or file that is about to be written to."""
        if found.st_uid != os.geteuid() and found.st_uid not in self._trust.uids and not self._trust.everyone:
            raise Untrusted(
                f"{what} {path} belongs to another user, {user_name(found.st_uid)}",
                hint="choose another store with --store, or name that user in `trusted_owners` of your configuration",
            )


def _remedy(path: str, *, owned: bool, writable: bool) -> str:
    quoted = shlex.quote(path)
    commands = [*([f"chown {os.geteuid()} {quoted}"] if owned else []), *([f"chmod go-w {quoted}"] if writable else [])]
    return " && ".join(commands)


def folders_above(path: str) -> Iterator[str]:
    """The folders above a path, the outermost first: those of the path as given, then those of the real path."""
    seen = dict.fromkeys((*_parents(os.path.abspath(path)), *_parents(os.path.realpath(path))))
    return iter(seen)


def _parents(path: str) -> list[str]:
    found = []
    while (above := os.path.dirname(path)) != path:
        found.append(above)
        path = above
    return found[::-1]


def _is_private_group(gid: int, uid: int) -> bool:
    """Whether a group is the user's own: it has the user's name and no other member."""
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except (KeyError, OverflowError):
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and set(group.gr_mem) <= {user.pw_name}


def user_name(uid: int) -> str:
    """A user for messages: `ada (uid 1000)`, or `uid 1000` where the id has no name."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except (KeyError, OverflowError):
        return f"uid {uid}"


def group_name(gid: int) -> str:
    """A group for messages: `agents (gid 1000)`, or `gid 1000` where the id has no name."""
    try:
        return f"{grp.getgrgid(gid).gr_name} (gid {gid})"
    except (KeyError, OverflowError):
        return f"gid {gid}"
