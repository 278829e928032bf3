"""Planted bugs in `recording/` and in the recording methods of `session.py`."""

from tests.mutants.mutant import Mutant

RECORDING = "tests/recording/test_recording.py"
REPLIES = "tests/recording/test_replies.py"
LEASE = "tests/recording/test_held_lease.py"
RUNTIME = "tests/recording/test_with_runtime.py"
OPEN = "tests/recording/test_open.py"

IN_RECORDING = (
    Mutant(
        "two processes that open a pair at once get two sessions",
        "ST-1",
        "session.py::_NumberLimit.check",
        "number > self._limit",
        "False",
        (
            f"{OPEN}::test_a_session_that_another_process_creates_meanwhile_is_opened",
            f"{OPEN}::test_processes_that_open_one_pair_at_once[files]",
        ),
    ),
    Mutant(
        "a refused session number leaves a link",
        "ST-1",
        "stores/jsonl/session_names.py::SessionNames._numbered",
        "not os.path.lexists(self._folder.log_path(name))",
        "True",
        (f"{OPEN}::test_a_refused_number_leaves_nothing_behind[files]",),
    ),
    Mutant(
        "a tool that was started before runs again",
        "law 6",
        "recording/tool_runs.py::ToolRun._check_not_begun",
        "is_safe or not call.may_have_started",
        "True",
        (f"{RECORDING}::test_a_started_tool_is_not_run_again", f"{RECORDING}::test_a_receipt_becomes_the_result"),
    ),
    Mutant(
        "the caller alone decides whether a repetition is safe",
        "law 6",
        "recording/tool_runs.py::ToolRun._check_not_begun",
        'self._replay == "safe" and call.replay in ("safe", None)',
        'call.replay in ("safe", None)',
        (f"{RECORDING}::test_a_safe_tool_is_run_again",),
    ),
    Mutant(
        "an interrupted tool leaves its call open",
        "law 7",
        "recording/tool_runs.py::ToolRun.__exit__",
        'self._settle("interrupted", ToolOutcome(wording.INTERRUPTED))',
        "pass",
        (f"{RECORDING}::test_an_interrupted_tool",),
    ),
    Mutant(
        "recovery says that a tool did not run without proof",
        "law 6, ST-10",
        "decide/open_tool_calls.py::settle_unrun",
        "not _is_proven_unstarted(snapshot, open_call)",
        "False",
        (f"{RECORDING}::test_recovery_after_a_crash_in_a_tool",),
    ),
    Mutant(
        "a reply is recorded without the lease",
        "LOG-10",
        "session.py::Session.assistant",
        "self.append(Message(message=whole), lease=self.hold_lease())",
        "self.append(Message(message=whole))",
        (f"{RECORDING}::test_a_live_holder_keeps_others_out", f"{LEASE}::test_a_program_that_runs_keeps_others_out"),
    ),
    Mutant(
        "a prompt is recorded after open tool calls",
        "law 7, ST-10",
        "session.py::Session.user.compose",
        "self._check_no_open_tool_calls()",
        "",
        (f"{RECORDING}::test_a_prompt_after_open_tool_calls_is_refused",),
    ),
    Mutant(
        "streamed text is displayed before it is in the journal",
        "law 5",
        "recording/streams.py::StreamedReply._write",
        "self._session.store.journal(...)",
        "pass",
        (f"{RECORDING}::test_recovery_of_an_interrupted_reply",),
    ),
    Mutant(
        "a lost lease is used as if it were held",
        "law 6",
        "recording/held_lease.py::HeldLease.check",
        "self._renewal.is_lost",
        "False",
        (f"{LEASE}::test_a_lost_lease_is_not_taken_back_silently",),
    ),
    Mutant(
        "a forked child writes under the lease of its parent",
        "LOG-10",
        "session.py::Session.hold_lease",
        "self._held is None or not self._held.is_of_this_process",
        "self._held is None",
        (f"{LEASE}::test_a_forked_child_does_not_inherit_the_lease",),
    ),
    Mutant(
        "replay writes what a program recorded",
        "law 11",
        "runtime/replay/recording.py::_classified",
        "not attached or recording or not _is_written_by_runtime(value, reruns)",
        "not attached or not _is_written_by_runtime(value, reruns)",
        (f"{RUNTIME}::test_what_a_program_recorded_is_an_input_of_replay",),
    ),
    Mutant(
        "a timer wakes a session that a program records",
        "RUN-15",
        "app/runner.py::BatchWake._woken",
        "is_recorded(session.tree)",
        "False",
        (f"{RUNTIME}::test_wake_all_leaves_recorded_sessions_alone",),
    ),
    Mutant(
        "a prompt alone does not mark a session as recorded",
        "RUN-15",
        "session.py::Session.user.compose",
        "self._own_lease is None and not is_recorded(self._log.tree)",
        "False",
        (
            f"{RUNTIME}::test_a_prompt_alone_marks_the_session",
            f"{RUNTIME}::test_wake_all_leaves_recorded_sessions_alone",
        ),
    ),
    Mutant(
        "a compaction forgets that a program records the session",
        "law 2",
        "projections/session_state.py::initial_session_state",
        "SessionState(..., recorded=carried.recorded)",
        "SessionState(...)",
        (f"{RUNTIME}::test_the_last_worker_decides_who_continues_a_session",),
    ),
    Mutant(
        "a custom tool call gets the result of a function",
        "ST-10",
        "providers/openai/responses_request.py::history_items",
        "_custom_call_ids(exchange) if own else frozenset()",
        "frozenset()",
        (f"{REPLIES}::test_custom_tool_calls_of_the_responses_api",),
    ),
    Mutant(
        "a custom tool call of a chat is sent back as a function",
        "ST-10",
        "recording/replies.py::_marked",
        'call.get("type") != "custom"',
        "True",
        (f"{REPLIES}::test_custom_tool_calls_of_chat_completions",),
    ),
    Mutant(
        "citations of a reply are not sent back",
        "ST-10",
        "providers/anthropic/messages_request.py::_bound_blocks",
        'isinstance(bound.get("citations"), list)',
        "False",
        (f"{REPLIES}::test_blocks_that_only_the_vendor_understands",),
    ),
)
