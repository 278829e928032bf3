"""The audit of a session: each tool call with its input, status, duration and who or what allowed it, and each turn
with the settings in force.

The log is read twice. The first reading (`AuditEvidence`) keeps about 60 bytes for each call: what the annotations and
the result say, which may follow the call at any distance. The second (`audit_rows`) yields the rows in the order of the
log. So an audit takes little more memory than the outline of the log.
Rule: nothing is invented. What the log does not show is `unknown` or None, as who approved a call of an imported
session.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from wakelog.log.content import Note, Prompt, Reply, ToolCall, ToolResult, ToolStatus, Value
from wakelog.log.entry import Attention, AttentionResolved, Entry, Message, ModelCall, Spawned, ToolStarted
from wakelog.log.ids import NO_NUMBER, IdTable, id_hash
from wakelog.log.provider_calls import ProviderCall, provider_calls
from wakelog.log.timestamps import iso_timestamp, parse_ms
from wakelog.projections.settings_in_force import Place, SettingDifference, SettingsInForce, Turn, setting_differences

AuditStatus: TypeAlias = Literal["ok", "error", "interrupted", "skipped", "denied", "unknown", "open"]
AUDIT_STATUSES: tuple[AuditStatus, ...] = get_args(AuditStatus)
_RESULT_STATUSES: tuple[ToolStatus, ...] = get_args(ToolStatus)
AllowedBy: TypeAlias = Literal["policy", "person", "rule", "program", "provider", "pending", "unknown"]


class Permission(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Who or what decided whether a tool call may run, and how.

    `policy`: `auto` or `deny`. `person`: `approve`, `run again` or `deny`. `rule`: the runtime settled the call without
    running it. `program`: the program that records the session ran it. `provider`: the provider of the model ran it
    while it made the reply. `pending`: it waits for a decision.
    """

    by: AllowedBy
    decision: str = ""
    time: str | None = None
    """When the person decided or, while that is pending, was asked."""
    person: str | None = None
    """The person, if the program that passed the decision on named one."""


