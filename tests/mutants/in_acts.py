"""Mutants in `acts/`, `waking.py` and `live.py`: in which order things are done, and what is done once."""

from tests.mutants.mutant import Mutant

ASKING = "tests/acts/test_asking.py"
DELIVERING = "tests/acts/test_delivering.py"
RUNNING = "tests/acts/test_running.py"
STEP = "tests/acts/test_step.py"
FOLDING = "tests/acts/test_folding.py"
REQUESTS = "tests/acts/test_requests.py"
LIVE = "tests/test_live.py"
PREFIX = "tests/laws/test_kernel_prefix.py"
CHECKING = "tests/acts/test_checking.py"

IN_ACTS = (
    Mutant(
        "a session is taken up though its model cannot be asked",
        "RUN-2",
        "waking.py",
        "        check_first(world, session, verdict)\n    rows",
        "        pass\n    rows",
        (
            f"{CHECKING}::test_waking_without_a_key_writes_nothing",
            f"{CHECKING}::test_tools_that_are_not_here_leave_the_session_as_it_is",
        ),
    ),
    Mutant(
        "a session is begun though its model cannot be asked",
        "RUN-2",
        "agent.py",
        "            check_askable(world.provider, *split_model(self.model), self.params)",
        "            pass",
        (f"{CHECKING}::test_running_without_a_key_makes_no_session",),
    ),
    Mutant(
        "a cut reply is taken up again though its model cannot be asked",
        "RUN-2",
        "acts/asking.py",
        "    check_model(step.world.provider, step.session.name, step.state)\n",
        "",
        (f"{CHECKING}::test_a_cut_reply_without_a_key_is_not_mended",),
    ),
    Mutant(
        "a sub-agent is begun though its model cannot be asked",
        "RUN-2, TREE-6",
        "live.py",
        "            check_askable(world.provider, errand.provider",
        "            bool(check_askable) or (world.provider, errand.provider",
        (f"{CHECKING}::test_a_sub_agent_without_a_key_is_not_begun",),
    ),
    Mutant(
        "the usage of a report is that of the whole session",
        "VIEW-8",
        "waking.py",
        "usage(Reader(next_seq=after + 1).feed_all(session.store.load(session.name, after=after))).usage",
        "usage(Reader(next_seq=0).feed_all(session.store.load(session.name, after=-1))).usage",
        (f"{CHECKING}::test_a_report_carries_the_error_and_the_usage_of_its_wake",),
    ),
    Mutant(
        "a reply that was cut before it was stopped is forgotten",
        "RUN-12",
        "acts/settling.py",
        'step.said_of(cut.reply_id) if isinstance(cut, Call) else ""',
        '""',
        ("tests/acts/test_asking.py::test_what_was_cut_and_then_stopped_stays_part_of_the_talk",),
    ),
    Mutant(
        "a beginning is not synced before the effect",
        "law 4, law 6",
        "session.py",
        'UNSYNCED_TYPES = frozenset({"call", ',
        'UNSYNCED_TYPES = frozenset({"tool_started", "call", ',
        (f"{RUNNING}::test_begun_durably_then_done_then_kept",),
    ),
    Mutant(
        "the effect comes before its beginning",
        "law 6",
        "acts/running.py",
        "    started = step.write(_started(call, tool, intent), about=call.reply_id)\n    given =",
        "    early = await tool.run(_invocation(call, 1, intent))\n"
        "    started = step.write(_started(call, tool, intent), about=call.reply_id)\n"
        "    tool = type('Early', (), {'run': lambda self, call: asyncio.sleep(0, early)})()  # type: ignore\n"
        "    given =",
        (
            f"{RUNNING}::test_begun_durably_then_done_then_kept",
            f"{RUNNING}::test_a_death_before_the_beginning_is_durable",
        ),
    ),
    Mutant(
        "the result comes before the effect",
        "law 6",
        "acts/running.py",
        "    return _Running(call, asyncio.create_task(_outcome(tool, given)), started)\n",
        "    _keep(step, call, Outcome('done'), started)\n    await _outcome(tool, given)\n    return None\n",
        (f"{RUNNING}::test_begun_durably_then_done_then_kept",),
    ),
    Mutant(
        "live output is lost when a tool is stopped",
        "RUN-12",
        "acts/running.py",
        "        await stopped(task)\n        _keep_shown(step, ended)\n",
        "        await stopped(task)\n",
        (f"{RUNNING}::test_a_cancel_stops_what_runs_and_keeps_what_it_showed",),
    ),
    Mutant(
        "a blob is written behind the entry that names it",
        "LOG-12, law 4",
        "acts/running.py",
        '    blob = step.world.store.blobs.put(whole.encode(), "text/plain") if truncated else None\n',
        "    blob = step.world.store.blobs.put(whole.encode(), 'text/plain') if truncated else None\n"
        "    step.world.store.blobs.remove(blob.digest, older_than_s=-1) if blob else None\n",
        (f"{RUNNING}::test_output_is_clipped_once_and_for_ever",),
    ),
    Mutant(
        "output is not clipped",
        "VIEW-6",
        "acts/running.py",
        "    text, truncated = clip(whole, step.policy.clip)\n",
        "    text, truncated = whole, False\n",
        (f"{RUNNING}::test_output_is_clipped_once_and_for_ever",),
    ),
    Mutant(
        "a tool nobody declared is run",
        "RUN-7",
        "acts/running.py",
        "    if tool is None or call.call.name not in box.declared:\n",
        "    if tool is None:\n",
        ("tests/acts/test_running.py::test_a_tool_nobody_told_the_model_of",),
    ),
    Mutant(
        "a receipt that cannot say counts as not begun",
        "RUN-6",
        "acts/running.py",
        '    elif answer == "not begun":\n',
        "    elif True:\n",
        (f"{RUNNING}::test_a_receipt_that_cannot_say_is_a_question",),
    ),
    Mutant(
        "a channel is told before the journal",
        "law 5, RUN-8",
        "acts/asking.py",
        "        self._write_piece(piece_of(delta))\n"
        "        offset = self.draft.chars\n"
        "        self.draft.take(delta)\n"
        "        if isinstance(delta, TextDelta):\n            text = delta.text\n"
        "            await self._tell(lambda channel: channel.delta(self.reply_id, offset, text))\n",
        "        offset = self.draft.chars\n        self.draft.take(delta)\n"
        "        if isinstance(delta, TextDelta):\n            text = delta.text\n"
        "            await self._tell(lambda channel: channel.delta(self.reply_id, offset, text))\n"
        "        self._write_piece(piece_of(delta))\n",
        (f"{ASKING}::test_the_order_of_a_reply",),
    ),
    Mutant(
        "a journal is dropped before the reply is durable",
        "law 5, RUN-8",
        "acts/asking.py",
        "        self.step.write(Message(id=self.reply_id, message=reply))\n        self._drop_journal()\n",
        "        self._drop_journal()\n        self.step.write(Message(id=self.reply_id, message=reply))\n",
        (f"{ASKING}::test_the_order_of_a_reply", f"{ASKING}::test_a_death_at_any_write_of_a_reply"),
    ),
    Mutant(
        "sent before the flush",
        "RUN-9",
        "acts/delivering.py",
        "        await channel.end(reply_id)\n",
        "        step.write(Sent(reply_id=reply_id, channel=channel.name), about=reply_id)\n"
        "        await channel.end(reply_id)\n",
        (f"{ASKING}::test_a_reply_that_was_not_flushed_is_given_again", f"{ASKING}::test_the_order_of_a_reply"),
    ),
    Mutant(
        "what a channel raises ends the worker",
        "RUN-23",
        "acts/delivering.py",
        "        if step.rules < 2:\n            raise\n",
        "        raise\n",
        (f"{DELIVERING}::test_a_channel_that_raises_once_gets_the_reply_later",),
    ),
    Mutant(
        "a channel that raised is told more of the reply",
        "RUN-23",
        "acts/asking.py",
        "                del self.channels[name]\n",
        "",
        (f"{DELIVERING}::test_a_channel_that_raised_in_mid_stream_is_left_alone_until_the_reply_is_whole",),
    ),
    Mutant(
        "a failure in mid-stream is not written",
        "RUN-23",
        "acts/asking.py",
        "        self._write_send_failures()\n",
        "",
        (f"{DELIVERING}::test_a_channel_that_raises_once_gets_the_reply_later",),
    ),
    Mutant(
        "failures are written in the order in which they happened",
        "RUN-14, RUN-23",
        "acts/asking.py",
        "        for name in self.owed:\n            if name in self.channel_faults:\n"
        "                write_send_failed",
        "        for name in self.channel_faults:\n            if name in self.owed:\n"
        "                write_send_failed",
        (f"{DELIVERING}::test_both_channels_may_fail_in_any_order",),
    ),
    Mutant(
        "a reply is streamed to a channel that waits for an earlier one",
        "RUN-23",
        "acts/asking.py",
        "if not is_behind(self.step.state, name)}",
        "}",
        (f"{DELIVERING}::test_a_back_off_does_not_hold_up_the_turn",),
    ),
    Mutant(
        "a channel that missed a new beginning keeps the old words",
        "RUN-8, RUN-23",
        "acts/delivering.py",
        "        if resets:\n            await channel.reset(reply_id)\n",
        "",
        (f"{DELIVERING}::test_a_reply_that_was_begun_anew_without_the_channel",),
    ),
    Mutant(
        "the text of a channel's error is cut before it is redacted",
        "LOG-13",
        "acts/delivering.py",
        "text = step.without_secrets(storable(str(error)))",
        "text = storable(str(error))",
        (f"{DELIVERING}::test_the_text_of_an_error_is_redacted_and_cut",),
    ),
    Mutant(
        "a wait for a channel is not ended by other work",
        "RUN-23",
        "waking.py",
        "watching = asyncio.ensure_future(world.news(session, session.last_seq))",
        "watching = asyncio.ensure_future(world.cancelled(session, session.last_seq))",
        (f"{DELIVERING}::test_what_is_said_during_a_back_off_is_answered_before_it_has_passed",),
    ),
    Mutant(
        "the next wake does not try again",
        "RUN-9, RUN-23",
        "waking.py",
        "verdict = decided(world, session, new_worker=True)",
        "verdict = decided(world, session)",
        (f"{DELIVERING}::test_a_channel_that_raises_a_few_times", f"{DELIVERING}::test_every_store"),
    ),
    Mutant(
        "nothing is sent while a sub-agent waits for a person",
        "RUN-23",
        "waking.py",
        "verdict = or_retry(msgspec.structs.replace(verdict, decision=Await()))",
        "verdict = msgspec.structs.replace(verdict, decision=Await())",
        (f"{DELIVERING}::test_a_sender_sends_again_while_its_sub_agent_waits_for_a_person",),
    ),
    Mutant(
        "the call stands behind the request",
        "RUN-3",
        "acts/asking.py",
        "        self._write_call()\n        asked = await unless_cancelled(self.step, self._stream(reply))\n",
        "        asked = await unless_cancelled(self.step, self._stream(reply))\n        self._write_call()\n",
        (f"{ASKING}::test_the_order_of_a_reply",),
    ),
    Mutant(
        "a resumed reply forgets what it had said",
        "RUN-8",
        "acts/asking.py",
        'prior=prior if decision.strategy == "resume" else ""',
        'prior=""',
        ("tests/kernel/test_streaming.py::test_resumed_after_every_delta",),
    ),
    Mutant(
        "a journal is sealed as often as it is found",
        "RUN-8",
        "turn/unsealed.py",
        "    if journal in tree.links or (subject is not None and _is_told(tree, subject)):\n",
        "    if journal in tree.links:\n",
        (f"{ASKING}::test_a_partial_is_sealed_once",),
    ),
    Mutant(
        "journals are left lying",
        "RUN-10",
        "acts/sealing.py",
        "lease=lease)\n        session.store.drop(session.name, journal)\n",
        "lease=lease)\n",
        (f"{RUNNING}::test_what_a_killed_tool_had_shown_is_told",),
    ),
    Mutant(
        "a step shows no fence",
        "law 6",
        "acts/step.py",
        "            lease=self.lease,\n            behind=",
        "            behind=",
        (
            f"{STEP}::test_a_step_whose_lease_is_lost_writes_nothing",
            f"{RUNNING}::test_a_worker_that_was_overtaken_begins_nothing",
        ),
    ),
    Mutant(
        "what was decided on is not what it stands behind",
        "RUN-1",
        "acts/step.py",
        "behind=None if self.begun else self.decided_on,",
        "behind=None,",
        (
            f"{STEP}::test_the_first_entry_stands_behind_what_was_decided_on",
            f"{STEP}::test_what_somebody_says_meanwhile_is_decided_anew",
        ),
    ),
    Mutant(
        "a session at rest is taken up",
        "RUN-1",
        "waking.py",
        "    if _is_idle(verdict.decision):\n",
        "    if False:\n",
        (f"{STEP}::test_a_session_that_has_nothing_to_do_is_not_touched",),
    ),
    Mutant(
        "an empty summary is a fold",
        "RUN-16",
        "acts/folding.py",
        '        if not self._said:\n            return FaultReport(kind="empty", message="the summary was empty")\n',
        "",
        (f"{FOLDING}::test_a_summary_that_is_no_use_changes_nothing_and_ends",),
    ),
    Mutant(
        "a request is rebuilt from what came later",
        "VIEW-9",
        "acts/requests.py",
        "fact for fact in branch.facts if fact.seq < (call.seq or 0)",
        "fact for fact in branch.facts if fact.seq < 0",
        (f"{PREFIX}::test_each_request_can_be_rebuilt",),
    ),
    Mutant(
        "the digest is of another request",
        "VIEW-9",
        "acts/requests.py",
        "    context = build_context(branch, call.strategy)\n",
        "    context = build_context(branch)\n",
        (f"{PREFIX}::test_each_request_can_be_rebuilt",),
    ),
    Mutant(
        "the summary of a call is told with its own words",
        "VIEW-9",
        "acts/requests.py",
        "    return msgspec.structs.replace(context, injected=call.injected), branch_state(branch).answers\n",
        "    return context, branch_state(branch).answers\n",
        (f"{REQUESTS}::test_every_call_of_the_long_session_is_rebuilt",),
    ),
    Mutant(
        "a window parts a call from its result",
        "law 7, law 8",
        "views/context.py",
        "    return max(at for at in group_starts([message for _, message in items]) if at <= start)",
        "    return start",
        (f"{PREFIX}::test_each_request_is_valid",),
    ),
    Mutant(
        "requests shift with every message",
        "law 8",
        "views/context.py",
        "    items = items[_window_start(items, plan, fold) :]\n",
        "    items = items[len(items) // 5 :]\n",
        (f"{PREFIX}::test_each_request_begins_with_the_one_before",),
    ),
    Mutant(
        "a child is made before it is named",
        "TREE-6",
        "acts/children.py",
        "    child = step.world.clock.new_id()\n    step.write(",
        "    child = step.world.clock.new_id()\n"
        '    step.world.store.create(child, \'a\', \'b\', lambda n: b\'{"type":"session","id":"%b"}\' % '
        "child.encode())\n"
        "    step.write(",
        (f"{LIVE}::test_a_death_anywhere_makes_no_second_child",),
    ),
    Mutant(
        "a child is told its task again",
        "TREE-6",
        "live.py",
        "    if not any(isinstance(link.value, Message) and isinstance(link.value.message, Prompt) for link "
        "in links):\n",
        "    if True:\n",
        (f"{LIVE}::test_a_child_that_waits_lets_its_parent_wait",),
    ),
    Mutant(
        "sub-agents go as deep as they like",
        "TREE-6",
        "live.py",
        '"children": depth - 1 if isinstance(depth, int) else 0',
        '"children": depth',
        (f"{LIVE}::test_a_child_is_a_session_whose_last_reply_is_the_result",),
    ),
    Mutant(
        "a cancelled parent leaves its child at work",
        "RUN-12",
        "acts/settling.py",
        "    if decision.call.child is not None:\n",
        "    if False:\n",
        (f"{LIVE}::test_a_cancelled_parent_calls_its_child_back",),
    ),
)
