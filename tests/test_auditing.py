"""VIEW-11: an audit has every tool call with its input, status, duration and who or what allowed it, from the log."""

import asyncio

import pytest

from wakelog.app.agent import Agent
from wakelog.auditing import SessionAudit
from wakelog.decide.policy import Policy
from wakelog.forking import fork
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Attention, AttentionResolved, Compaction, Message, ModelCall, ModelChange, ToolStarted
from wakelog.ports.stores import Store
from wakelog.projections.tool_audit import AuditedCall, AuditedTurn, Permission
from wakelog.providers.scripted import ScriptedProvider
from wakelog.questions import collect_questions
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.stores.sqlite import SqliteStore
from wakelog.testing.builders import SessionBuilder

AUTO = Permission(by="policy", decision="auto")
UNKNOWN = Permission(by="unknown")


@pytest.fixture(params=["memory", "files", "sqlite"])
def store(request, tmp_path):
    opened: Store
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param == "files":
        opened = JsonlStore(str(tmp_path))
    else:
        opened = SqliteStore(str(tmp_path / "sessions.db"))
    yield opened
    opened.close()


def pay(euros: int) -> str:
    """Pays."""
    return f"paid {euros}"


def fail() -> str:
    """Fails."""
    raise ValueError("no")


def calling(*calls):
    return {"toolCalls": [{"name": name, "input": given} for name, given in calls]}


def agent(*replies, model="scripted:m", system="", **policy):
    return Agent(
        model, tools=[pay, fail], system=system, provider=ScriptedProvider([*replies]), policy=Policy(**policy)
    )


def calls_of(store, session, **more):
    return [row for row in SessionAudit(store, session.name).rows(**more) if isinstance(row, AuditedCall)]


def turns_of(store, session):
    return [row for row in SessionAudit(store, session.name).rows() if isinstance(row, AuditedTurn)]


# ── who or what allowed it ───────────────────────────────────────────────────────────────────────


def test_calls_that_the_policy_allowed(store):
    """VIEW-11: input, status, duration, turn and the policy, for each of two calls of one reply."""
    script = agent(calling(("pay", {"euros": 3}), ("fail", {})), {"text": "Done."})
    session = script.run_sync(store, "Go").session
    paid, failed = calls_of(store, session)
    assert [(row.tool, row.input, row.status, row.starts) for row in (paid, failed)] == [
        ("pay", {"euros": 3}, "ok", 1),
        ("fail", {}, "error", 1),
    ]
    assert paid.allowed == failed.allowed == AUTO
    assert paid.duration_ms is not None
    assert paid.started is not None
    assert paid.ended is not None
    prompt = next(node for node in session.branch().nodes if getattr(node.value, "message", None))
    assert paid.turn == prompt.id
    assert paid.effect_unknown is failed.effect_unknown is False
    assert list(session.audit()) == [paid, failed]


@pytest.mark.parametrize(("decision", "status"), [("approve", "ok"), ("deny", "denied")])
def test_a_call_that_a_person_decided(store, decision, status):
    """VIEW-11: the decision of a person, with its time and the name that the program gave."""
    asking = agent(calling(("pay", {"euros": 3})), {"text": "Done."}, approval="ask")
    session = asking.run_sync(store, "Go").session
    (open_call,) = calls_of(store, session)
    assert (open_call.status, open_call.allowed.by, open_call.allowed.decision) == ("open", "pending", "approve")
    (question,) = collect_questions(session)
    assert open_call.allowed.time == question.attention.timestamp
    answer = question.answer(decision, by="ada")
    asyncio.run(asking.wake(store, session))
    (row,) = calls_of(store, session)
    assert row.status == status
    assert row.allowed == Permission(by="person", decision=decision, time=answer.value.timestamp, person="ada")


def test_a_call_that_the_policy_denied(store):
    """VIEW-11: a denial by policy is not that of a person, and not that of a rule."""
    session = agent(calling(("pay", {"euros": 3})), {"text": "Done."}, approval="deny").run_sync(store, "Go").session
    (row,) = calls_of(store, session)
    assert (row.status, row.starts, row.allowed) == ("denied", 0, Permission(by="policy", decision="deny"))


def test_calls_that_a_rule_settled(store):
    """VIEW-11: a tool that does not exist, and an input that held a secret: a rule settles them, and nothing ran."""
    secret = "sk-ant-api03-" + "Ab1" * 30
    script = agent(calling(("nothing", {}), ("pay", {"euros": secret})), {"text": "Done."})
    session = script.run_sync(store, "Go").session
    assert [(row.status, row.starts, row.allowed) for row in calls_of(store, session)] == [
        ("error", 0, Permission(by="rule")),
        ("denied", 0, Permission(by="rule")),
    ]
    assert secret not in repr(calls_of(store, session))