class PersonOutcome(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What a person said that a tool did whose outcome was unknown."""

    decision: str
    time: str
    person: str | None = None


class AuditedCall(Value, frozen=True, kw_only=True, tag_field="kind", tag="call", omit_defaults=False):
    """One tool call. `entry` is the reply that made it, `seq` the number of that reply in its session."""

    session: str
    entry: str
    seq: int
    call: str
    time: str
    turn: str | None
    """The id of the prompt that the turn began with."""
    tool: str
    input: Any
    status: AuditStatus
    allowed: Permission
    outcome: PersonOutcome | None
    starts: int
    """How often the log says that the tool was started."""
    started: str | None
    """When it was last started."""
    ended: str | None
    """When its result was recorded."""
    duration_ms: int | None
    effect_unknown: bool
    """Whether the tool may have had its effect, or a part of it, and the log does not show whether it had."""
    result_seq: int | None
    truncated: bool
    child: str | None
    """The session of the sub-agent that the call started."""
    inherited: bool
    """Whether the call belongs to a session that this one was forked from."""
    on_branch: bool
    """Whether the call is on the branch that is audited, and not beside it."""


class AuditedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force in a turn; a turn has another row for each answer before which they changed."""

    session: str
    turn: Turn
    settings: SettingsInForce
    changed: tuple[SettingDifference, ...]
    """What differs from the turn before, or from the earlier answers of the turn."""
    inherited: bool
    on_branch: bool


AuditRow: TypeAlias = AuditedCall | AuditedTurn


# ── first reading ────────────────────────────────────────────────────────────────────────────────


class _CallFacts(NamedTuple):
    """What the log says about one call, as numbers; -1 is unknown."""

    result: int = -1
    """The number of the node that holds the result."""
    result_seq: int = -1
    status: int = -1
    duration_ms: int = -1
    ended_ms: int = -1
    started_ms: int = -1
    starts: int = 0
    start_place: int = -1
    """The place of the node after which the tool was last started: its settings allowed the start."""
    truncated: int = 0


_PACKED = struct.Struct("<iqbqqqiiB")
_NUMBER_MAX = 1 << 30
_NODES_SINCE_REPLY_MAX = 64


class _Answer(NamedTuple):
    """A question to a person about a call (`text` is its reason), or the decision on one."""

    text: str
    time: str
    person: str | None = None


class AuditEvidence:
    """Everything that a log says about its tool calls and turns. Numbers are those of the log's outline."""

    def __init__(self) -> None:
        self._keys = IdTable()
        self._facts = bytearray()
        self._other_results: dict[int, list[_CallFacts]] = {}
        """Further results of a call: those on other branches."""
        self._questions: dict[str, int] = {}
        """The call that each open question is about, by the question's id."""
        self._asked: dict[int, _Answer] = {}
        self._answers: dict[int, list[_Answer]] = {}
        self._children: dict[int, str] = {}
        self._open_ids: dict[str, int] = {}
        """The last call without a result of each provider id: results of other programs do not name their reply."""
        self._parents = array("i")
        self._place_of = array("i")
        self._places = [Place()]
        self._last_node = NO_NUMBER
        self._called_replies = IdTable()

    def add(self, entry: Entry, number: int, node: int, parent: int) -> None:
        """Add the next entry of the log: with its number, the number of its node, and that of the node before that."""
        while len(self._place_of) <= number:
            self._parents.append(NO_NUMBER)
            self._place_of.append(0)
        if entry.is_node:
            self._add_node(entry, number, parent)
        else:
            self._add_annotation(entry, node)

    def _add_node(self, entry: Entry, number: int, parent: int) -> None:
        before = self._place_of[parent] if parent != NO_NUMBER else 0
        place = self._places[before].after(entry)
        if place is self._places[before]:
            self._place_of[number] = before
        else:
            self._place_of[number] = len(self._places)
            self._places.append(place)
        self._parents[number], self._last_node = parent, number
        match entry.value:
            case Message(message=Reply() as reply):
                for call in reply.tool_calls:
                    self._open_ids[call.id] = self._number_of(entry.id, call.id)
            case Message(message=ToolResult() as result):
                self._add_result(entry, number, result)

    def _number_of(self, reply_id: str, call_id: str) -> int:
        """Return the number of a call; one that was not named before gets the next one."""
        key = id_hash(f"{reply_id}\0{call_id}")
        known = self._keys.number(key)
        if known != NO_NUMBER:
            return known
        self._facts += _PACKED.pack(*_CallFacts())
        return self._keys.add(key)

    def _read(self, call: int) -> _CallFacts:
        return _CallFacts(*_PACKED.unpack_from(self._facts, call * _PACKED.size))

    def _write(self, call: int, facts: _CallFacts) -> None:
        _PACKED.pack_into(self._facts, call * _PACKED.size, *facts)

    def _add_result(self, entry: Entry, number: int, result: ToolResult) -> None:
        open_call = self._open_ids.get(result.tool_call_id)
        call = self._number_of(result.reply_id, result.tool_call_id) if result.reply_id is not None else open_call
        if call is None:
            return
        if open_call == call:
            del self._open_ids[result.tool_call_id]
        known = self._read(call)
        found = known._replace(
            result=number,
            result_seq=min(entry.seq, _NUMBER_MAX),
            status=_RESULT_STATUSES.index(result.effective_status),
            duration_ms=-1 if result.duration_ms is None else max(-1, min(result.duration_ms, _NUMBER_MAX)),
            ended_ms=_ms(entry.value.timestamp),
            truncated=int(result.truncated),
        )
        if known.result == NO_NUMBER:
            self._write(call, found)
        else:
            self._other_results.setdefault(call, []).append(found)

    def _add_annotation(self, entry: Entry, node: int) -> None:
        match entry.value:
            case ModelCall(reply_id=reply_id, purpose="reply" | "rerun"):
                self._called_replies.add_ids([reply_id])
            case ToolStarted(reply_id=reply_id, tool_call_id=call_id):
                self._add_start(entry, self._number_of(reply_id, call_id), node)
            case Spawned(reply_id=reply_id, tool_call_id=call_id, child_session=child):
                call = self._number_of(reply_id, call_id)
                self._children[call] = child
                self._add_start(entry, call, node)
            case Attention(reply_id=str() as reply_id, tool_call_id=str() as call_id, reason=reason):
                call = self._questions[entry.id] = self._number_of(reply_id, call_id)
                self._asked[call] = _Answer(reason, entry.value.timestamp)
            case AttentionResolved(attention_id=question) as answer if question in self._questions:
                call = self._questions.pop(question)
                self._asked.pop(call, None)
                self._answers.setdefault(call, []).append(_Answer(answer.decision, answer.timestamp, answer.by))

    def _add_start(self, entry: Entry, call: int, reply: int) -> None:
        known = self._read(call)
        starts = min(known.starts + 1, _NUMBER_MAX)
        place = self._place_of_start(reply)
        self._write(call, known._replace(started_ms=_ms(entry.value.timestamp), starts=starts, start_place=place))

    def _place_of_start(self, reply: int) -> int:
        """Return the place whose settings allowed a start: settings may have changed since the reply."""
        last = self._last_node
        for _ in range(_NODES_SINCE_REPLY_MAX):
            if last <= reply:
                break
            last = self._parents[last]
        node = self._last_node if last == reply else reply
        return self._place_of[node] if node != NO_NUMBER else 0

    # ── what the second reading asks for ─────────────────────────────────────────────────────────

    def place(self, number: int) -> Place:
        """Return the place of a node."""
        return self._places[self._place_of[number]]

    def record(self, reply: Entry, number: int, call_id: str, path: bytearray) -> "_CallRecord":
        """Return what the log says about a call of a reply, with its result on a branch, or else its first result."""
        call = self._number_of(reply.id, call_id)
        first = self._read(call)
        results = (first, *self._other_results.get(call, ()))
        found = next((each for each in results if each.result != NO_NUMBER and path[each.result]), first)
        facts = found._replace(started_ms=first.started_ms, starts=first.starts, start_place=first.start_place)
        at = self._place_of[facts.result if facts.result != NO_NUMBER else number]
        return _CallRecord(
            facts=facts,
            settings=self._places[facts.start_place if facts.starts else at].settings,
            question=self._asked.get(call),
            answers=tuple(self._answers.get(call, ())),
            child=self._children.get(call),
            has_model_call=reply.id in self._called_replies,
        )


def _ms(timestamp: str) -> int:
    found = parse_ms(timestamp)
    return -1 if found is None else found


# ── second reading ───────────────────────────────────────────────────────────────────────────────


class AuditedPart(msgspec.Struct, frozen=True):
    """Which entries are audited, and what is known of the log around them."""

    session: str
    path: bytearray
    """One byte per entry of the outline: 1 for the nodes of the branch that is audited."""
    inherited: int = 0
    """How many of the first entries belong to sessions that this one was forked from."""
    last_loss_offset: int = -1
    """The offset of the last place where entries of the session itself are lost."""
    has_inherited_loss: bool = False


def audit_rows(evidence: AuditEvidence, part: AuditedPart, nodes: Iterable[tuple[int, Entry]]) -> Iterator[AuditRow]:
    """Yield the rows of some nodes, which come with their numbers in log order: a turn, then its calls."""
    changed_within: dict[str, SettingsInForce] = {}
    for number, node in nodes:
        value = node.value
        if not isinstance(value, Message):
            continue
        place = evidence.place(number)
        turn = place.turn
        if isinstance(value.message, Prompt | Note) and turn is not None:
            yield _turn_row(part, number, turn, turn.settings, turn.before)
        elif isinstance(value.message, Reply):
            if turn is not None:
                before = changed_within.get(turn.id, turn.settings)
                if before is not place.settings:
                    changed_within[turn.id] = place.settings
                    row = _turn_row(part, number, turn, place.settings, before)
                    yield from (row,) if row.changed else ()
            for call in value.message.tool_calls:
                record = evidence.record(node, number, call.id, part.path)
                yield _call_row(part, number, node, value.message, call, turn, record)
            made = (call for call in provider_calls(value.message.parts).values() if call is not None)
            yield from (_provider_call_row(part, number, node, call, turn) for call in made)


def _turn_row(
    part: AuditedPart, number: int, turn: Turn, settings: SettingsInForce, before: SettingsInForce | None
) -> AuditedTurn:
    return AuditedTurn(
        session=part.session,
        turn=turn,
        settings=settings,
        changed=setting_differences(before, settings) if before is not None else (),
        inherited=number < part.inherited,
        on_branch=bool(part.path[number]),
    )


class _CallRecord(msgspec.Struct, frozen=True):
    """What the log says about one call. `settings` are those under which it was started, or settled without a start."""

    facts: _CallFacts
    settings: SettingsInForce
    question: _Answer | None
    answers: tuple[_Answer, ...]
    child: str | None
    has_model_call: bool


def _call_row(
    part: AuditedPart, number: int, node: Entry, reply: Reply, call: ToolCall, turn: Turn | None, record: _CallRecord
) -> AuditedCall:
    facts, inherited = record.facts, number < part.inherited
    is_own = record.has_model_call or reply.call_id is not None
    is_foreign = record.settings.imported and not is_own
    status = _status(facts, is_foreign=is_foreign)
    start_may_be_lost = part.has_inherited_loss if inherited else node.offset < part.last_loss_offset
    is_open = facts.status < 0
    return AuditedCall(
        session=part.session,
        entry=node.id,
        seq=node.seq,
        call=call.id,
        time=node.value.timestamp,
        turn=turn.id if turn is not None else node.value.turn_id,
        tool=call.name,
        input=call.input,
        status=status,
        allowed=_permission(record, call.name, status, is_own=is_own, is_foreign=is_foreign),
        outcome=_outcome(record.answers),
        starts=facts.starts,
        started=_iso(facts.started_ms),
        ended=_iso(facts.ended_ms),
        duration_ms=facts.duration_ms if facts.duration_ms >= 0 else None,
        effect_unknown=status in ("unknown", "interrupted") or (is_open and (facts.starts > 0 or start_may_be_lost)),
        result_seq=facts.result_seq if facts.result_seq >= 0 else None,
        truncated=bool(facts.truncated),
        child=record.child,
        inherited=inherited,
        on_branch=bool(part.path[number]),
    )


def _provider_call_row(
    part: AuditedPart, number: int, node: Entry, call: ProviderCall, turn: Turn | None
) -> AuditedCall:
    """Return the row of a call that the provider ran itself: it ended with the reply that holds it."""
    return AuditedCall(
        session=part.session,
        entry=node.id,
        seq=node.seq,
        call=call.id,
        time=node.value.timestamp,
        turn=turn.id if turn is not None else node.value.turn_id,
        tool=call.name,
        input=call.input,
        status=call.status,
        allowed=Permission(by="provider"),
        outcome=None,
        starts=1,
        started=None,
        ended=node.value.timestamp,
        duration_ms=None,
        effect_unknown=call.status in ("unknown", "interrupted"),
        result_seq=node.seq,
        truncated=False,
        child=None,
        inherited=number < part.inherited,
        on_branch=bool(part.path[number]),
    )


def _status(facts: _CallFacts, *, is_foreign: bool) -> AuditStatus:
    """Return the status. A call of another agent without a result may have run there: its status is unknown."""
    if facts.status >= 0:
        return _RESULT_STATUSES[facts.status]
    return "unknown" if is_foreign else "open"


def _iso(ms: int) -> str | None:
    return iso_timestamp(ms) if ms >= 0 else None


_PERMITS = ("approve", "run again")
_DENIAL = "deny"


def _permission(record: _CallRecord, tool: str, status: AuditStatus, *, is_own: bool, is_foreign: bool) -> Permission:
    """Return who or what decided whether the call may run."""
    decided = [answer for answer in record.answers if answer.text in (*_PERMITS, _DENIAL)]
    if decided:
        last = decided[-1]
        return Permission(by="person", decision=last.text, time=last.time, person=last.person)
    if is_foreign:
        return Permission(by="unknown")
    approval = record.settings.approval_of(tool)
    if record.facts.starts:
        if not is_own:
            return Permission(by="program")
        return Permission(by="policy", decision="auto") if approval == "auto" else Permission(by="unknown")
    if status == "open":
        return _pending_permission(record, approval, is_own=is_own)
    if status == "denied":
        return Permission(by="policy", decision="deny") if approval == "deny" else Permission(by="rule")
    return (
        Permission(by="rule") if is_own and status in ("skipped", "error", "interrupted") else Permission(by="unknown")
    )


def _pending_permission(record: _CallRecord, approval: str, *, is_own: bool) -> Permission:
    """Return what is known of a call that has neither a start nor a result."""
    if record.question is not None:
        return Permission(by="pending", decision=record.question.text, time=record.question.time)
    if is_own and approval in ("auto", "deny"):
        return Permission(by="policy", decision=approval)
    return Permission(by="pending")


def _outcome(answers: tuple[_Answer, ...]) -> PersonOutcome | None:
    """Return what a person last said about the outcome; None if that was not asked."""
    said = [answer for answer in answers if answer.text not in (*_PERMITS, _DENIAL)]
    return PersonOutcome(decision=said[-1].text, time=said[-1].time, person=said[-1].person) if said else None
