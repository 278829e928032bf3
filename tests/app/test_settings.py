"""RUN-19, law 2: the settings of a session are those it began with and those written to its log since.

Configuration does not change them later, and settings of a model change with the model.
"""

from tests.app.test_models import context, entries
from wakelog.app.agent import Agent
from wakelog.app.approvals import allow_always, decide_question
from wakelog.app.event_loop import contact_no_servers
from wakelog.app.settings import Overrides, apply_settings
from wakelog.decide.policy import Policy, policy_in_force
from wakelog.forking import fork
from wakelog.log.content import Prompt, Reply, ToolCall
from wakelog.log.entry import Attention, ContextEntry, InstructionSource, Message
from wakelog.projections.branch_state import branch_state
from wakelog.projections.pending import OpenToolCall
from wakelog.questions import Question
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools import builtin_tools, tool


def exact_context(shell, name="agent_user_1"):
    return shell("context", name, "--exact", "--json").json


def test_an_instruction_file_that_is_added_later_is_read(shell):
    """LOG-14: a session that began without any reads it at its next run."""
    shell("run", "Hi.")
    assert "sources" not in context(shell)
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "-s", "agent_user_1", "And?")
    assert "Use tabs." in exact_context(shell)["system"]


def test_instruction_files_can_be_switched_off(shell, mine):
    """LOG-14: with that setting none is read, at any run."""
    mine("[agents.agent]\ninstructions = false\n")
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "Hi.")
    shell("run", "-s", "agent_user_1", "--system", "Be brief.", "And?")
    assert exact_context(shell)["system"] == "Be brief."


def test_a_log_without_the_setting_for_instruction_files(shell, store):
    """LOG-14: one that has read some reads them at its next run; one that has not does not."""
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    for number, sources in (
        (1, ()),
        (2, (InstructionSource(kind="instructions", path="/gone/AGENTS.md", scope="project"),)),
    ):
        session = Session.create(store, agent="old", provider="demo", model="demo", cwd=str(shell.folder))
        session.append(ContextEntry(sources=sources))
        shell("run", "-s", f"old_user_{number}", "Hi.")
    assert "Use tabs." not in exact_context(shell, "old_user_1")["system"]
    assert "Use tabs." in exact_context(shell, "old_user_2")["system"]


def test_the_environment_is_that_of_each_run(shell, script, mine):
    """VIEW-12: model, reasoning level and git branch of the environment are those of the next request."""
    mine("[agents.agent]\neffort = 'high'\n")
    git = shell.folder / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    model = script({"text": "one"}, {"text": "two"})
    shell("run", "--model", model, "Hi.")
    (git / "HEAD").write_text("ref: refs/heads/next\n")
    shell("run", "-s", "agent_user_1", "--model", "demo", "And?")
    shell("run", "-s", "agent_user_1", "And?")
    rows = entries(shell)
    first, second = [row["environment"] for row in rows if row["type"] == "context"]
    calls = [(row["provider"], row["model"]) for row in rows if row["type"] == "call"]
    assert calls == [(each["provider"], each["model"]) for each in (first, second, second)]
    assert (first["model"], second["model"]) == (model.removeprefix("scripted:"), "demo")
    assert (first["git"], second["git"]) == ("main", "next")
    assert first["reasoning"] == second["reasoning"] == "high"
    assert first["capabilities"] == {"canResume": False, "needsReasoningBack": False}
    assert second["capabilities"] == {"canResume": True, "needsReasoningBack": False}


def test_instructions_that_end_with_a_newline_are_not_a_change(shell, mine):
    """Law 8: files end with a newline; continuing with such instructions before instruction files changes nothing."""
    mine('[agents.agent]\nsystem = "Be brief.\\n"\n')
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "Hi.")
    shell("run", "-s", "agent_user_1", "And?")
    assert [row["type"] for row in entries(shell)].count("context") == 1


def test_a_session_that_was_never_run_begins_with_the_configuration(shell, mine):
    """RUN-19: `new` creates a session, and its first run writes the configuration of its agent."""
    mine("[agents.reviewer]\nmodel = 'demo'\nsystem = 'Be strict.'\ntools = ['read']\n")
    shell("new", "--agent", "reviewer")
    shell("run", "-s", "reviewer_user_1", "--compact-at", "9000", "Hi.")
    shown = exact_context(shell, "reviewer_user_1")
    assert (shown["system"], [tool["name"] for tool in shown["tools"]]) == ("Be strict.", ["read"])
    assert context(shell, "reviewer_user_1")["policy"]["compactAt"] == 9000


