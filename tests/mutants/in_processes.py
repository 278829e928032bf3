"""Mutants in the kernel that several processes, kills and strangers' logs must find."""

from tests.mutants.mutant import Mutant

STREAMING = "tests/kernel/test_streaming.py"
RUNAWAYS = "tests/faults/test_runaway_commands.py"
PROCESSES = "tests/kernel/test_processes.py"
EXERCISES = "tests/kernel/test_exercises.py"
STRANGERS = "tests/kernel/test_strangers.py::test_a_dangling_call_of_others_is_never_run"
CONFIGURATION = "tests/kernel/test_configuration.py"

IN_PROCESSES = (
    Mutant(
        "shown before journalled",
        "law 5, RUN-8",
        "runtime/model_call.py",
        "        self._write_piece(piece_of(delta))\n"
        "        offset = self.draft.chars\n"
        "        self.draft.take(delta)\n"
        "        if isinstance(delta, TextDelta):\n"
        "            text = delta.text\n"
        "            await self._tell(lambda channel: channel.delta(self.reply_id, offset, text))\n",
        "        offset = self.draft.chars\n"
        "        self.draft.take(delta)\n"
        "        if isinstance(delta, TextDelta):\n"
        "            text = delta.text\n"
        "            await self._tell(lambda channel: channel.delta(self.reply_id, offset, text))\n"
        "        self._write_piece(piece_of(delta))\n",
        (
            f"{STREAMING}::test_killed_at_any_delta[0]",
            f"{STREAMING}::test_killed_at_a_delta_and_begun_again",
        ),
    ),
    Mutant(
        "a resumed journal forgets what came before",
        "law 5, RUN-8",
        "decide/journals.py",
        '    return Prompt(content=partials[-1].content).text if resumes and partials else ""\n',
        '    return ""\n',
        (
            f"{STREAMING}::test_killed_at_any_delta[1]",
            f"{STREAMING}::test_resumed_after_every_delta",
        ),
    ),
    Mutant(
        "no clean restart",
        "RUN-8",
        "runtime/model_call.py",
        "            elif attempt > 1:\n                await channel.reset(self.reply_id)\n",
        "            elif attempt < 1:\n                await channel.reset(self.reply_id)\n",
        (
            f"{STREAMING}::test_replaced_after_every_delta",
            f"{EXERCISES}::test_intermediate_kill_in_the_stream_and_see_a_clean_restart",
        ),
    ),
    Mutant(
        "a resumed reply is taken back first",
        "RUN-8",
        "runtime/model_call.py",
        "            if self.prior:\n                await channel.delta(self.reply_id, 0, self.prior)\n",
        "            if self.prior:\n"
        "                await channel.reset(self.reply_id)\n"
        "                await channel.delta(self.reply_id, 0, self.prior)\n",
        (f"{STREAMING}::test_resumed_after_every_delta",),
    ),
    Mutant(
        "resume is not kept to",
        "RUN-8",
        "decide/faults.py",
        '    return "resume" if resumable and snapshot.policy.cut == "resume" else "replace"\n',
        '    return "replace"\n',
        (f"{STREAMING}::test_resumed_after_every_delta",),
    ),
    Mutant(
        "foreign calls are run",
        "law 6, RUN-6",
        "decide/open_tool_calls.py",
        "    elif not call.ours:\n",
        "    elif call.begun and not call.ours:\n",
        (
            f"{STRANGERS}[foreign_lines-agent entered]",
            f"{STRANGERS}[reply_without_a_call-as it is]",
            f"{STRANGERS}[fork_that_was_cut_off-as it is]",
        ),
    ),
    Mutant(
        "a cancelled turn goes on",
        "law 6, RUN-12",
        "decide/open_tool_calls.py",
        "    if any(isinstance(node.value, Cancelled) for node in after):\n",
        "    if not after:\n",
        (f"{STRANGERS}[cancelled_turn-as it is]",),
    ),
    Mutant(
        "a call that was overtaken is run",
        "law 6",
        "decide/open_tool_calls.py",
        "    elif any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in after):\n",
        "    elif not call.call.name:\n",
        (f"{STRANGERS}[later_prompt-as it is]",),
    ),
    Mutant(
        "any call annotation makes a reply ours",
        "law 6",
        "projections/pending.py",
        "purpose=purpose) if parent == reply.value.parent_id:\n",
        "purpose=purpose) if parent is not None:\n",
        (f"{STRANGERS}[foreign_call_for_the_reply-as it is]",),
    ),
    Mutant(
        "results stand where they were written",
        "law 7",
        "projections/context.py",
        "            group = asking.get((_answered(node), call)) or asking.get((None, call)) or []\n",
        "            groups.append(group := [])\n",
        (f"{STRANGERS}[later_prompt-as it is]",),
    ),
    Mutant(
        "fence not checked",
        "law 6",
        "stores/jsonl/store.py",
        "            if fence is not None:\n"
        "                self._check_fence(name, fence)\n"
        "            return self._append(",
        "            return self._append(",
        (
            f"{PROCESSES}::test_a_stopped_worker_that_was_overtaken[Pay.-before pay-status1]",
            f"{PROCESSES}::test_a_stopped_worker_that_was_overtaken[Pay.-paid-status3]",
        ),
    ),
    Mutant(
        "a journal has no fence",
        "law 5, law 6",
        "stores/jsonl/store.py",
        "            self._check_fence(name, fence)\n            self._journals.add(",
        "            self._journals.add(",
        (f"{PROCESSES}::test_a_stopped_worker_leaves_the_journal_alone",),
    ),
    Mutant(
        "steps are not counted over a wait",
        "RUN-1",
        "runtime/wake.py",
        "            if len(rows) == steps or (isinstance(decision, Rest | Await) and not waits):\n",
        "            elif len(rows) == steps or (isinstance(decision, Rest | Await) and not waits):\n",
        (f"{PROCESSES}::test_a_wait_counts_as_a_step",),
    ),
    Mutant(
        "replay knows no worker that left early",
        "law 11, RUN-14",
        "replaying/answers.py",
        "        if entry is not None and isinstance(entry.value, Activity):\n",
        "        if entry is not None and isinstance(entry.value, Attention):\n",
        (f"{PROCESSES}::test_no_history_lives_between_steps",),
    ),
    Mutant(
        "a cancel is forgotten by a crash",
        "RUN-12",
        "decide/table.py",
        "    return Cancel(asked[0]) if asked and under_way else None\n",
        "    return None\n",
        (
            f"{PROCESSES}::test_a_cancel_survives_a_crash[ChatState.-talking]",
            f"{PROCESSES}::test_a_cancel_survives_a_crash[Pay.-paid]",
        ),
    ),
    Mutant(
        "nothing is kept of a cancelled reply",
        "law 5, RUN-12",
        "runtime/model_call.py",
        "            self._keep_partial()\n            end_turn(",
        "            self._drop_journal()\n            end_turn(",
        (f"{PROCESSES}::test_a_cancel_reaches_the_holder_while_it_streams",),
    ),
    Mutant(
        "only the first process of a command is ended",
        "RUN-12",
        "processes/supervisor.py",
        "        running.stop_all(grace_s)\n",
        "        os.kill(running.leader, signal.SIGKILL)\n",
        (
            f"{PROCESSES}::test_a_cancel_ends_the_command_that_runs",
            f"{RUNAWAYS}::test_a_cancel_ends_every_process[a session]",
            f"{RUNAWAYS}::test_a_time_limit_ends_every_process[a session]",
            f"{RUNAWAYS}::test_sigkill_of_the_worker_ends_every_process[a session]",
        ),
    ),
    Mutant(
        "orphans of a command are out of reach",
        "RUN-12",
        "processes/supervisor.py",
        "    is_reaper = _prctl(_PR_SET_CHILD_SUBREAPER, 1)\n    changes",
        "    is_reaper = True\n    changes",
        (f"{RUNAWAYS}::test_a_cancel_ends_every_process[a double fork in a session]",),
    ),
    Mutant(
        "a command that could not be ended is called stopped",
        "law 6",
        "processes/supervisor.py",
        'running.ending() if running.is_reaper and running.is_childless() else "remains"',
        "running.ending()",
        (
            f"{RUNAWAYS}::test_what_survives_a_time_limit_is_not_called_stopped",
            f"{RUNAWAYS}::test_what_survives_a_cancel_is_told_in_the_log",
            f"{RUNAWAYS}::test_without_proc_it_is_told_that_processes_may_be_left",
        ),
    ),
    Mutant(
        "a command that ended takes its daemons along",
        "RUN-12",
        "processes/supervisor.py",
        "        running.kill_session()\n",
        "        running.kill_all()\n",
        (f"{RUNAWAYS}::test_a_session_of_its_own_outlives_a_normal_end_and_is_named",),
    ),
    Mutant(
        "a command that ended leaves its groups behind",
        "RUN-12",
        "processes/supervisor.py",
        "        running.kill_session()\n",
        "        os.killpg(running.leader, signal.SIGKILL)\n",
        (f"{RUNAWAYS}::test_a_group_of_its_own_ends_with_a_normal_end",),
    ),
    Mutant(
        "a command outlives its inner supervisor",
        "law 6",
        "processes/supervisor.py",
        "        _end_after_inner(Report(report), is_reaper=is_reaper)\n",
        "        pass\n",
        (f"{RUNAWAYS}::test_the_inner_supervisor_is_killed[a session]",),
    ),
    Mutant(
        "a command outlives its outer supervisor",
        "law 6",
        "processes/supervisor.py",
        "    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)\n",
        "",
        (f"{RUNAWAYS}::test_the_outer_supervisor_is_killed[a session]",),
    ),
    Mutant(
        "the kernel does not end the first process of a command",
        "law 6",
        "processes/supervisor.py",
        "        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        "",
        (f"{RUNAWAYS}::test_the_worker_and_both_supervisors_are_killed_at_once",),
    ),
    Mutant(
        "nobody looks out for a cancel",
        "RUN-12",
        "runtime/live.py",
        '            if isinstance(entry.value, Queued) and entry.value.mode == "cancel":\n',
        '            if isinstance(entry.value, Queued) and entry.value.mode == "compact":\n',
        (f"{PROCESSES}::test_a_cancel_ends_the_command_that_runs",),
    ),
    Mutant(
        "a person speaks into a busy session",
        "RUN-11",
        "session.py",
        "            if not busy:\n",
        "            if busy is not None:\n",
        (f"{PROCESSES}::test_a_steer_reaches_the_holder[alive-ChatState.-talking]",),
    ),
    Mutant(
        "a steer is never taken up",
        "RUN-11",
        "decide/table.py",
        '    return next((TakeUp(queued) for queued in snapshot.open.queue if queued.mode == "steer"), None)\n',
        "    return None\n",
        (
            f"{PROCESSES}::test_a_steer_reaches_the_holder[alive-Pay.-paid]",
            f"{PROCESSES}::test_a_steer_reaches_the_holder[killed-ChatState.-talking]",
        ),
    ),
    Mutant(
        "a count lives in the process",
        "RUN-1, law 2",
        "runtime/model_call.py",
        "answers=state.answers, prefill=self.prior)\n",
        'answers=setattr(_Answer, "n", getattr(_Answer, "n", -1) + 1) or _Answer.n, prefill=self.prior)\n',
        (
            f"{PROCESSES}::test_no_history_lives_between_steps",
            f"{EXERCISES}::test_beginner_kill_the_process_and_the_conversation_continues",
        ),
    ),
    Mutant(
        "the model is read from the environment",
        "RUN-19, law 2",
        "runtime/model_call.py",
        '        provider = self.step.world.provider(context.provider or "", context.model or "")\n',
        '        provider = self.step.world.provider(*__import__("os").environ["WAKELOG_MODEL"].split(":", 1))\n',
        (f"{CONFIGURATION}::test_the_turn_ends_as_it_would_have[_killed_in_its_reply]",),
    ),
    Mutant(
        "the folder is the waker's",
        "RUN-19, law 2",
        "runtime/step.py",
        "        return self.card.cwd\n",
        '        return ""\n',
        (f"{CONFIGURATION}::test_the_turn_ends_as_it_would_have[_killed_in_its_reply]",),
    ),
    Mutant(
        "the policy is the default",
        "RUN-19, law 2",
        "decide/snapshot.py",
        "policy_in_force(state.context, rules)",
        "policy_in_force(None, rules)",
        (f"{CONFIGURATION}::test_the_turn_ends_as_it_would_have[_killed_in_its_tool]",),
    ),
    Mutant(
        "a tool that may never run twice is begun twice",
        "law 6, RUN-6",
        "decide/open_tool_calls.py",
        '        is_unknown = call.doubtful or call.replay == "never"\n',
        "        is_unknown = call.doubtful\n",
        (
            f"{CONFIGURATION}::test_what_a_tool_was_when_it_was_begun",
            f"{PROCESSES}::test_a_stopped_worker_that_was_overtaken[Pay.-paid-status3]",
        ),
    ),
    Mutant(
        "receipts are not asked for",
        "RUN-6",
        "decide/open_tool_calls.py",
        '        is_unknown = call.doubtful or call.replay == "never"\n',
        '        is_unknown = call.doubtful or call.replay != "safe"\n',
        (
            f"{EXERCISES}::test_advanced_kill_in_the_tool_and_it_runs_exactly_once[after-receipt]",
            f"{EXERCISES}::test_advanced_kill_in_the_tool_and_it_runs_exactly_once[before-receipt]",
        ),
    ),
    Mutant(
        "a safe tool is not run again",
        "RUN-6",
        "decide/open_tool_calls.py",
        '        is_unknown = call.doubtful or call.replay == "never"\n',
        '        is_unknown = call.doubtful or call.replay != "receipt"\n',
        (f"{EXERCISES}::test_advanced_kill_in_the_tool_and_it_runs_exactly_once[before-safe]",),
    ),
)
