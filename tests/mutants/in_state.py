"""Mutants in what holds for a whole session: its queue, its end, its uptime, and whether it is dormant."""

from tests.mutants.mutant import Mutant

QUEUE = "tests/test_queue.py"
ENDING = "tests/test_ending.py"
UPTIME = "tests/projections/test_uptime.py"
DORMANT = "tests/projections/test_dormant.py"
MOVED = f"{QUEUE}::test_it_is_taken_up_at_the_new_head_once[memory]"
READ_PAST = f"{QUEUE}::test_an_older_compaction_is_read_past_once"
SUITE = "tests/stores/test_memory.py::TestMemoryStore"

IN_STATE = (
    Mutant(
        "a message stays on the branch it was queued on",
        "RUN-22",
        "projections/queue.py",
        "    if rules < 2:\n",
        "    if rules:\n",
        (MOVED, "tests/test_cases.py::test_case[whole-120-queued-on-a-branch-that-was-left]"),
    ),
    Mutant(
        "a message is taken up on each branch",
        "RUN-22",
        "projections/queue.py",
        "    return tuple(queued for queued in found if queued.id not in said)\n",
        "    return tuple(found)\n",
        ("tests/test_cases.py::test_case[whole-122-taken-up-once]",),
    ),
    Mutant(
        "requests move with the head",
        "RUN-22",
        "projections/queue.py",
        "    found = [queued for queued in (*carried, *later) if queued.mode in MESSAGE_MODES]\n",
        "    found = [*carried, *later]\n",
        (f"{QUEUE}::test_requests_do_not_move_with_the_head",),
    ),
    Mutant(
        "rules 1 find the queue of rules 2",
        "RUN-22, law 11",
        "decide/snapshot.py",
        "queue_at_head(tree, open_work.queue, rules)",
        "queue_at_head(tree, open_work.queue)",
        (f"{QUEUE}::test_rules_1_take_up_on_their_own_branch_only",),
    ),
    Mutant(
        "older compactions are not read past",
        "RUN-22",
        "log/tail.py",
        "        if search.is_over and not (queue and search.misses_queue):\n",
        "        if search.is_over:\n",
        (READ_PAST, "tests/laws/test_tail.py::test_tail_equals_whole_where_versions_are_mixed"),
    ),
    Mutant(
        "what was read past is not recorded",
        "RUN-22",
        "session.py",
        "queue=self._queue_to_record()",
        "queue=None",
        (READ_PAST,),
    ),
    Mutant(
        "an ended session accepts anything",
        "RUN-21",
        "session.py",
        "            if before is None:\n                self._refuse_if_ended(value)\n",
        "",
        (f"{SUITE}::test_a_writer_that_has_not_seen_the_end", f"{ENDING}::test_a_compaction_does_not_hide_the_end"),
    ),
    Mutant(
        "an ended session can be taken up",
        "RUN-21",
        "session.py",
        "            self._refuse_if_ended()\n            activity =",
        "            activity =",
        (f"{SUITE}::test_an_ended_session_accepts_names_only",),
    ),
    Mutant(
        "open calls do not keep a session from its end",
        "RUN-21",
        "session.py",
        "        if dropped.is_unfinished and not force:\n",
        "        if False:\n",
        (f"{ENDING}::test_open_calls_keep_a_session_from_its_end",),
    ),
    Mutant(
        "a session is ended while it is run",
        "RUN-21",
        "session.py",
        '        if held is not None:\n            raise Conflict(f"{self.name} is being run by {held.holder}", hint',
        '        if False:\n            raise Conflict(f"{self.name} is being run by {held.holder}", hint',
        (f"{SUITE}::test_a_session_that_is_run_is_not_ended",),
    ),
    Mutant(
        "a dead worker is up until the next one comes",
        "ST-3",
        "projections/uptime.py",
        '    if activity.event == "left" and found.attached_at is not None:\n'
        "        return Uptime(found.ended_ms + elapsed_ms(found.attached_at, activity.timestamp))\n"
        "    return Uptime(found.total_ms, ",
        "    ended_ms = found.ended_ms + elapsed_ms(found.attached_at or activity.timestamp, activity.timestamp)\n"
        "    return Uptime(ended_ms, ",
        (f"{UPTIME}::test_a_worker_that_did_nothing_counts_nothing",),
    ),
    Mutant(
        "what people write counts as work",
        "ST-3",
        "projections/uptime.py",
        "self.found.attached_at is not None and _is_a_workers(value, self._reruns)",
        "self.found.attached_at is not None",
        (f"{UPTIME}::test_a_worker_that_did_nothing_counts_nothing",),
    ),
    Mutant(
        "sums of rules 1 are believed",
        "ST-3",
        "projections/uptime.py",
        "        case Compaction(state=CarriedState() as state) if state.rules >= 2:\n",
        "        case Compaction(state=CarriedState() as state):\n",
        (f"{UPTIME}::test_sums_of_older_compactions_are_computed_anew",),
    ),
    Mutant(
        "a fork asks to be run",
        "RUN-15",
        "projections/state.py",
        '        case Session(parent=Origin(kind="fork")):\n            return True\n',
        "",
        (f"{DORMANT}::test_it_is_dormant_until_somebody_asks[forked]",),
    ),
    Mutant(
        "a moved head asks to be run",
        "RUN-15",
        "projections/state.py",
        "            return reason is None\n",
        "            return False\n",
        (f"{DORMANT}::test_it_is_dormant_until_somebody_asks[moved]",),
    ),
    Mutant(
        "a retry does not ask to be run",
        "RUN-15",
        "runtime/user_actions.py",
        'session.move_head(place, reason="retry")',
        "session.move_head(place)",
        ("tests/cli/test_ending.py::test_a_retry_is_a_request_to_run",),
    ),
    Mutant(
        "what is dormant is woken with the rest",
        "RUN-15",
        "cli/together.py",
        "            if is_dormant(session.tree):\n",
        "            if False:\n",
        ("tests/cli/test_ending.py::test_what_fails_or_waits_in_a_fork_is_left_alone",),
    ),
)