def test_the_policy_is_that_of_the_start(store):
    """VIEW-11: a policy that was changed between the reply and the start is the one that allowed it."""
    before = agent(approval="ask").begin(store)
    before.say("Go")
    reply = append_reply(before, ("c1", "pay"))
    agent(approval="auto").enter(before)
    before.append(ToolStarted(reply_id=reply.id, tool_call_id="c1"), at=reply.id)
    (row,) = calls_of(store, before)
    assert (row.status, row.allowed, row.effect_unknown) == ("open", AUTO, True)
    agent(approval="deny").enter(before)
    assert calls_of(store, before)[0].allowed == AUTO


def append_reply(session, *calls, from_model=True):
    """Append a reply as a model call makes it, or as a program writes it."""
    reply_id = session.clock.new_id()
    if from_model:
        session.append(ModelCall(reply_id=reply_id))
    content = tuple(ToolCall(id=call, name=name, input={}) for call, name in calls)
    return session.append(Message(id=reply_id, message=Reply(content=content)))


def test_a_call_of_a_program_with_its_own_loop(store):
    """VIEW-11: a program that records its loop ran the tool itself: no policy of wakelog allowed it."""
    with Session.create(store) as session:
        session.user("Go")
        reply = session.assistant(Reply(content=(ToolCall(id="c1", name="pay", input={"euros": 1}),)))
        with session.tool(reply.tool_calls[0]) as run:
            run.result = "paid"
    (row,) = calls_of(store, session)
    assert (row.status, row.allowed, row.input) == ("ok", Permission(by="program"), {"euros": 1})


def test_a_search_that_the_provider_ran(store):
    """VIEW-11: no policy and no person was asked."""
    session = Session.create(store)
    session.append(Message(message=Prompt(content="Go")))
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "tides"}}
    session.append(Message(message=Reply(content=(Text(text="", bound={"item": search}), Text(text="At nine.")))))
    (row,) = calls_of(store, session)
    assert (row.tool, row.input, row.status) == ("web_search", {"query": "tides"}, "ok")
    assert (row.allowed, row.starts, row.effect_unknown) == (Permission(by="provider"), 1, False)


def test_a_call_of_an_imported_session_is_unknown(store):
    """VIEW-11: who allowed a call of another agent, and whether one without a result ran there, is not known."""
    session = Session.create(store, settings={"imported": "codex"})
    session.append(Message(message=Prompt(content="Go")))
    reply = append_reply(session, ("c1", "pay"), ("c2", "pay"), from_model=False)
    session.append(Message(message=ToolResult(tool_call_id="c1", reply_id=reply.id, content="paid")))
    done, lost = calls_of(store, session)
    assert (done.status, done.allowed, done.duration_ms, done.starts) == ("ok", UNKNOWN, None, 0)
    assert (lost.status, lost.allowed, lost.effect_unknown) == ("unknown", UNKNOWN, True)
    (turn,) = turns_of(store, session)
    assert (turn.settings.context, turn.settings.model) == (None, None)


# ── effects that are unknown ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", ["unknown", "interrupted"])
def test_an_outcome_that_is_unknown(store, status):
    """VIEW-11: a call that may have had its effect is marked; a person's word about it ends that."""
    story = SessionBuilder(store)
    story.user("Go")
    story.call("r1")
    reply = story.reply(calls=[("c1", "pay", {})])
    story.started(reply, "c1")
    story.result(reply, "c1", status=status)
    assert calls_of(store, story.session)[0].effect_unknown is True


def test_what_a_person_said_about_an_outcome(store):
    """VIEW-11: the answer to "did it run?" is no permission."""
    story = SessionBuilder(store)
    story.user("Go")
    reply = append_reply(story.session, ("c1", "pay"))
    story.started(reply, "c1")
    asked = story.session.append(Attention(reason="unknown", reply_id=reply.id, tool_call_id="c1"), at=reply.id)
    assert calls_of(store, story.session)[0].effect_unknown is True
    story.session.append(AttentionResolved(attention_id=asked.id, decision="ran", by="ada"), at=reply.id)
    story.result(reply, "c1")
    (row,) = calls_of(store, story.session)
    assert (row.outcome.decision, row.outcome.person, row.allowed, row.effect_unknown) == ("ran", "ada", UNKNOWN, False)


def test_an_open_call_behind_damage_may_have_run(tmp_path):
    """Law 6: where the entry of a start may be lost, the effect of an open call is unknown."""
    store = JsonlStore(str(tmp_path))
    story = SessionBuilder(store)
    story.user("Go")
    reply = append_reply(story.session, ("c1", "pay"))
    assert calls_of(store, story.session)[0].effect_unknown is False
    with open(store.folder.log_path(story.session.name), "ab") as file:
        file.write(b"\0garbage\n")
    audit = SessionAudit(store, story.session.name)
    (row,) = [row for row in audit.rows() if isinstance(row, AuditedCall)]
    assert (row.entry, row.effect_unknown, len(audit.damage)) == (reply.id, True, 1)


# ── branches, forks, compactions ─────────────────────────────────────────────────────────────────


