"""Random logs: a strategy that builds them through the real session, and ways to damage their bytes.

A generator that only ever makes straight lines proves nothing about trees: `test_generator.py` counts
what comes out of this one and fails if forks, interleaved branches, folds or odd annotations become rare.
"""

import contextlib
from typing import Literal

from hypothesis import strategies as st

from tests.older_rules import write_under_rules
from wakelog.decide.policy import Policy, stored_policy
from wakelog.errors import SessionEnded
from wakelog.log.content import AnyPart, Prompt, Reply, Text, ToolCall, ToolResult, Usage
from wakelog.log.entry import (
    RULES_VERSION,
    Activity,
    Attention,
    AttentionResolved,
    Cancelled,
    ContextEntry,
    Custom,
    Failed,
    FaultReport,
    Label,
    Message,
    ModelCall,
    ModelChange,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    SessionArchived,
    SessionRenamed,
    Setting,
    Spawned,
    Terminated,
    ToolStarted,
)
from wakelog.projections.pending import open_tool_calls
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder

_DECISIONS = ("approve", "deny", "ran", "did not run", "run again", "")

_ANNOTATIONS = (
    "label",
    "queued",
    "steer",
    "attention",
    "resolve",
    "call",
    "sent",
    "send_failed",
    "started",
    "partial",
    "renamed",
    "archived",
    "attached",
    "left",
    "terminated",
    "cancel",
    "fold_asked",
    "spawned",
    "resumed",
)
_AT = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.just("user"), _AT),
    st.tuples(st.just("reply"), st.integers(0, 3)),
    st.tuples(st.just("result"), _AT),
    st.tuples(st.just("fork"), _AT),
    st.tuples(st.just("fork_reply"), _AT),
    st.tuples(st.just("head"), _AT),
    st.tuples(st.just("compact"), _AT),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("take"), _AT),
    st.tuples(st.just("model"), st.sampled_from(["m1", "m2"])),
    st.tuples(st.just("setting"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("asked"), st.integers(0, 11)),
    st.tuples(st.just("asked"), st.integers(0, 11)),
    st.tuples(st.just("called"), _AT),
    st.tuples(st.just("agreed"), _AT),
    st.tuples(st.just("fold_failed"), _AT),
    st.tuples(st.just("end"), st.sampled_from(["cancelled", "failed", "faulted", "custom"])),
    st.tuples(st.sampled_from(_ANNOTATIONS), _AT),
)
STORIES = st.lists(STEPS, min_size=10, max_size=40)
# Stories in which workers and people of different versions write, so that compactions carry different things.
MIXED_STORIES = st.lists(
    st.one_of(
        STEPS,
        st.tuples(st.just("rules"), st.sampled_from([1, 1, 2])),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.sampled_from(["queued", "steer", "take", "head", "compact"]), _AT),
        st.tuples(st.sampled_from(["queued", "steer", "user", "head", "taken_over"]), _AT),
    ),
    min_size=10,
    max_size=40,
).map(lambda steps: [("rules", 1), *steps])


def tell(steps, story=None):
    """The session that a list of steps builds, or its continuation."""
    story = story or SessionBuilder(MemoryStore())
    for verb, detail in steps:
        # A session that was ended refuses the steps that follow.
        with contextlib.suppress(SessionEnded):
            _Teller(story).tell(verb, detail)
    return story


