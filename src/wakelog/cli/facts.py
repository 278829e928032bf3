"""What a fact says, in a few words on one line: for those who look at a log entry by entry."""

from wakelog.cli.safe import first_line, visible
from wakelog.log.entry import (
    Activity,
    Attention,
    AttentionResolved,
    Body,
    Call,
    DamageNote,
    Head,
    Label,
    Queued,
    Sent,
    SessionArchived,
    SessionRenamed,
    Spawned,
    Terminated,
    ToolStarted,
)


def fact_words(value: Body) -> str:
    """The words of a fact; none where its type says it all."""
    return first_line(_words(value))


def _words(value: Body) -> str:
    match value:
        case Label(label=text) | SessionRenamed(title=text) | Attention(reason=text) | Terminated(reason=text):
            return text
        case Queued(message=message):
            return message.text if message is not None else ""
        case Head(target_id=target):
            return target
        case AttentionResolved(decision=text) | Sent(channel=text) | ToolStarted(name=text):
            return text
        case Activity(event=event, holder=holder):
            return f"{event} {holder}"
        case Call(purpose=purpose, model=model):
            return " ".join(filter(None, (purpose, model)))
        case SessionArchived(archived=archived):
            return "put away" if archived else "brought back"
        case Spawned(child_session=child):
            return child
        case DamageNote(reason=reason, bytes=size):
            return f"{reason}, {size} bytes"
    return ""


def fact_line(value: Body) -> str:
    """The type of a fact and its words."""
    return "  ".join(filter(None, (visible(value.type), fact_words(value))))
