"""Mutants in `session.py`, `reading.py` and `forking.py`: the one writer, and what is read through."""

from tests.mutants.mutant import Mutant

SESSION = "tests/test_session.py"
FORKING = "tests/test_forking.py"
WRITERS = "tests/faults/test_writers.py"

IN_SESSION = (
    Mutant(
        "messages are not synced",
        "law 4",
        "session.py",
        'UNSYNCED_TYPES = frozenset({"call", ',
        'UNSYNCED_TYPES = frozenset({"message", "call", ',
        (
            "tests/faults/test_disk.py::test_every_append_of_a_message_is_one_write_and_one_sync",
            "tests/test_format.py::test_unsynced_types_are_named",
        ),
    ),
    Mutant(
        "a retried entry is another entry",
        "law 4, LOG-10",
        "session.py",
        "        entry = self._log.tree.entry(value.id)\n        if entry is None:\n            return None\n",
        "        return None\n        entry = self._log.tree.entry(value.id)\n",
        (f"{SESSION}::test_an_entry_with_an_id_is_appended_once",),
    ),
    Mutant(
        "two links under one parent, unasked",
        "TREE-2, LOG-10",
        "session.py",
        "            self._check_free(parent)\n",
        "            pass\n",
        (f"{SESSION}::test_under_is_a_conflict_where_something_stands",),
    ),
    Mutant(
        "people interrupt",
        "law 7",
        "session.py",
        "            if not busy:\n",
        "            if busy or not busy:\n",
        (
            f"{SESSION}::test_people_are_queued_while_the_agent_is_busy",
            f"{WRITERS}::test_people_are_heard_while_another_process_holds_the_lease",
        ),
    ),
    Mutant(
        "the torn tail is not noted",
        "LOG-9",
        "session.py",
        "            self.store.append(self.name, body, after=self._log.next_seq - 1, behind=len(torn.raw))\n",
        "            self._log.torn = None\n            return\n",
        (f"{SESSION}::test_torn_tails_are_noted",),
    ),
    Mutant(
        "a session knows only what it has read",
        "law 2, TREE-3",
        "session.py",
        "        self._catch_up()\n        return self._whole_tree().find(entry)\n",
        "        return self._whole_tree().find(entry)\n",
        (f"{WRITERS}::test_what_another_writer_appended_can_be_named_at_once",),
    ),
    Mutant(
        "the lease is not shown",
        "law 6",
        "session.py",
        "fence=lease.fence if lease else None,",
        "fence=None,",
        (f"{SESSION}::test_leases", "tests/faults/test_leases.py::test_a_stopped_holder_that_comes_back_cannot_append"),
    ),
    Mutant(
        "a newer log is written to",
        "LOG-7",
        "session.py",
        'if any(hurt.kind == "newer" for hurt in damage):',
        'if any(hurt.kind == "never" for hurt in damage):',
        (f"{SESSION}::test_newer_logs_are_not_written_to",),
    ),
    Mutant(
        "session 10 comes before session 9",
        "ST-1",
        "session.py",
        "newest = max((int(number) for number in numbers if number.isdigit()), default=None)",
        "newest = max((number for number in numbers if number.isdigit()), default=None)",
        (f"{SESSION}::test_latest",),
    ),
    Mutant(
        "a compaction forgets the state",
        "law 2, VIEW-3",
        "session.py",
        "state=fold_state(tree, place, self.rules))",
        "state=None)",
        ("tests/test_reading.py::test_reading_the_tail_reads_the_tail",),
    ),
    Mutant(
        "active is everything",
        "VIEW-3",
        "reading.py",
        "    if tail is None or first is None:\n        return read_log(store, session)\n",
        "    if tail is not None or first is None or tail is None:\n        return read_log(store, session)\n",
        ("tests/test_reading.py::test_reading_the_tail_reads_the_tail",),
    ),
    Mutant(
        "a fork does not say where it came from",
        "TREE-4",
        "forking.py",
        "        parent=Origin(session=owner, entry=target, h=seal_of(link.raw)),\n",
        "",
        (f"{FORKING}::test_a_fork_goes_on_by_itself",),
    ),
    Mutant(
        "a fork leaves its parent's calls open",
        "law 7, TREE-4",
        "forking.py",
        "    for call in open_calls(Branch(_turn_before(tree, target))):\n",
        "    for call in ():\n",
        (f"{FORKING}::test_open_calls_are_settled",),
    ),
    Mutant(
        "a changed parent goes unnoticed",
        "TREE-4, law 9",
        "reading.py",
        "if origin.h is not None and (tip is None or seal_of(tip.raw) != origin.h):",
        "if origin.h is not None and tip is None:",
        (f"{FORKING}::test_a_parent_that_is_gone",),
    ),
    Mutant(
        "a queue without an end",
        "RUN-11",
        "session.py",
        "            self._check_queue()\n",
        "",
        ("tests/test_session.py::test_a_queue_has_an_end",),
    ),
)