class _Teller:
    def __init__(self, story):
        self.story = story
        self.session = story.session
        self.tree = story.session.tree
        self.nodes = list(self.tree.nodes.values())
        self.replies = [node for node in self.nodes if _is_reply(node)]

    def tell(self, verb, detail):
        act = getattr(self, f"_{verb}", None)
        if act is not None:
            act(detail)
        else:
            self.session.append(self._annotation(verb, detail), at=self._node(detail).id)

    def _rules(self, rules):
        """From here on a program of another version writes."""
        write_under_rules(self.session, rules)

    def _taken_over(self, _):
        """A worker attaches to the session; where compactions are old it records the queue."""
        queue = self.session._queue_to_record()
        self.session.append(Activity(holder="w", rules=RULES_VERSION, queue=queue))

    def _node(self, at):
        return self.nodes[at % len(self.nodes)]

    def _user(self, detail):
        self.story.user(f"prompt {detail}")

    def _reply(self, calls):
        asked = [(f"t{number}", "bash", {"n": number}) for number in range(calls)]
        self.story.reply(f"reply {calls}", calls=asked, usage=Usage(input_tokens=calls + 1, cost_micros=calls))

    def _asked(self, at):
        """A reply that a call of this session made, so that its tools may run."""
        reply_id = self.session.clock.new_id()
        self.story.call(reply_id, channels=("terminal", "bot")[: at % 3])
        if at % 4 == 3:
            return
        calls = tuple(ToolCall(id=f"t{number}", name="bash", input={"n": number}) for number in range(at % 4))
        content: tuple[AnyPart, ...] = (Text(text=f"asked {at}"), *calls)
        reply = Reply(content=content, call_id=f"call-{reply_id}", model="example")
        self.session.append(Message(id=reply_id, message=reply))

    def _called(self, at):
        """A model call of any purpose, whose reply may or may not follow."""
        purposes: tuple[Literal["reply", "compaction", "rerun"], ...] = ("reply", "compaction", "rerun")
        purpose = purposes[at % 3]
        queued = [entry.id for entry in self.tree.own_entries() if isinstance(entry.value, Queued)]
        taken = queued[at % len(queued)] if queued and purpose == "compaction" else None
        self.session.append(ModelCall(call_id=f"d{at}", reply_id=f"r{at}", purpose=purpose, queued_id=taken))

    def _fold_failed(self, at):
        """An unusable summary, in the place of a compaction."""
        error = FaultReport(kind=("did_not_shrink", "empty", "overload")[at % 3])
        self.session.append(Partial(reply_id=f"r{at}", error=error))

    def _agreed(self, at):
        """A context entry with other settings."""
        policy = Policy(
            steps_max=1 + at % 4,
            faults_max=1 + at % 3,
            attempts_max=1 + at % 2,
            unknown=("tell", "ask")[at % 2],
            cut=("replace", "resume")[at % 2],
            approval=("auto", "ask", "deny")[at % 3],
            strategy=("full", "window:3", "budget:20")[at % 3],
            compact_at=(0, 5, 20)[at % 3],
            keep=1 + at,
        )
        self.session.append(ContextEntry(policy=stored_policy(policy), params={"t": at}))

    def _result(self, at):
        waiting = open_tool_calls(self.tree.branch())
        if waiting:
            call = waiting[at % len(waiting)]
            self.session.append(
                Message(message=ToolResult(tool_call_id=call.tool_call.id, reply_id=call.reply_id, content="done"))
            )

    def _fork(self, at):
        self.story.user(f"fork {at}", at=self._node(at).id)

    def _fork_reply(self, at):
        self.story.reply(f"forked reply {at}", at=self._node(at).id, calls=[("t0", "bash", {})] * (at % 2))

    def _head(self, at):
        self.session.move_head(self._node(at).id)

    def _compact(self, at):
        branch = self.tree.branch().nodes
        kept = None if at is None else branch[at % len(branch)].id
        self.session.compact(f"summary {at}", first_kept=kept)

    def _take(self, at):
        queued = [entry for entry in self.tree.own_entries() if isinstance(entry.value, Queued)]
        if queued:
            taken = queued[at % len(queued)].id
            self.session.append(Message(message=Prompt(content=(Text(text="taken up"),), queued_id=taken)))

    def _model(self, model):
        self.session.append(ModelChange(model=model))

    def _setting(self, key):
        self.session.append(Setting(key=key, value=len(self.nodes)))

    def _end(self, how):
        fault = FaultReport(kind="overload", retryable=True, delay_ms=len(self.nodes) * 1_000)
        bodies = {
            "cancelled": Cancelled(),
            "failed": Failed(reason="x"),
            "faulted": Failed(reason="call", error=fault, call_id="c"),
            "custom": Custom(custom_type="x"),
        }
        self.session.append(bodies[how])

    def _annotation(self, verb, at):
        reply = self.replies[at % len(self.replies)].id if self.replies else "never"
        raised = [entry.id for entry in self.tree.own_entries() if isinstance(entry.value, Attention)]
        annotations = {
            "label": Label(target_id=self._node(at).id, label=f"label {at}"),
            "queued": Queued(message=Prompt(content=f"queued {at}")),
            "steer": Queued(message=Prompt(content=f"steer {at}"), mode="steer"),
            "attention": Attention(reason="look", reply_id=reply, tool_call_id="t0"),
            "resolve": AttentionResolved(
                attention_id=raised[at % len(raised)] if raised else "never",
                decision=_DECISIONS[at % len(_DECISIONS)],
                result="by hand" if at % 7 == 0 else None,
            ),
            "call": ModelCall(call_id=f"c{at}", reply_id=reply, channels=("terminal", "bot")[: at % 3]),
            "sent": Sent(reply_id=reply, channel=("terminal", "bot")[at % 2]),
            "send_failed": SendFailed(reply_id=reply, channel=("terminal", "bot")[at % 2], attempt=1 + at % 3),
            "started": ToolStarted(
                reply_id=reply,
                tool_call_id=f"t{at % 3}",
                replay=("safe", "receipt", "never")[at // 3 % 3],
                attempt=1 + at % 2,
                intent={"at": at} if at % 2 else {},
            ),
            "partial": Partial(reply_id=reply, content="cut", tool_call_id="t0" if at % 3 == 0 else None),
            "resumed": Resumed(reply_id=reply, strategy=("resume", "replace")[at % 2], prior_chars=at),
            "spawned": Spawned(child_session=f"child{at}", reply_id=reply, tool_call_id=f"t{at % 3}"),
            "cancel": Queued(mode="cancel"),
            "fold_asked": Queued(mode="compact", keep=self._node(at).id if at % 2 else None),
            "renamed": SessionRenamed(title=f"title {at}"),
            "archived": SessionArchived(archived=at % 2 == 0),
            "attached": Activity(holder="w", rules=RULES_VERSION, recording=at % 3 == 0),
            "left": Activity(holder="w", event="left"),
            "terminated": Terminated(),
        }
        return annotations[verb]


def _is_reply(node):
    return isinstance(node.value, Message) and isinstance(node.value.message, Reply)


# ── damage ───────────────────────────────────────────────────────────────────────────────────────

DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["drop", "repeat", "garbage", "swap", "cut", "glue", "foreign", "flip", "blank"]),
        st.integers(0, 60),
    ),
    max_size=3,
)