def test_calls_of_other_branches_are_marked(store):
    """VIEW-11: each call once, with the result of its branch; those beside the branch are marked."""
    story = SessionBuilder(store)
    prompt = story.user("Go")
    one = story.reply(calls=[("c1", "pay", {})])
    story.result(one, "c1", status="error")
    two = story.reply(calls=[("c1", "pay", {"euros": 2})], at=prompt.id)
    story.session.move_head(two.id)
    story.result(two, "c1")
    assert [(row.entry, row.status, row.on_branch) for row in calls_of(store, story.session)] == [
        (one.id, "error", False),
        (two.id, "ok", True),
    ]
    assert [row.entry for row in story.session.audit()] == [two.id]
    first = SessionAudit(store, story.session.name)
    rows = first.rows(first.scan.outline.find(one.id))
    assert [row.entry for row in rows if isinstance(row, AuditedCall) and row.on_branch] == [one.id]


def test_a_call_with_two_results_has_that_of_the_branch(store):
    """VIEW-11: a call that was settled on two branches has on each the status that holds there."""
    story = SessionBuilder(store)
    story.user("Go")
    reply = story.reply(calls=[("c1", "pay", {})])
    story.result(reply, "c1", status="interrupted")
    paid = ToolResult(tool_call_id="c1", reply_id=reply.id, status="ok", content="paid")
    other = story.session.append(Message(message=paid), at=reply.id, fork=True)
    assert [row.status for row in calls_of(store, story.session)] == ["interrupted"]
    story.session.move_head(other.id)
    assert [row.status for row in calls_of(store, story.session)] == ["ok"]


def test_calls_that_a_fork_inherited_are_marked(store):
    """VIEW-11: a fork lists the calls before it, with what allowed them there; without them if asked."""
    session = agent(calling(("pay", {"euros": 1})), {"text": "Done."}).run_sync(store, "Go").session
    child = fork(session)
    second = fork(child)
    for made in (child, second):
        (row,) = calls_of(store, made)
        assert (row.inherited, row.status, row.allowed, row.session) == (True, "ok", AUTO, made.name)
        assert calls_of(store, made, inherited=False) == []
        assert [turn.inherited for turn in turns_of(store, made)] == [True]


def test_calls_before_a_compaction_are_listed(store):
    """VIEW-4, VIEW-11: a compaction hides no call from an audit."""
    story = SessionBuilder(store)
    story.user("Go")
    story.result(story.reply(calls=[("c1", "pay", {})]), "c1")
    story.session.compact("They paid.")
    assert any(isinstance(entry.value, Compaction) for entry in story.session.entries())
    assert [row.status for row in calls_of(store, story.session)] == ["ok"]
    assert len(turns_of(store, story.session)) == 1


def test_results_of_other_programs_name_no_reply(store):
    """VIEW-11: such a result answers the last open call with its id."""
    story = SessionBuilder(store)
    story.user("Go")
    story.reply(calls=[("c1", "pay", {})])
    story.session.append(Message(message=ToolResult(tool_call_id="c1", status="error")))
    story.reply(calls=[("c1", "pay", {})])
    story.session.append(Message(message=ToolResult(tool_call_id="c1", status="denied")))
    assert [row.status for row in calls_of(store, story.session)] == ["error", "denied"]


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


def test_the_settings_of_each_turn(store):
    """VIEW-11: each turn has the settings of its first answer, and what changed since the turn before."""
    session = agent(*[{"text": "Yes."}] * 3, system="Be brief.").run_sync(store, "One").session
    agent(*[{"text": "Yes."}] * 3, model="scripted:other", approval="ask").run_sync(store, "Two", session=session)
    agent(*[{"text": "Yes."}] * 3, model="scripted:other", approval="ask").run_sync(store, "Three", session=session)
    one, two, three = turns_of(store, session)
    assert [turn.turn.prompt for turn in (one, two, three)] == ["One", "Two", "Three"]
    assert (one.settings.model, one.changed) == ("m", ())
    assert {each.what for each in two.changed} == {
        "model",
        "instructions",
        "policy.approval",
        "environment.approvalPolicy",
        "environment.model",
    }
    assert three.changed == ()
    assert two.settings is three.settings


def test_settings_that_change_before_the_first_answer_are_those_of_the_turn(store):
    """VIEW-11: a turn whose settings are written after its prompt is not shown without them."""
    session = Session.create(store, model="a", provider="p")
    session.append(Message(message=Prompt(content="Go")))
    session.append(ModelChange(model="b"))
    session.append(Message(message=Reply(content=(Text(text="Yes."),))))
    session.append(ModelChange(model="c"))
    (turn,) = turns_of(store, session)
    assert (turn.settings.model, turn.changed) == ("b", ())
    session.append(Message(message=Reply(content=(Text(text="More."),))))
    first, within = turns_of(store, session)
    assert first.settings.model == "b"
    assert [(each.what, each.before, each.after) for each in within.changed] == [("model", "b", "c")]
    session.append(Message(message=Prompt(content="Again")))
    assert turns_of(store, session)[-1].changed == ()
