"""Hand a session to another agent: write it into the tool's own folder, read it back, and say how it is continued.

Rule 1: nothing of the tool is changed. Only new files are written; one that exists is an error. A tool that keeps its
sessions in a database takes them in by its own import command.
Rule 2: what was written is read with the reader of that format, and compared with the session, before it is reported.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from wakelog.errors import StoreError, UsageError, WakelogError
from wakelog.exchange.detection import detect
from wakelog.exchange.places import folder_of, usual_files
from wakelog.exchange.sessions import ForeignSession, ImportedEntry
from wakelog.exchange.writing import MOVED_RESULT, Loss, SessionToWrite, WrittenNode, WrittenSession
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Head, KnownBody, Message, Node

TOOL_NAMES = {"gemini": "gemini-cli"}
"""Targets whose tool has another name in `places`."""
MODEL_PLACE = "PROVIDER/MODEL"
"""What stands in the printed command for a model that a person has to choose."""
_LOAD_S = 300
_MODELS_NAMED = 5
_RESULT = "tool result"
Turn: TypeAlias = tuple[str, str]


class HandoffPlan(msgspec.Struct, frozen=True):
    """What a handoff will write, and where."""

    written: WrittenSession
    cwd: str
    paths: tuple[str, ...]
    """The full paths of the files, in the order of `written.files`. Empty for a tool with its own import command."""
    model: str = ""
    """The model to continue with; empty for the one that the session names, or that the tool chooses."""
    warnings: tuple[str, ...] = ()
    """What keeps the tool from continuing the session as it is, as sentences."""

    @property
    def resume(self) -> tuple[str, ...]:
        """The command that continues the session in the tool."""
        first = self.paths[0] if self.paths else ""
        model = (self.written.model_option, self.model) if self.model else ()
        return (*(word.replace("{file}", first) for word in self.written.resume), *model)


def plan_handoff(
    session: SessionToWrite, written: WrittenSession, environ: Mapping[str, str], *, model: str | None = None
) -> HandoffPlan:
    """Return where the files of a written session go, and what the tool will not accept.

    `model` is the model to continue with, as the tool spells it. `UsageError` if a file is there already, or if the
    tool says that it does not have that model.
    """
    if model and not written.model_option:
        raise UsageError(f"{written.tool} takes no model for a session", hint="it uses the one of its configuration")
    cwd, paths, warnings = session.cwd, _paths(session, written, environ), []
    if cwd and not os.path.isdir(cwd) and written.without_folder:
        warnings.append(f"the folder {cwd} does not exist here: {written.without_folder}; --cwd names another one")
    chosen = model or ""
    if written.list_models and (model or written.model):
        try:
            known = _run(written.list_models, None, environ).split()
        except StoreError as error:
            warnings.append(f"whether {written.tool} has the model {model or written.model} is not known: {error}")
        else:
            if model and model not in known:
                raise UsageError(f"{written.tool} has no model {model!r}", hint=_models_hint(written, known))
            if not model and written.model not in known:
                warnings.append(f"{written.tool} has no model {written.model}: {_models_hint(written, known)}")
                chosen = MODEL_PLACE
    return HandoffPlan(written, cwd, paths, chosen, tuple(warnings))


def _models_hint(written: WrittenSession, known: Sequence[str]) -> str:
    if not known:
        return f"configure a model in {written.tool} first"
    others = f" and {len(known) - _MODELS_NAMED:,} more" if len(known) > _MODELS_NAMED else ""
    return f"it has {', '.join(known[:_MODELS_NAMED])}{others}"


def _paths(session: SessionToWrite, written: WrittenSession, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where the files go; nothing for a tool that takes them in itself."""
    if not any(isinstance(node, Message) for node in session.branch):
        raise UsageError("the session has no messages yet", hint="there is nothing to continue")
    if written.load:
        if shutil.which(written.load[0], path=environ.get("PATH")) is None:
            raise UsageError(
                f"{written.load[0]} is not installed, and keeps its sessions in a database",
                hint=f"`wakelog export --to {written.tool} -o FILE` writes a FILE for `{written.load_command}`",
            )
        return ()
    if not written.resume:
        raise UsageError(
            f"{written.tool} is a format, not a tool that continues sessions",
            hint=f"`wakelog export --to {written.tool}` writes it",
        )
    root = folder_of(TOOL_NAMES.get(written.tool, written.tool), environ) or session.cwd
    if not root:
        raise UsageError(
            "the session has no working directory, where this tool keeps its files", hint="use `export --to`"
        )
    if root == session.cwd and not os.path.isdir(root):
        raise UsageError(
            f"{root}, where this tool keeps the session, does not exist", hint="create it, or use `export --to`"
        )
    paths = tuple(_inside(root, file.path) for file in written.files)
    for path in paths:
        if os.path.lexists(path):
            raise UsageError(f"{path} already exists", hint="the session was handed over before; continue it there")
    return paths


def _inside(root: str, relative: str) -> str:
    path = os.path.normpath(os.path.join(root, relative))
    if os.path.isabs(relative) or not path.startswith(os.path.join(os.path.normpath(root), "")):
        raise UsageError(f"{relative} would be written outside {root}")
    return path


def carry_out(plan: HandoffPlan, session: SessionToWrite, environ: Mapping[str, str]) -> None:
    """Write the files, or let the tool take them in; then read the session back and compare it with `session`."""
    if plan.written.load:
        _load(plan, environ)
    else:
        _write(plan)
    problem = _compare(plan, session, environ)
    if problem:
        raise StoreError(
            f"the session that {plan.written.tool} has now differs: {problem}",
            hint="do not continue it there, and report this with the session",
        )