def test_another_model_has_its_own_price(shell, mine, script):
    """Costs are counted at the price of the model that answered; a model without a price has no cost."""
    one, two = (script({"text": "a"}, {"text": "b"}, name=name) for name in ("1.jsonl", "2.jsonl"))
    mine(f"[prices.'{one}']\ninput = 5\n[prices.'{two}']\ninput = 7\n")
    shell("run", "--model", one, "Hi.")
    assert context(shell)["policy"]["price"]["input"] == 5_000_000
    shell("run", "-s", "agent_user_1", "--model", two, "And?")
    assert context(shell)["policy"]["price"]["input"] == 7_000_000
    shell("run", "-s", "agent_user_1", "--model", "demo", "And?")
    assert context(shell)["policy"]["price"] is None


def test_a_model_of_another_provider_uses_the_address_of_that_provider(shell, store, mine):
    """The address is in the log, whichever model the session began with."""
    mine("[providers.openai-chat]\nbase_url = 'http://127.0.0.1:9/v1'\n")
    shell("run", "Hi.")
    apply_settings(Session(store, "agent_user_1"), Overrides(model="openai-chat:x"), contact_no_servers)
    assert context(shell)["params"] == {"endpoint": "http://127.0.0.1:9/v1"}
    apply_settings(Session(store, "agent_user_1"), Overrides(model="demo"), contact_no_servers)
    assert "params" not in context(shell)


def test_denied_tools_are_not_run():
    """RUN-13: `--yes` and `always` answer questions; a denied tool asks none."""
    agreed = Policy(approval="ask", approvals={"shell": "deny", "read": "ask", "list": "auto"})
    said = Overrides(yes=True).policy(agreed)
    assert (said.approval, said.approvals) == ("auto", {"shell": "deny"})
    strict = Overrides(yes=True).policy(Policy(approval="deny", approvals={"read": "ask"}))
    assert (strict.approval, strict.approvals) == ("deny", {"read": "auto"})
    session = Agent(model="demo", policy=agreed).begin(MemoryStore())
    for name in ("shell", "read"):
        allow_always(session, name)
    in_force = policy_in_force(branch_state(session.branch()).context)
    assert (in_force.approval_of("shell"), in_force.approval_of("read")) == ("deny", "auto")


def test_always_for_a_subagent_of_another_agent_applies_to_it_alone():
    """RUN-13: the permission of a sub-agent with another name is not one of its parent."""
    store = MemoryStore()
    asks = Policy(approvals={"shell": "ask"})
    root, like, other = (Agent(model="demo", name=name, policy=asks).begin(store) for name in ("boss", "boss", "aide"))
    for session, lifted in ((other, "ask"), (like, "auto")):
        asked = session.append(Attention(reason="approve", reply_id="r", tool_call_id="t")).value
        assert isinstance(asked, Attention)
        call = OpenToolCall("r", ToolCall(id="t", name="shell", input={}), is_own=True)
        decide_question(root, Question(session, asked, call), "always")
        found = [policy_in_force(branch_state(each.branch()).context).approval_of("shell") for each in (session, root)]
        assert found == ["auto", lifted]


def test_always_names_no_tool_that_a_session_lacks():
    """RUN-13: the parent of a sub-agent may have other tools; a name of none of them would end its next turn."""
    store = MemoryStore()

    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    child, root = (Agent("demo", tools=tools, policy=Policy(approval="ask")).begin(store) for tools in ([pay], []))
    asked = child.append(Attention(reason="approve", reply_id="r", tool_call_id="t")).value
    assert isinstance(asked, Attention)
    call = OpenToolCall("r", ToolCall(id="t", name="pay", input={}), is_own=True)
    decide_question(root, Question(child, asked, call), "always")
    found = [policy_in_force(branch_state(each.branch()).context).approvals for each in (child, root)]
    assert found == [{"pay": "auto"}, {}]


def test_other_tools_take_the_approvals_of_those_that_they_replace_with_them(shell, store):
    """RUN-13: `--tools` replaces the tools of a program; the names of those are no names of tools any more."""

    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    policy = Policy(approval="ask", approvals={"pay": "deny", "shell": "deny"})
    session = Agent("demo", tools=[pay, *builtin_tools("", ["shell"])], policy=policy).begin(
        store, cwd=str(shell.folder)
    )
    assert shell("run", "-s", session.name, "--tools", "read", "Hi.").code == 0
    in_force = policy_in_force(branch_state(Session(store, session.name).branch()).context)
    assert in_force.approvals == {"shell": "deny"}


