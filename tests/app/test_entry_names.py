"""The name that is shown for an entry can be typed, and means that entry (docs/cli.md, TREE-4)."""

import random

import pytest

from tests.stores.catalog.test_catalogs import Cataloged
from tests.stores.test_memory import MemoryRig
from wakelog.app.addresses import find_entry
from wakelog.app.entry_names import EntryNames, hit_name
from wakelog.app.export import find_scanned_node
from wakelog.forking import fork
from wakelog.reading import read_active, read_log
from wakelog.scanning import scan_log
from wakelog.session import Session
from wakelog.testing.catalog_rig import CatalogFixture, change_randomly


def _whole(session):
    return read_log(session.store, session.name)


def _shown(log):
    """Return every entry of a log with the name shown for it, inherited entries included."""
    names = EntryNames(log.tree)
    entries = [entry for node in log.tree.nodes.values() for entry in (node, *log.tree.annotations(node.id))]
    return {entry.id: names.short(entry) for entry in entries}


def _every_name_leads_back(store, log, shown):
    """Assert it for a log that is held as a whole, and for one that is read entry by entry."""
    assert {entry_id: find_entry(log, name) for entry_id, name in shown.items()} == {one: one for one in shown}
    scan = scan_log(store, log.name, verify=False)
    nodes = {entry_id: find_scanned_node(store, scan, name) for entry_id, name in shown.items()}
    assert nodes == {entry_id: scan.outline.find(log.tree.find(entry_id)) for entry_id in shown}


@pytest.fixture
def third(story):
    """A fork of a fork, each with messages of its own."""
    story.user("first")
    story.reply("reply")
    second = fork(story.session)
    second.say("second")
    made = fork(second)
    made.say("third")
    return made


def test_each_inherited_session_has_its_prefix(third):
    """TREE-4: the number is the one in the entry's own session, and the prefix says how many forks back that is."""
    log = _whole(third)
    assert [EntryNames(log.tree).short(node) for node in log.tree.nodes.values()] == [
        *("^^0", "^^1", "^^2"),
        *("^0", "^1"),
        *("0", "1"),
    ]
    _every_name_leads_back(third.store, log, _shown(log))


def test_annotations_of_inherited_entries_are_named_by_id(third, story):
    """Annotations of other sessions have as much of their ids as is unique."""
    labels = [story.session.label(node.id, f"l{node.seq}") for node in list(story.session.tree.own_nodes())]
    log = _whole(third)
    shown = _shown(log)
    assert all(label.id.startswith(shown[label.id]) and 8 <= len(shown[label.id]) < 26 for label in labels)
    _every_name_leads_back(third.store, log, shown)


def test_a_label_does_not_take_a_name_away(third):
    """As with numbers: the shown name means its entry, whatever label another entry has."""
    first, *_, last = third.tree.nodes
    third.label(last, "^^0")
    assert find_entry(_whole(third), "^^0") == first


@pytest.mark.meddled
def test_repeated_numbers_of_a_parent_get_different_names(shell, store):
    """Law 9: of two entries with one number the first has the number, as in its own session."""
    shell.store.mkdir()
    (shell.store / "odd.jsonl").write_bytes(
        b'{"type":"session","id":"oddoddodd","seq":0}\n'
        b'{"type":"message","id":"aaaaaaaaaa","seq":1,"message":{"role":"user","content":"one"}}\n'
        b'{"type":"message","id":"bbbbbbbbbb","seq":1,"parentId":"aaaaaaaaaa","message":{"role":"user","content":"two"}}\n'
    )
    log = _whole(fork(Session(store, "odd")))
    shown = _shown(log)
    assert list(shown.values()) == ["^0", "^1", "bbbbbbbb", "0"]
    _every_name_leads_back(store, log, shown)


def test_without_the_beginning_entries_are_named_by_id(story):
    """Entries that cannot be counted are named by ids, which the whole log knows, too."""
    story.user("first")
    story.reply("reply")
    story.session.compact("all of it", first_kept=story.session.tree.head)
    story.user("second")
    child = fork(story.session)
    part = read_active(child.store, child.name)
    assert part.tree.partial
    _every_name_leads_back(child.store, _whole(child), _shown(part))


@pytest.mark.meddled
def test_a_number_that_is_an_id_is_not_used(shell, store):
    """Ids of other programs may be digits, and an exact id wins: the number of another entry is then no name for it."""
    shell.store.mkdir()
    (shell.store / "odd.jsonl").write_bytes(
        b'{"type":"session","id":"odd"}\n'
        b'{"type":"message","id":"aaaaaaaaaa","message":{"role":"user","content":"one"}}\n'
        b'{"type":"message","id":"1","message":{"role":"user","content":"two"}}\n'
    )
    log = read_log(store, "odd")
    assert list(_shown(log).values()) == ["odd", "aaaaaaaaaa", "1"]
    _every_name_leads_back(store, log, _shown(log))


@pytest.mark.parametrize("seed", range(8))
def test_after_any_history(seed):
    """Law 9: nested forks, moved heads, compactions, damage; for logs read whole or from the end, and for hits."""
    shelf, chance = CatalogFixture(Cataloged(MemoryRig(), "memory:")), random.Random(seed)
    stories = [shelf.talk(1)]
    for _ in range(40):
        change_randomly(shelf, chance, stories)
    shelf.catalog.refresh()
    whole = {row.name: read_log(shelf.store, row.name) for row in shelf.catalog.rows(archived=None)}
    for name, log in whole.items():
        _every_name_leads_back(shelf.store, log, _shown(log))
        _every_name_leads_back(shelf.store, log, _shown(read_active(shelf.store, name)))
    for hit in shelf.catalog.search("type:message", limit=10_000):
        assert find_entry(whole[hit.name], hit_name(hit)) == hit.entry
    assert any(name.startswith("^") for log in whole.values() for name in _shown(log).values())
