"""Planted bugs in `runtime/replay/`: what is replayed, and which differences a replay must report."""

from tests.mutants.mutant import Mutant

DELIVERING = "tests/runtime/test_delivery.py"
VERIFY = "tests/runtime/replay/test_verification.py"
PLAYS = "tests/laws/test_kernel_replay.py::test_any_session_becomes_idle_and_can_be_replayed"

IN_REPLAYING = (
    Mutant(
        "a replay does not compare entries",
        "law 11, RUN-14",
        "runtime/replay/recording.py::ReplayStore._compare",
        "recorded.raw != line.raw",
        "False",
        (f"{VERIFY}::test_a_changed_text_is_reported_at_its_line",),
    ),
    Mutant(
        "a replay continues after the first difference",
        "RUN-14",
        "runtime/replay/recording.py::ReplayStore.append",
        "self.ended",
        "False",
        (f"{VERIFY}::test_a_changed_text_is_reported_at_its_line",),
    ),
    Mutant(
        "a replay waits without a limit",
        "RUN-14",
        "runtime/replay/verification.py::_replay_worker",
        "stalled.done() and not waking.done()",
        "False",
        (f"{VERIFY}::test_removed_and_repeated_results_are_reported",),
    ),
    Mutant(
        "any result of a reply counts as that of a sub-agent",
        "law 11",
        "runtime/replay/recorded_runtime.py::ReplayRuntime.run_subagent.is_over",
        "_is_result(entry, task.reply_id, task.tool_call_id)",
        "isinstance(entry.value, Message)",
        (PLAYS,),
    ),
    Mutant(
        "a later send failure counts as one of the stream",
        "law 11, RUN-23",
        "runtime/replay/recorded_runtime.py::ReplayRuntime._send_failures",
        "order[last + 1 :]",
        "order",
        (f"{DELIVERING}::test_failures_of_one_stream_are_written_in_the_order_of_channels",),
    ),
    Mutant(
        "a replayed channel never raises",
        "law 11, RUN-23",
        "runtime/replay/recorded_runtime.py::_RecordedChannel._raise_recorded_fault",
        "raise _RecordedFault(fault)",
        "pass",
        (f"{DELIVERING}::test_delivery_on_every_store",),
    ),
    Mutant(
        "an interrupted reply is replayed completely",
        "law 11",
        "runtime/replay/recorded_runtime.py::ReplayRuntime.recorded_reply",
        "case ModelCall(reply_id=call.reply_id): return (parts, None)",
        "",
        (PLAYS,),
    ),
    Mutant(
        "clipped text is replayed instead of the whole text",
        "law 11, VIEW-6",
        "runtime/replay/recorded_runtime.py::ReplayRuntime.outcome",
        "self._blob_text(result.blob) if result.blob is not None else self.text_of(result.content)",
        "result.text",
        (PLAYS,),
    ),
    Mutant(
        "results that the runtime wrote count as given",
        "RUN-14",
        "runtime/replay/recording.py::_is_written_by_runtime",
        "return True",
        "return False",
        (f"{VERIFY}::test_a_changed_text_is_reported_at_its_line",),
    ),
    Mutant(
        "a replay waits for crashed workers",
        "law 11, RUN-12",
        "runtime/replay/recorded_runtime.py::ReplayRuntime.sleep",
        "self.recording.worker_is_gone",
        "False",
        (f"{VERIFY}::test_an_interrupted_retry_wait_replays_without_waiting",),
    ),
    Mutant(
        "a replay writes to the real blobs",
        "law 9",
        "runtime/replay/recording.py::ReplayStore.__init__",
        "self._blobs = _ReplayBlobs(real_store.blobs)",
        ('self._blobs = real_store.blobs\nreal_store.blobs.replace(b"replayed")'),
        (f"{VERIFY}::test_replay_writes_nothing",),
    ),
    Mutant(
        "a replay reads the environment",
        "law 11",
        "runtime/replay/verification.py::replay",
        "name = store.name(session_ref(session))",
        '__import__("os").environ.get("WAKELOG_STORE")\nname = store.name(session_ref(session))',
        (f"{VERIFY}::test_replay_uses_nothing_outside_the_log",),
    ),
    Mutant(
        "a replay opens a file",
        "law 11",
        "runtime/replay/verification.py::replay",
        "name = store.name(session_ref(session))",
        'open("/dev/null").close()\nname = store.name(session_ref(session))',
        (f"{VERIFY}::test_replay_uses_nothing_outside_the_log",),
    ),
)
