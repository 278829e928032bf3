"""RUN-19, law 2: what holds in a session is what it began with and what was said since; configuration changes nothing
behind its back, and what belongs to a model goes with the model."""

from tests.app.test_models import context, entries
from wakelog.app.agent import Agent
from wakelog.app.approvals import OpenQuestion, allow_always, decide_question
from wakelog.app.event_loop import contact_no_servers
from wakelog.app.settings import Overrides, apply_settings
from wakelog.decide.policy import Policy, policy_in_force
from wakelog.log.content import ToolCall
from wakelog.log.entry import Attention, ContextEntry, InstructionSource
from wakelog.projections.branch_state import branch_state
from wakelog.projections.pending import OpenToolCall
from wakelog.runtime.user_actions import Question
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore


def exact(shell, name="agent_user_1"):
    return shell("context", name, "--exact", "--json").json


def test_an_instruction_file_that_comes_later(shell):
    """LOG-14: a session that began without any finds the one that is there at its next run."""
    shell("run", "Hi.")
    assert "sources" not in context(shell)
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "-s", "agent_user_1", "And?")
    assert "Use tabs." in exact(shell)["system"]


def test_instruction_files_can_be_switched_off(shell, mine):
    """LOG-14: where that is agreed, none is read, at no run."""
    mine("[agents.agent]\ninstructions = false\n")
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "Hi.")
    shell("run", "-s", "agent_user_1", "--system", "Be brief.", "And?")
    assert exact(shell)["system"] == "Be brief."


def test_a_log_that_does_not_say_whether_files_are_read(shell, store):
    """LOG-14: one that has read some reads them at its next run; one that has not does not."""
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    for number, sources in (
        (1, ()),
        (2, (InstructionSource(kind="instructions", path="/gone/AGENTS.md", scope="project"),)),
    ):
        session = Session.create(store, agent="old", provider="demo", model="demo", cwd=str(shell.folder))
        session.append(ContextEntry(sources=sources))
        shell("run", "-s", f"old_user_{number}", "Hi.")
    assert "context" not in [row["type"] for row in entries(shell, "old_user_1")[2:]]
    assert "Use tabs." in exact(shell, "old_user_2")["system"]


def test_own_words_that_end_in_a_line_end_are_no_news(shell, mine):
    """Law 8: files end in a line end; going on with such words in front of instruction files changes nothing."""
    mine('[agents.agent]\nsystem = "Be brief.\\n"\n')
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "Hi.")
    shell("run", "-s", "agent_user_1", "And?")
    assert [row["type"] for row in entries(shell)].count("context") == 1


def test_a_session_that_was_never_run_begins_as_it_is_configured(shell, mine):
    """RUN-19: `new` makes a session, and its first run makes it that of the agent it is named for."""
    mine("[agents.reviewer]\nmodel = 'demo'\nsystem = 'Be strict.'\ntools = ['read']\n")
    shell("new", "--agent", "reviewer")
    shell("run", "-s", "reviewer_user_1", "--compact-at", "9000", "Hi.")
    shown = exact(shell, "reviewer_user_1")
    assert (shown["system"], [tool["name"] for tool in shown["tools"]]) == ("Be strict.", ["read"])
    assert context(shell, "reviewer_user_1")["policy"]["compactAt"] == 9000


def test_another_model_has_its_own_price(shell, mine, script):
    """What was spent is counted at the price of whoever answered; a model without a price has none."""
    one, two = (script({"text": "a"}, {"text": "b"}, name=name) for name in ("1.jsonl", "2.jsonl"))
    mine(f"[prices.'{one}']\ninput = 5\n[prices.'{two}']\ninput = 7\n")
    shell("run", "--model", one, "Hi.")
    assert context(shell)["policy"]["price"]["input"] == 5_000_000
    shell("run", "-s", "agent_user_1", "--model", two, "And?")
    assert context(shell)["policy"]["price"]["input"] == 7_000_000
    shell("run", "-s", "agent_user_1", "--model", "demo", "And?")
    assert context(shell)["policy"]["price"] is None


def test_a_model_of_another_provider_is_asked_where_that_is(shell, store, mine):
    """The address stands in the log, whichever model the session began with."""
    mine("[providers.openai-chat]\nbase_url = 'http://127.0.0.1:9/v1'\n")
    shell("run", "Hi.")
    apply_settings(Session(store, "agent_user_1"), Overrides(model="openai-chat:x"), contact_no_servers)
    assert context(shell)["params"] == {"endpoint": "http://127.0.0.1:9/v1"}
    apply_settings(Session(store, "agent_user_1"), Overrides(model="demo"), contact_no_servers)
    assert "params" not in context(shell)


def test_what_may_never_run_does_not():
    """RUN-13: `--yes` and `always` answer questions; where nothing is asked there is nothing to answer."""
    agreed = Policy(approval="ask", approvals={"shell": "deny", "read": "ask", "list": "auto"})
    said = Overrides(yes=True).policy(agreed)
    assert (said.approval, said.approvals) == ("auto", {"shell": "deny"})
    strict = Overrides(yes=True).policy(Policy(approval="deny", approvals={"read": "ask"}))
    assert (strict.approval, strict.approvals) == ("deny", {"read": "auto"})
    session = Agent(model="demo", policy=agreed).begin(MemoryStore())
    for tool in ("shell", "read"):
        allow_always(session, tool)
    in_force = policy_in_force(branch_state(session.branch()).context)
    assert (in_force.approval_of("shell"), in_force.approval_of("read")) == ("deny", "auto")


