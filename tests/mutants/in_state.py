"""Planted bugs in the state of a session: its queue, its end, its uptime, and whether it is dormant."""

from tests.mutants.mutant import Mutant

QUEUE = "tests/projections/test_queue.py"
ENDING = "tests/test_session_end.py"
UPTIME = "tests/projections/test_uptime.py"
DORMANT = "tests/projections/test_session_state.py"
MOVED = f"{QUEUE}::test_it_is_taken_up_at_the_new_head_once[memory]"
READ_PAST = f"{QUEUE}::test_an_older_compaction_is_read_past_once"
SUITE = "tests/stores/test_memory.py::TestMemoryStore"

IN_STATE = (
    Mutant(
        "a message stays on the branch it was queued on",
        "RUN-22",
        "projections/queue.py::queue_at_head",
        "return with_requests(waiting_messages(tree), on_branch)",
        "return on_branch",
        (MOVED, "tests/test_cases.py::test_case[whole-120-queued-on-a-branch-that-was-left]"),
    ),
    Mutant(
        "a queued message is used on each branch",
        "RUN-22",
        "projections/queue.py::waiting_messages",
        "(queued for queued in found if queued.id not in taken)",
        "found",
        ("tests/test_cases.py::test_case[whole-122-taken-up-once]",),
    ),
    Mutant(
        "requests move with the head",
        "RUN-22",
        "projections/queue.py::waiting_messages",
        "[queued for queued in (*carried, *later) if queued.mode in MESSAGE_MODES]",
        "[*carried, *later]",
        (f"{QUEUE}::test_requests_do_not_move_with_the_head",),
    ),
    Mutant(
        "reading stops at compactions of rules 1",
        "RUN-22",
        "log/tail.py::read_tail",
        "search.is_complete and not (queue and search.lacks_queue)",
        "search.is_complete",
        (READ_PAST, "tests/laws/test_tail.py::test_tail_equals_whole_where_versions_are_mixed"),
    ),
    Mutant(
        "a queue found before an older compaction is not recorded",
        "RUN-22",
        "writer.py::SessionWriter.acquire",
        "self._queue_to_record()",
        "None",
        (READ_PAST,),
    ),
    Mutant(
        "an ended session accepts anything",
        "RUN-21",
        "writer.py::SessionWriter._append",
        "if before is None: self.check_not_ended(value)",
        "",
        (f"{SUITE}::test_a_writer_that_has_not_seen_the_end", f"{ENDING}::test_a_compaction_does_not_hide_the_end"),
    ),
    Mutant(
        "an ended session can be woken",
        "RUN-21",
        "writer.py::SessionWriter.acquire",
        "self.check_not_ended()",
        "",
        (f"{SUITE}::test_an_ended_session_accepts_names_only",),
    ),
    Mutant(
        "a session with open tool calls can be ended",
        "RUN-21",
        "session.py::Session._work_dropped_by_end",
        "dropped.needs_force and not force",
        "False",
        (f"{ENDING}::test_open_calls_prevent_the_end",),
    ),
    Mutant(
        "a session is ended while it is run",
        "RUN-21",
        "session.py::Session._work_dropped_by_end",
        "held is not None",
        "False",
        (f"{SUITE}::test_a_session_that_is_run_is_not_ended",),
    ),
    Mutant(
        "the uptime counts a dead worker until the next one",
        "ST-3",
        "projections/usage.py::_after_activity",
        (
            'if activity.event == "left" and found.attached_at is not None:\n'
            "    return Uptime(found.ended_ms + elapsed_ms(found.attached_at, activity.timestamp))\n"
            "return Uptime(found.total_ms, ...)"
        ),
        (
            "ended_ms = found.ended_ms + elapsed_ms(found.attached_at or activity.timestamp, activity.timestamp)\n"
            "return Uptime(ended_ms, ...)"
        ),
        (f"{UPTIME}::test_a_worker_that_did_nothing_counts_nothing",),
    ),
    Mutant(
        "the uptime counts entries of people",
        "ST-3",
        "projections/usage.py::UptimeCounter.add",
        "self.uptime.attached_at is not None and _is_written_by_worker(value, self._reruns)",
        "self.uptime.attached_at is not None",
        (f"{UPTIME}::test_a_worker_that_did_nothing_counts_nothing",),
    ),
    Mutant(
        "uptime sums of rules 1 are used",
        "ST-3",
        "projections/usage.py::_carried_uptime",
        "case Compaction(state=CarriedState() as state) if state.rules >= 2: ...",
        "case Compaction(state=CarriedState() as state): ...",
        (f"{UPTIME}::test_sums_of_older_compactions_are_computed_again",),
    ),
    Mutant(
        "a fork asks to be run",
        "RUN-15",
        "projections/session_state.py::_is_dormant_after",
        'case SessionHeader(parent=Origin(kind="fork")): return True',
        "",
        (f"{DORMANT}::test_it_is_dormant_until_a_request[forked]",),
    ),
    Mutant(
        "a moved head asks to be run",
        "RUN-15",
        "projections/session_state.py::_is_dormant_after",
        "reason is None",
        "False",
        (f"{DORMANT}::test_it_is_dormant_until_a_request[moved]",),
    ),
    Mutant(
        "a retry does not ask to be run",
        "RUN-15",
        "runtime/user_actions.py::retry_turn",
        'session.move_head(place, reason="retry")',
        "session.move_head(place)",
        ("tests/cli/commands/test_end.py::test_a_retry_is_a_request_to_run",),
    ),
    Mutant(
        "dormant sessions are woken with the others",
        "RUN-15",
        "app/runner.py::BatchWake._woken",
        "is_dormant(session.tree)",
        "False",
        ("tests/cli/commands/test_end.py::test_failures_inherited_by_a_fork_are_not_retried",),
    ),
)
