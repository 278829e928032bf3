"""Laws 5, 6, 7, 11 and 15, RUN-4, RUN-14: random sessions whose workers crash anywhere become idle, and replay.

A play has text, thoughts, tools of three replay words, sub-agents, approvals, faults, folds, steers, cancels, forks
and reruns; its workers die before or after a random write of their store. What must hold then is what must hold
for an undisturbed one.
"""

import asyncio
from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings

from tests.laws.plays import ACTIONS, KILLS, SEEDS, Moody, Play
from wakelog.decide.decisions import Idle
from wakelog.log.content import BaseMessage, Reply, ToolResult
from wakelog.log.entry import Cancelled, Message, ModelCall, SendFailed, Sent
from wakelog.log.integrity import verify_seals
from wakelog.log.tree import Tree
from wakelog.projections.deliveries import deliveries
from wakelog.projections.pending import open_tool_calls
from wakelog.projections.session_state import session_state
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import replay


def _judge(play):
    for stat in list(play.store.sessions()):
        log = read_log(play.store, stat.name)
        assert log.damage == ()
        proof = verify_seals(play.store.load(stat.name))
        assert (proof.broken, proof.unsealed) == ((), 0)
        assert play.store.journals(stat.name) == {}
        _each_call_has_one_result(log)
        assert deliveries(log.tree) == session_state(log.tree).deliveries == _deliveries_step_by_step(log)
        _replies_were_delivered(log, play.outside.channel)
        again = asyncio.run(replay(play.store, stat.name))
        assert again.ok, (
            stat.name,
            again.reason,
            again.divergence and (again.divergence.recorded, again.divergence.written),
        )
    for (name, *call), count in play.outside.effects.items():
        if name == "pay":
            assert count <= 1 + play.allowed[(name, *call)], call


def _deliveries_step_by_step(log):
    growing = Tree()
    for entry in log.entries:
        growing.add(entry)
        deliveries(growing)
    return deliveries(growing)


def _each_call_has_one_result(log):
    for leaf in (log.tree.head, *log.tree.leaves()):
        nodes = log.tree.branch(leaf).nodes
        said = [node.value.message for node in nodes if isinstance(node.value, Message)]
        results = Counter((it.reply_id, it.tool_call_id) for it in said if isinstance(it, ToolResult))
        assert all(count == 1 for count in results.values()), results
    assert open_tool_calls(log.tree.branch()) == ()


def _replies_were_delivered(log, channel):
    """The text of a sent reply in a channel is the text in the log, whichever worker delivered it (law 5)."""
    for entry in log.entries:
        if isinstance(entry.value, Sent) and entry.value.channel == channel.name:
            assert channel.replies[entry.value.reply_id] == _text_sent(log, entry.value)
            assert (entry.value.reply_id in channel.ended) == (entry.value.interrupted != "reset")
    # RUN-25: every reply that the channel was shown is ended or reset, or still undelivered in a session that was left.
    own = {entry.value.reply_id for entry in log.entries if isinstance(entry.value, ModelCall)}
    shown = {name for name, text in channel.replies.items() if name in own and text and name not in channel.ended}
    undelivered = deliveries(log.tree).pending(None).undelivered
    assert shown <= {reply.reply_id for reply in undelivered if reply.channel == channel.name}


def _text_sent(log, sent):
    if sent.interrupted is None:
        said = log.tree.nodes[sent.reply_id].value.message
        assert isinstance(said, Reply)
        return said.text
    cancelled = [entry.value for entry in log.entries if isinstance(entry.value, Cancelled)]
    words = [BaseMessage(content=value.content).text for value in cancelled if value.reply_id == sent.reply_id]
    return words[0] if sent.interrupted == "ended" else ""


def test_any_session_becomes_idle_and_can_be_replayed():
    """Law 11: after any crashes the log replays byte for byte, from itself alone."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=150,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(SEEDS, ACTIONS, KILLS)
    def check(seed, actions, kills):
        play = Play(seed, kills=kills)
        for verb, number in actions:
            assert isinstance(play.act(verb, number).decision, Idle)
        seen.update(play.rows)
        seen["deaths"] += play.deaths
        _judge(play)

    check()
    assert seen["deaths"] > 30, seen
    assert {"answer", "owed", "rest", "fault", "cancelled", "call new"} <= set(seen), seen


def test_channels_that_raise_at_random_lose_no_reply():
    """RUN-9, RUN-23: two of three channels raise and are slow at random, workers crash, and every reply arrives once.

    What they raise ends no worker and costs no call: a call is made again only behind a death.
    """
    seen: Counter[str] = Counter()

    @settings(
        max_examples=100,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(SEEDS, ACTIONS, KILLS)
    def check(seed, actions, kills):
        play = Play(seed, kills=kills)
        play.moody = tuple(Moody(name, seed, play.clock, 0.3) for name in ("email", "phone"))
        for verb, number in actions:
            assert isinstance(play.act(verb, number).decision, Idle)
        for channel in play.moody:
            channel.rate = 0
        assert isinstance(play.rest().decision, Idle)
        seen.update(play.rows)
        seen["deaths"] += play.deaths
        _judge(play)
        for stat in list(play.store.sessions()):
            log = read_log(play.store, stat.name)
            for channel in play.moody:
                _replies_were_delivered(log, channel)
            assert _made_again(log) <= play.deaths
            seen["send_failed"] += sum(isinstance(entry.value, SendFailed) for entry in log.entries)
        assert deliveries(play.opened().tree).pending(None).undelivered == ()

    check()
    assert seen["deaths"] > 20, seen
    assert seen["send_failed"] > 100, seen
    assert {"owed", "retry", "rest", "fault", "cut"} <= set(seen), seen


def _made_again(log):
    """The number of calls that were made for a reply that had one; nothing is sent twice."""
    values = [entry.value for entry in log.entries]
    sent = Counter((value.reply_id, value.channel) for value in values if isinstance(value, Sent))
    assert set(sent.values()) <= {1}
    calls = Counter(value.reply_id for value in values if isinstance(value, ModelCall) and value.purpose == "reply")
    return sum(count - 1 for count in calls.values())