def _compare(plan: HandoffPlan, session: SessionToWrite, environ: Mapping[str, str]) -> str:
    """Return how the session that the tool has differs; empty if it is the same.

    A tool that takes sessions in may give them an id of its own. Then any of its sessions may be the one.
    """
    problems: list[str] = []
    for foreign_id, turns in _read_back(plan, environ):
        problem = difference(session, turns, plan.written.losses)
        if not problem or foreign_id == plan.written.id:
            return problem
        problems.append(problem)
    return problems[0] if len(problems) == 1 else "it is not among the sessions of the tool"


def _write(plan: HandoffPlan) -> None:
    made: list[str] = []
    try:
        for path, file in zip(plan.paths, plan.written.files, strict=True):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as opened:
                made.append(path)
                opened.write(file.content)
                opened.flush()
                os.fsync(opened.fileno())
    except OSError as error:
        for path in made:
            os.unlink(path)
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StoreError(f"cannot write {error.filename or plan.paths[0]}: {reason}") from error


def _load(plan: HandoffPlan, environ: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="wakelog-") as folder:
        path = os.path.join(folder, os.path.basename(plan.written.files[0].path))
        with open(path, "wb") as opened:
            opened.write(plan.written.files[0].content)
        command = [word.replace("{file}", path) for word in plan.written.load]
        _run(command, plan.cwd if os.path.isdir(plan.cwd) else None, environ, shown=plan.written.load_command)


def _run(command: Sequence[str], cwd: str | None, environ: Mapping[str, str], *, shown: str = "") -> str:
    """Run a command of the tool and return its output; `StoreError` if it fails. `shown` is the command for people."""
    shown = shown or " ".join(command)
    try:
        done = subprocess.run(  # noqa: S603 - the command of a writer, with a path of our own
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOAD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StoreError(f"`{shown}` did not end within {_LOAD_S} seconds") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise StoreError(f"`{shown}` failed: {last[:200]}")
    return done.stdout


# ── comparing ────────────────────────────────────────────────────────────────────────────────────


def _read_back(plan: HandoffPlan, environ: Mapping[str, str]) -> Iterator[tuple[str, list[Turn]]]:
    """Yield the id and the turns of the session as the tool has it now; of all its sessions if it took it in itself."""
    tool = TOOL_NAMES.get(plan.written.tool, plan.written.tool)
    for path in usual_files(environ).get(tool, []) if plan.written.load else plan.paths[:1]:
        try:
            with detect(path) as source:
                for found in source.sessions():
                    yield found.origin.id, _turns_of(found)
        except WakelogError as error:
            if not plan.written.load:
                raise StoreError(f"{path} cannot be read back: {error}") from error


def _turns_of(found: ForeignSession) -> list[Turn]:
    """Return the turns of a session's branch: the path to its last node, or to where its head was moved."""
    bodies: dict[str, KnownBody] = {}
    head: str | None = None
    for item in found.items:
        if isinstance(item, ImportedEntry):
            if isinstance(item.body, Head):
                head = item.body.target_id
            elif isinstance(item.body, Node):
                bodies[item.body.id] = item.body
                head = item.body.id
    path: list[KnownBody] = []
    while head and head in bodies:
        body = bodies.pop(head)
        path.append(body)
        head = body.parent_id
    return list(_turns(reversed(path)))


def _turns(nodes: Iterable[KnownBody]) -> Iterator[Turn]:
    for node in nodes:
        match node:
            case Message(message=Prompt() as prompt):
                yield "prompt", _words(prompt.text)
            case Message(message=Reply() as reply):
                if reply.text.strip():
                    yield "reply", _words(reply.text)
                yield from (("tool call", call.name) for call in reply.tool_calls)
            case Message(message=ToolResult() as result):
                yield _RESULT, _words(result.text)


def _words(text: str) -> str:
    return " ".join(text.split())


def difference(session: SessionToWrite, got: list[Turn], losses: Iterable[Loss]) -> str:
    """Return the first turn of a session that is not in `got`, in order; empty if all are there.

    Tool results may be in another order: a format may need them directly behind their calls. Calls and results are not
    compared if some are among the losses. If the format has no compactions, only what the model is given is compared:
    what follows the last one.
    """
    has_tools = not any("tool" in loss.kind and loss.kind != MOVED_RESULT for loss in losses)
    missing = _first_missing(session.branch, got, has_tools=has_tools)
    active = _active_part(session.branch)
    if missing and len(active) < len(session.branch):
        missing = _first_missing(active, got, has_tools=has_tools)
    return missing


def _first_missing(nodes: Sequence[KnownBody], got: list[Turn], *, has_tools: bool) -> str:
    rest = iter(turn for turn in got if turn[0] != _RESULT)
    results = [turn for turn in got if turn[0] == _RESULT]
    for kind, text in _turns(nodes):
        is_compared = text and (has_tools or not kind.startswith("tool"))
        if not is_compared:
            continue
        among: Iterable[Turn] = results if kind == _RESULT else rest
        found = next((turn for turn in among if _is_same(turn, (kind, text))), None)
        if found is None:
            return f"the {kind} {text[:60]!r} is missing"
        if kind == _RESULT:
            results.remove(found)
    return ""


def _active_part(branch: Sequence[WrittenNode]) -> Sequence[WrittenNode]:
    """Return the nodes that follow the last compaction; all if there is none."""
    last = max((at for at, node in enumerate(branch) if isinstance(node, Compaction)), default=-1)
    return branch[last + 1 :]


def _is_same(found: Turn, wanted: Turn) -> bool:
    """Return whether a turn is the wanted one; some tools put words around a prompt or a result."""
    return found[0] == wanted[0] and wanted[1] in found[1]
