"""Status line of a chat: figures of the session, read from its log and drawn on one line. Pure."""

import msgspec

from wakelog.cli.draw import Look, beginning, cells, clip
from wakelog.cli.safe import first_line, visible
from wakelog.cli.times import plural
from wakelog.cli.weighing import beside
from wakelog.decide.policy import policy_in_force
from wakelog.log.content import Usage
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context
from wakelog.projections.state import branch_state, session_state
from wakelog.providers import spelled

_MODEL_CHARS = 32
_THOUSAND, _MILLION = 1_000, 1_000_000


class Figures(msgspec.Struct, frozen=True):
    """Figures of a session; for a new one only its model is known."""

    name: str = "a new session"
    title: str = ""
    model: str = ""
    tokens: int = 0
    compact_at: int = 0
    spent: Usage = Usage(cost_micros=0)
    calls: int = 0


def figures(name: str, tree: Tree) -> Figures:
    """Return the figures of a session."""
    branch, whole = tree.branch(), session_state(tree)
    state = branch_state(branch)
    policy = policy_in_force(state.context)
    built = build_context(branch, policy.strategy)
    return Figures(
        name=name,
        title=whole.title or "",
        model=spelled(state.provider, state.model),
        tokens=built.tokens + sum(beside(built, branch).values()),
        compact_at=policy.compact_at,
        spent=whole.usage,
        calls=whole.calls,
    )


def status_line(look: Look, known: Figures, doing: str, waiting: int) -> str:
    """Return the status line. On a narrow terminal the least important words are left out first."""
    used = known.spent
    spent = used.input_tokens + used.output_tokens + used.cache_read_tokens + used.cache_write_tokens
    limit = f"/{_short(known.compact_at)}" if known.compact_at else ""
    words = [
        (0, "bold", visible(known.name)),
        (4, "dim", beginning(first_line(known.title), 40)),
        (2, "dim", _ending(look, visible(known.model))),
        (3, "dim", f"context {_short(known.tokens)}{limit}" if known.calls or known.tokens else ""),
        (5, "dim", f"spent {_short(spent)}" if known.calls else ""),
        (6, "dim", _cost(used.cost_micros) if known.calls else ""),
        (1, "warn", doing),
        (0, "warn", plural(waiting, "question") if waiting else ""),
    ]
    return _fitted(look, [word for word in words if word[2]])


def _fitted(look: Look, words: list[tuple[int, str, str]]) -> str:
    between = f" {look.sign('·', '-')} "
    while len(words) > 1 and sum(cells(word[2]) + 3 for word in words) - 3 > look.columns:
        least = max(words, key=lambda word: word[0])
        if least[0] == 0:
            break
        words.remove(least)
    if sum(cells(word[2]) + 3 for word in words) - 3 > look.columns:
        return clip(look, between.join(word[2] for word in words), look.columns)
    return look.paint("dim", between).join(look.paint(style, text) for _, style, text in words)


def _ending(look: Look, model: str) -> str:
    """Return a model's name; of a long one, such as the path of a script, only the end."""
    return model if len(model) <= _MODEL_CHARS else look.sign("…", "...") + model[-_MODEL_CHARS:]


def _short(count: int) -> str:
    """Return a number of tokens: `812`, `4.1k`, `1.2M`."""
    if count < _THOUSAND:
        return str(count)
    size, unit = (_THOUSAND, "k") if count < _MILLION else (_MILLION, "M")
    return f"{count / size:.1f}".removesuffix(".0") + unit


def _cost(micros: int | None) -> str:
    return "cost unknown" if micros is None else f"${micros / _MILLION:.4f}"
