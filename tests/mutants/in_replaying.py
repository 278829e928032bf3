"""Mutants in `replaying/`: what is told again, and what a replay must not pass over."""

from tests.mutants.mutant import Mutant

DELIVERING = "tests/runtime/test_delivery.py"
VERIFY = "tests/replaying/test_verifying.py"
PLAYS = "tests/laws/test_kernel_replay.py::test_whatever_happens_it_rests_and_can_be_replayed"

IN_REPLAYING = (
    Mutant(
        "a replay compares nothing",
        "law 11, RUN-14",
        "replaying/rerunning.py",
        "        if recorded.raw != line.raw:\n",
        "        if False:\n",
        (f"{VERIFY}::test_other_words_are_found_where_they_stand",),
    ),
    Mutant(
        "the last thing a worker did is where it parted",
        "RUN-14",
        "replaying/rerunning.py",
        "        if self.ended:\n",
        "        if False:\n",
        (f"{VERIFY}::test_other_words_are_found_where_they_stand",),
    ),
    Mutant(
        "a replay waits for ever",
        "RUN-14",
        "replaying/verifying.py",
        "    is_stalled = stalled.done() and not waking.done()\n",
        "    is_stalled = False\n",
        (f"{VERIFY}::test_an_entry_that_no_worker_would_write_is_named",),
    ),
    Mutant(
        "any result of a reply is a sub-agent's",
        "law 11",
        "replaying/answers.py",
        "            return _is_result(entry, subagent_task.reply_id, subagent_task.tool_call_id) or is_stuck(entry)\n",
        "            return isinstance(entry.value, Message) or is_stuck(entry)\n",
        (PLAYS,),
    ),
    Mutant(
        "a later failure to send is taken for one of the stream",
        "law 11, RUN-23",
        "replaying/answers.py",
        "value.channel in order[last + 1 :]",
        "value.channel in order",
        (f"{DELIVERING}::test_both_channels_may_fail_in_any_order",),
    ),
    Mutant(
        "a replayed channel never raises",
        "law 11, RUN-23",
        "replaying/answers.py",
        "            raise _RecordedFault(fault)\n",
        "            pass\n",
        (f"{DELIVERING}::test_every_store",),
    ),
    Mutant(
        "a cut reply is told whole",
        "law 11",
        "replaying/answers.py",
        "                case Call(reply_id=call.reply_id):\n                    return said, None\n",
        "",
        (PLAYS,),
    ),
    Mutant(
        "what is clipped is told clipped",
        "law 11, VIEW-6",
        "replaying/answers.py",
        "self._whole(result.blob) if result.blob is not None else self.text_of(result.content)",
        "result.text",
        (PLAYS,),
    ),
    Mutant(
        "results the runtime wrote are given to it",
        "RUN-14",
        "replaying/recording.py",
        "        case Message(message=ToolResult()):\n            return True\n",
        "        case Message(message=ToolResult()):\n            return False\n",
        (f"{VERIFY}::test_other_words_are_found_where_they_stand",),
    ),
    Mutant(
        "the dead sit out their waits",
        "law 11, RUN-12",
        "replaying/answers.py",
        "        if self.store.worker_is_gone:\n",
        "        if False:\n",
        (f"{VERIFY}::test_a_worker_that_was_gone_while_it_waited",),
    ),
    Mutant(
        "a replay writes to the real blobs",
        "law 9",
        "replaying/rerunning.py",
        "        self._blobs = _Blobs(behind.blobs)\n",
        "        self._blobs = behind.blobs  # type: ignore[assignment]\n        behind.blobs.put(b'replayed')\n",
        (f"{VERIFY}::test_replay_writes_nothing",),
    ),
    Mutant(
        "a replay reads the environment",
        "law 11",
        "replaying/verifying.py",
        '    """Lets a session happen again, from its log alone."""\n',
        '    """Lets a session happen again, from its log alone."""\n'
        '    __import__("os").environ.get("WAKELOG_STORE")\n',
        (f"{VERIFY}::test_nothing_outside_the_log_is_touched",),
    ),
    Mutant(
        "a replay opens a file",
        "law 11",
        "replaying/verifying.py",
        '    """Lets a session happen again, from its log alone."""\n',
        '    """Lets a session happen again, from its log alone."""\n    open("/dev/null").close()\n',
        (f"{VERIFY}::test_nothing_outside_the_log_is_touched",),
    ),
)