def damaged(raw, hurts):
    """The bytes of a log after some damage."""
    for how, at in hurts:
        lines = [line for line in raw.split(b"\n") if line] or [b"{}"]
        place = at % len(lines)
        raw = b"".join(line + b"\n" for line in _hurt(lines, how, place))
        if how == "cut":
            raw = raw[: len(raw) - 1 - place]
    return raw


def _hurt(lines, how, at):
    line = lines[at]
    match how:
        case "drop":
            return lines[:at] + lines[at + 1 :]
        case "repeat":
            return [*lines, line]
        case "garbage":
            return [*lines[:at], b"\x00garbage", *lines[at:]]
        case "swap":
            return [*lines[:at], *lines[at : at + 2][::-1], *lines[at + 2 :]]
        case "glue":
            return [*lines[:at], b"".join(lines[at : at + 2]), *lines[at + 2 :]]
        case "foreign":
            return [*lines, b'{"type":"message","id":"f%d","message":{"role":"user","content":"x"}}' % len(lines)]
        case "flip":
            middle = len(line) // 2
            return [*lines[:at], line[:middle] + bytes([line[middle] ^ 1]) + line[middle + 1 :], *lines[at + 1 :]]
        case "blank":
            return [*lines[:at], b"", *lines[at:]]
    return lines


def store_of(raw):
    """A store that holds one session, `s`, of these bytes."""
    store = MemoryStore()
    store.replace("s", "crab_user_1", raw)
    return store


def bytes_of(story):
    """The bytes of a session's log."""
    return b"".join(line.bytes for line in story.store.load(story.session.id))