def test_an_unconfigured_agent_is_reported(shell, mine):
    """A typing error would otherwise use defaults instead of the settings of the intended agent."""
    mine("[agents.reviewer.approvals]\nshell = 'deny'\n")
    assert (
        'agent "reviewr" has no configuration; using defaults'
        in shell.process("run", "--agent", "reviewr", "Hi.", typed=b"").err
    )
    assert "configured" not in shell.process("run", "--agent", "reviewer", "Hi.", typed=b"").err


def test_a_missing_working_directory_is_reported(shell):
    """In one line; a session with another working directory continues."""
    gone = shell.folder / "gone"
    gone.mkdir()
    answer = shell.process("run", "Hi.", cwd=gone, preexec_fn=gone.rmdir)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "no longer exists; set the working folder with --cwd" in answer.err
    gone.mkdir()
    words = ("run", "--cwd", str(shell.folder), "Hi.")
    assert shell.process(*words, cwd=gone, preexec_fn=gone.rmdir).code == 0


# ── other agents ─────────────────────────────────────────────────────────────────────────────────


def spawns(agent, prompt="Look."):
    return {"toolCalls": [{"name": "agent", "input": {"prompt": prompt, "agent": agent}}]}


def results(shell, name="agent_user_1"):
    said = [row["message"] for row in entries(shell, name) if row["type"] == "message"]
    return [part["text"] for each in said if each["role"] == "toolResult" for part in each["content"]]


def test_a_subagent_can_be_another_agent(shell, mine, script):
    """TREE-6, law 2: it has its own model, instructions, tools and policy, all of them from its parent's log."""
    boss = script(spawns("reviewer"), {"text": "Done."}, name="boss.jsonl")
    reviewer = script({"text": "Looks fine."}, name="reviewer.jsonl")
    mine(
        f"model = '{boss}'\n[agents.reviewer]\nmodel = '{reviewer}'\nsystem = 'Be strict.'\ntools = ['read', 'agent']\n"
        "compact_at = 9000\neffort = 'low'\n[agents.reviewer.hooks]\nmemory = false\n"
    )
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    with_model_unsaid = {"WAKELOG_MODEL": ""}
    assert shell.process("run", "Hi.", env=with_model_unsaid).code == 6
    mine("")
    assert shell.process("questions", "agent_user_1", "--approve", "--wake", env=with_model_unsaid).code == 0
    assert results(shell) == ["Looks fine."]
    child = exact_context(shell, "reviewer_user_1")
    assert child["system"].startswith("Be strict.\n\nInstructions from ")
    assert child["system"].endswith("Use tabs.")
    assert [tool["name"] for tool in child["tools"]] == ["read", "agent"]
    assert child["tools"][1] == next(tool for tool in exact_context(shell)["tools"] if tool["name"] == "agent")
    assert f"scripted:{child['model']}" == reviewer
    found = context(shell, "reviewer_user_1")
    assert (found["policy"]["compactAt"], found["policy"]["children"], found["params"]) == (9000, 2, {"effort": "low"})
    assert [hook["name"] for hook in found["policy"]["hooks"]] == ["environment", "agents"]


def test_the_model_gets_the_names_of_other_agents(shell, mine):
    """Their settings are in the log alone. Without other agents, the model gets no names."""
    mine("[agents.reviewer]\nsystem = 'Be strict.'\n")
    shell("run", "Hi.")
    (declared,) = [tool for tool in exact_context(shell)["tools"] if tool["name"] == "agent"]
    assert declared["schema"]["properties"]["agent"]["enum"] == ["reviewer"]
    mine("")
    shell("run", "Hi.")
    (declared,) = [tool for tool in exact_context(shell, "agent_user_2")["tools"] if tool["name"] == "agent"]
    assert list(declared["schema"]["properties"]) == ["prompt"]


def test_an_unconfigured_agent_cannot_be_spawned(shell, mine, script):
    """RUN-7: one line tells the model which agents exist; no session is created."""
    model = script(spawns("reviwer"), {"text": "Done."})
    mine("[agents.reviewer]\n[agents.writer]\n")
    shell("run", "--yes", "--model", model, "Hi.")
    assert results(shell) == ["Not run: there is no agent 'reviwer' to send; there are reviewer, writer."]
    mine("")
    shell("run", "--yes", "--model", model, "Hi.")
    assert results(shell, "agent_user_2") == ["Not run: there is no other agent to send; leave `agent` out."]
    assert len(shell("ls", "--json").rows) == 2


