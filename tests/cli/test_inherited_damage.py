"""Damage in the history that a fork inherits is damage of the fork: reported with the parent's name (law 9, LOG-16)."""

import pytest

from wakelog.forking import fork
from wakelog.log.integrity import verify_seals
from wakelog.reading import read_log
from wakelog.stores.jsonl import JsonlStore

READERS = [
    ("context",),
    ("show",),
    ("tree",),
    ("usage",),
    ("replay",),
    ("audit",),
    ("verify",),
    ("doctor",),
    ("export",),
    ("export", "-f", "md"),
    ("export", "-f", "json"),
]
AUDITORS = [words for words in READERS if words[0] in ("verify", "doctor", "export", "context")]


@pytest.fixture
def family(shell, story):
    """A parent, its fork and a fork of that; the parent has continued since."""
    story.user("one")
    story.reply("two")
    story.user("three")
    left = story.reply("four")
    child = fork(story.session, left.id)
    child.say("mine")
    grandchild = fork(child)
    grandchild.say("mine too")
    story.user("later")
    story.reply("much later")
    return shell.store / "crab_user_1.jsonl"


def _change(path, text, new):
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(new(line) if text in line else line for line in lines))


def _overwritten(line):
    return b"\0" * len(line)


def _edited(line):
    return line.replace(b"three", b"THREE")


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("name", ["crab_user_2", "crab_user_3"])
def test_an_unreadable_line_of_the_parent_is_reported(shell, family, words, name):
    """Law 9: every command that reads inherited history reports it."""
    command, *more = words
    assert shell(command, name, *more).code == 0
    _change(family, b'"three"', _overwritten)
    answer = shell(command, name, *more)
    assert answer.code == 4
    assert "crab_user_1" in answer.out + answer.err
    assert "line 4, byte" in answer.out + answer.err


@pytest.mark.parametrize("words", AUDITORS, ids=" ".join)
@pytest.mark.parametrize("name", ["crab_user_2", "crab_user_3"])
def test_an_edited_line_of_the_parent_is_found(shell, family, words, name):
    """LOG-16: the parent's chain is verified up to the fork point."""
    _change(family, b'"three"', _edited)
    command, *more = words
    answer = shell(command, name, *more)
    assert answer.code == 4
    assert "crab_user_1" in answer.out + answer.err


def test_an_export_does_not_vouch_for_edited_history(shell, family, tmp_path):
    """Law 11: changed entries are left out of a copy with new seals, and the copy says so."""
    _change(family, b'"three"', _edited)
    answer = shell("export", "crab_user_2", "-o", "copy.jsonl")
    assert answer.code == 4
    raw = (shell.folder / "copy.jsonl").read_bytes()
    assert b"THREE" not in raw
    assert b'"reason":"lost"' in raw


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_damage_after_the_fork_point_is_the_parents_own(shell, family, words):
    """TREE-4: what happened to the parent after the fork is not the fork's history."""
    _change(family, b'"much later"', _overwritten)
    command, *more = words
    assert shell(command, "crab_user_2", *more).code == 0
    assert shell("verify", "crab_user_1").code == 4


def test_the_library_names_the_session(shell, family):
    """Law 9: every damage names the session whose log has it."""
    _change(family, b'"three"', _overwritten)
    store = JsonlStore(str(shell.store))
    damage = read_log(store, "crab_user_3").damage
    assert {hurt.session for hurt in damage} == {"crab_user_1"}
    assert verify_seals(store.load("crab_user_3")).broken == ()
