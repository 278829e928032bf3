"""Mutants in the watcher and its subscriptions: what is given twice, lost, read for nothing, or never noticed."""

from tests.mutants.mutant import Mutant

WATCHER = "tests/watcher/test_watcher.py"
IDLE = "tests/watcher/test_idle.py"

IN_WATCHER = (
    Mutant(
        "a result counts although the position has moved",
        "law 5",
        "watcher.py::_Watch.run",
        "generation != self._generation or self._accept(result)",
        "self._accept(result) or generation != self._generation",
        (f"{WATCHER}::test_a_stale_result_is_not_given",),
    ),
    Mutant(
        "a subscription with a full queue forgets the rest",
        "RUN-10",
        "watcher.py::Subscription.push",
        "self._is_behind = True",
        "pass",
        (f"{WATCHER}::test_a_subscription_that_does_not_fetch_loses_nothing",),
    ),
    Mutant(
        "a journal that is closed is read as if it went on",
        "law 5",
        "session_news.py::Cursor._new_pieces",
        "piece.reply_id not in self._closed",
        "True",
        (f"{WATCHER}::test_pieces_of_a_closed_journal_are_not_new",),
    ),
    Mutant(
        "a forked process waits for the thread of its parent",
        "RUN-10",
        "watcher.py::Subscription._current_watch",
        "self._watch = _join(self)",
        "pass",
        (f"{IDLE}::test_a_forked_process_watches_by_itself",),
    ),
    Mutant(
        "an idle follower of files reads at every look",
        "RUN-10",
        "stores/jsonl/store.py::JsonlStore.follow",
        "state != seen",
        "True",
        (f"{IDLE}::test_an_idle_watcher_reads_no_file_of_the_store[files]",),
    ),
    Mutant(
        "a closed store does not end its followers",
        "RUN-10",
        "stores/followers.py::Followers.close",
        "stop.is_closed = True",
        "pass",
        ("tests/stores/test_memory.py::TestMemoryStore::test_closing_ends_waits",),
    ),
)
