"""One-line text of an annotation, for displays that list a log entry by entry."""

from wakelog.cli.safe import first_line, visible
from wakelog.log.content import BaseMessage
from wakelog.log.entry import (
    Activity,
    Attention,
    AttentionResolved,
    Body,
    Call,
    DamageNote,
    Head,
    Label,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    SessionArchived,
    SessionRenamed,
    Spawned,
    Terminated,
    ToolStarted,
)


def annotation_words(value: Body) -> str:
    """Return the text of an annotation; empty where its type says enough."""
    return first_line(_words(value))


def _words(value: Body) -> str:
    match value:
        case Label(label=text) | SessionRenamed(title=text) | Terminated(reason=text):
            return text
        case Head(target_id=target):
            return target
        case Activity(event=event, holder=holder):
            return f"{event} {holder}"
        case Call(purpose=purpose, model=model):
            return " ".join(filter(None, (purpose, model)))
        case SessionArchived(archived=archived):
            return "put away" if archived else "brought back"
        case DamageNote(reason=reason, bytes=size):
            return f"{reason}, {size} bytes"
    return _words_of_a_turn(value)


def _words_of_a_turn(value: Body) -> str:
    match value:
        case Queued(mode="cancel"):
            return "cancel the turn"
        case Queued(message=message, mode=mode):
            front = {"steer": "steer", "compact": "fold"}.get(mode, "")
            return ": ".join(filter(None, (front, message.text if message is not None else "")))
        case ToolStarted(name=name, attempt=attempt):
            return f"{name}, attempt {attempt}" if attempt > 1 else name
        case Partial(content=content, error=error):
            said = BaseMessage(content=content).text
            return error.message or error.kind if error is not None else f"{len(said)} characters: {said}"
        case Resumed(strategy=strategy, prior_chars=chars):
            return "from the beginning" if strategy == "replace" else f"from character {chars} on"
        case Attention(reason=reason, tool_call_id=call):
            return " ".join(filter(None, (reason, call)))
        case AttentionResolved(decision=decision, result=result):
            return f"{decision}: {BaseMessage(content=result).text}" if result is not None else decision
        case Spawned(child_session=child):
            return child
    return _words_of_a_send(value)


def _words_of_a_send(value: Body) -> str:
    match value:
        case Sent(channel=channel):
            return f"to {channel}"
        case SendFailed(channel=channel, error=error, attempt=attempt):
            why = f": {error.message or error.kind}" if error is not None else ""
            return f"to {channel}, attempt {attempt}{why}"
    return ""


def annotation_line(value: Body) -> str:
    """Return the type of an annotation followed by its text."""
    return "  ".join(filter(None, (visible(value.type), annotation_words(value))))