def test_always_said_of_another_agent_is_said_of_that_alone():
    """RUN-13: what a sub-agent of another name may do is nothing that its sender may."""
    store = MemoryStore()
    asks = Policy(approvals={"shell": "ask"})
    root, like, other = (Agent(model="demo", name=name, policy=asks).begin(store) for name in ("boss", "boss", "aide"))
    for session, lifted in ((other, "ask"), (like, "auto")):
        asked = session.append(Attention(reason="approve", reply_id="r", tool_call_id="t")).value
        assert isinstance(asked, Attention)
        call = OpenToolCall("r", ToolCall(id="t", name="shell", input={}), is_own=True)
        decide_question(root, OpenQuestion(session, Question(asked, call)), "always")
        found = [policy_in_force(branch_state(each.branch()).context).approval_of("shell") for each in (session, root)]
        assert found == ["auto", lifted]


def test_an_agent_that_nobody_configured_is_named(shell, mine):
    """A slip of the keyboard would leave all behind that was agreed on for somebody else: it is said."""
    mine("[agents.reviewer.approvals]\nshell = 'deny'\n")
    assert (
        'agent "reviewr" has no configuration; using defaults'
        in shell.process("run", "--agent", "reviewr", "Hi.", typed=b"").err
    )
    assert "configured" not in shell.process("run", "--agent", "reviewer", "Hi.", typed=b"").err


def test_a_folder_that_is_gone(shell):
    """One line says so; a session that works elsewhere goes on."""
    gone = shell.folder / "gone"
    gone.mkdir()
    answer = shell.process("run", "Hi.", cwd=gone, preexec_fn=gone.rmdir)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "no longer exists; set the working folder with --cwd" in answer.err
    gone.mkdir()
    words = ("run", "--cwd", str(shell.folder), "Hi.")
    assert shell.process(*words, cwd=gone, preexec_fn=gone.rmdir).code == 0


# ── other agents ─────────────────────────────────────────────────────────────────────────────────


def sends(agent, prompt="Look."):
    return {"toolCalls": [{"name": "agent", "input": {"prompt": prompt, "agent": agent}}]}


def results(shell, name="agent_user_1"):
    said = [row["message"] for row in entries(shell, name) if row["type"] == "message"]
    return [part["text"] for each in said if each["role"] == "toolResult" for part in each["content"]]


def test_a_sub_agent_that_is_another_agent(shell, mine, script):
    """TREE-6, law 2: it works with its own model, instructions, tools and policy, all of them from its sender's log."""
    boss = script(sends("reviewer"), {"text": "Done."}, name="boss.jsonl")
    reviewer = script({"text": "Looks fine."}, name="reviewer.jsonl")
    mine(
        f"model = '{boss}'\n[agents.reviewer]\nmodel = '{reviewer}'\nsystem = 'Be strict.'\ntools = ['read', 'agent']\n"
        "compact_at = 9000\neffort = 'low'\n[agents.reviewer.hooks]\nmemory = false\n"
    )
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    with_model_unsaid = {"WAKELOG_MODEL": ""}
    assert shell.process("run", "Hi.", env=with_model_unsaid).code == 6
    mine("")
    assert shell.process("attention", "agent_user_1", "--approve", "--wake", env=with_model_unsaid).code == 0
    assert results(shell) == ["Looks fine."]
    child = exact(shell, "reviewer_user_1")
    assert child["system"].startswith("Be strict.\n\nInstructions from ")
    assert child["system"].endswith("Use tabs.")
    assert [tool["name"] for tool in child["tools"]] == ["read", "agent"]
    assert child["tools"][1] == next(tool for tool in exact(shell)["tools"] if tool["name"] == "agent")
    assert f"scripted:{child['model']}" == reviewer
    found = context(shell, "reviewer_user_1")
    assert (found["policy"]["compactAt"], found["policy"]["children"], found["params"]) == (9000, 2, {"effort": "low"})
    assert [hook["name"] for hook in found["policy"]["hooks"]] == ["environment", "agents"]


def test_what_the_model_is_told_of_other_agents(shell, mine):
    """Their names; what they are stands in the log alone. Where there are none, nothing is said of them."""
    mine("[agents.reviewer]\nsystem = 'Be strict.'\n")
    shell("run", "Hi.")
    (declared,) = [tool for tool in exact(shell)["tools"] if tool["name"] == "agent"]
    assert declared["schema"]["properties"]["agent"]["enum"] == ["reviewer"]
    mine("")
    shell("run", "Hi.")
    (declared,) = [tool for tool in exact(shell, "agent_user_2")["tools"] if tool["name"] == "agent"]
    assert list(declared["schema"]["properties"]) == ["prompt"]


def test_an_agent_that_nobody_configured_cannot_be_sent(shell, mine, script):
    """RUN-7: one line tells the model who there is; nobody is made."""
    model = script(sends("reviwer"), {"text": "Done."})
    mine("[agents.reviewer]\n[agents.writer]\n")
    shell("run", "--yes", "--model", model, "Hi.")
    assert results(shell) == ["Not run: there is no agent 'reviwer' to send; there are reviewer, writer."]
    mine("")
    shell("run", "--yes", "--model", model, "Hi.")
    assert results(shell, "agent_user_2") == ["Not run: there is no other agent to send; leave `agent` out."]
    assert len(shell("ls", "--json").rows) == 2


def test_other_agents_stay_when_tools_are_chosen_anew(shell, mine):
    """Law 2: they are those that the session began with."""
    mine("[agents.reviewer]\n")
    shell("run", "Hi.")
    before = [tool for tool in exact(shell)["tools"] if tool["name"] == "agent"]
    mine("")
    shell("run", "-s", "agent_user_1", "--tools", "agent", "And?")
    assert exact(shell)["tools"] == before