def test_other_agents_stay_when_tools_change(shell, mine):
    """Law 2: they are those that the session began with."""
    mine("[agents.reviewer]\n")
    shell("run", "Hi.")
    before = [tool for tool in exact_context(shell)["tools"] if tool["name"] == "agent"]
    mine("")
    shell("run", "-s", "agent_user_1", "--tools", "agent", "And?")
    assert exact_context(shell)["tools"] == before


# ── imported sessions ────────────────────────────────────────────────────────────────────────────


def imported(store, *, provider="openrouter", model="kimi-k2", agent="codex"):
    """Create a session as an import does."""
    session = Session.create(store, agent=agent, settings={"imported": "codex"})
    session.append(Message(message=Prompt(content="Fix it.")))
    session.append(Message(message=Reply(content="Fixed.", model=model, provider=provider)))
    return session


def test_an_import_continues_with_the_model_and_tools_of_the_configuration(shell, mine, store, script, monkeypatch):
    """Law 2, ST-9: a model that cannot be called here is replaced by the configured one; one line says so."""
    monkeypatch.delenv("WAKELOG_MODEL")
    model = script({"text": "One."}, {"text": "Two."})
    mine(f"model = '{model}'\n[agents.agent]\nsystem = 'Be brief.'\ntools = ['read']\n")
    name = imported(store).name
    answer = shell("run", "-s", name, "Go on.")
    assert answer.code == 0
    notice = f'the model "openrouter:kimi-k2" is not configured here: {name} continues with {model}'
    assert [line for line in answer.err.splitlines() if "configur" in line] == [f"wakelog: {notice}"]
    rows = entries(shell, name)
    (change,) = [row for row in rows if row["type"] == "model_change"]
    assert f"{change['provider']}:{change['model']}" == model
    assert (exact_context(shell, name)["system"], context(shell, name)["environment"]["provider"]) == (
        "Be brief.",
        "scripted",
    )
    assert [tool["name"] for tool in exact_context(shell, name)["tools"]] == ["read"]
    again = shell("run", "-s", name, "And on.")
    assert (again.code, "configured" in again.err) == (0, False)
    assert [row["type"] for row in entries(shell, name)].count("context") == 1


def test_a_fork_of_an_import_continues_like_it(shell, store):
    """ST-9: the fork has the history of another agent too."""
    name = fork(imported(store)).name
    answer = shell("run", "-s", name, "Go on.")
    assert (answer.code, f"{name} continues with demo" in answer.err) == (0, True)


def test_an_import_keeps_a_model_that_is_configured(shell, store):
    """ST-9: the recorded model continues the session where it can be called, and so does a requested one."""
    own = imported(store, provider="demo", model="demo").name
    answer = shell("run", "-s", own, "Go on.")
    assert (answer.code, "configured" in answer.err) == (0, False)
    chosen = imported(store, agent="pi").name
    answer = shell("run", "-s", chosen, "--model", "demo", "Go on.")
    assert (answer.code, "configured" in answer.err) == (0, False)


def test_an_import_without_a_configured_model_is_refused(shell, store, monkeypatch):
    """ST-9: nothing is written, and the error says how to choose a model."""
    monkeypatch.delenv("WAKELOG_MODEL")
    session = imported(store)
    before = session.last_seq
    answer = shell("run", "-s", session.name, "Go on.")
    assert (answer.code, "no model is set" in answer.err) == (2, True)
    assert Session(store, session.name).last_seq == before


def test_a_pending_import_is_woken_with_the_configured_model(shell, store):
    """ST-9: `wake` of an imported session that ends in a prompt."""
    session = imported(store)
    session.append(Message(message=Prompt(content="And now?")))
    answer = shell("wake", session.name)
    assert (answer.code, f"{session.name} continues with demo" in answer.err) == (0, True)


def test_a_program_s_own_session_keeps_its_model(shell, store):
    """Law 2: only an imported session gets another model; one that was not imported names what it needs."""
    session = Session.create(store, agent="own", provider="openrouter", model="kimi-k2")
    session.append(Message(message=Prompt(content="Go.")))
    answer = shell("run", "-s", session.name, "Go on.")
    assert (answer.code, "openrouter" in answer.err) == (2, True)
