"""Find a piece of Python source in a named function or class by its syntax tree, and replace it.

`old` and `new` are two expressions, else statements, else one clause each (`case …:` or `except …:`). Syntax trees
are compared: layout, comments and the style of quotes do not matter.

- An empty `new` removes statements or a clause; an empty `old` inserts statements at the beginning of a function.
- `...` in `old` matches any expression. Among statements, arguments, elements of a list, tuple or set, and operands of
  `and` and `or` it matches any number of them. In a call it also matches the keyword arguments that are not written:
  `f(..., now=True)`. `**...` in a dictionary matches all other items: `{"a": 1, **...}`.
- A string that begins or ends with three dots matches a part of a string: `"...LIMIT 1..."`. The text of an f-string
  is searched too.
- The nth `...` of `new` is replaced by what the nth `...` of `old` matched, and the dots of the nth such string
  likewise. If `old` has none, `...` in `new` is an ordinary ellipsis.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_DOTS = "..."
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Fields with statements, or with expressions among which `...` stands for any number.
_BLOCKS = ("body", "orelse", "finalbody")
_SERIES = {ast.Call: "args", ast.List: "elts", ast.Tuple: "elts", ast.Set: "elts", ast.BoolOp: "values"}

Piece = list[Any]
"""Syntax nodes beside each other: one expression, one clause, or statements."""


class NotFound(LookupError):
    """The piece of source is missing, ambiguous, or cannot be replaced in place."""


class _Spot(NamedTuple):
    """A match: nodes of one field of the last node of `above`, and what each `...` at a position of `old` matched."""

    above: tuple[ast.AST, ...]
    field: str
    start: int | None
    nodes: Piece
    holes: dict[tuple[int, int], Any]


def replaced(text: str, place: str, old: str, new: str, occurrence: int | None = None) -> str:
    """Return the source text with one piece of a scope replaced; everything else stays byte for byte.

    `place` is the qualified name of the innermost function or class around the piece, "" at module level. Defaults,
    annotations and decorators belong to their function. If the piece is there several times, `occurrence` (from 1)
    chooses one. Raises NotFound if no piece matches, or several and `occurrence` is not given.
    """
    tree = ast.parse(text)
    if not old:
        return _planted(tree, text, *_beginning_of(_scopes(tree, place), new))
    wanted, fresh = _parsed(old, new)
    found = [spot for scope in _scopes(tree, place) for spot in _spots(scope, wanted)]
    where = place or "the module level"
    if not found:
        raise NotFound(f"not found in {where}: {old}")
    if occurrence is None and len(found) > 1:
        lines = ", ".join(str(_line(spot)) for spot in found)
        raise NotFound(
            f"found {len(found)} times in {where} (lines {lines}), so write more of it or give `occurrence`: {old}"
        )
    if occurrence is not None and not 1 <= occurrence <= len(found):
        raise NotFound(f"no occurrence {occurrence} in {where}, found {len(found)}: {old}")
    spot = found[(occurrence or 1) - 1]
    return _planted(tree, text, spot, _filled(fresh, _in_order(wanted, fresh, spot.holes)))


def _beginning_of(scopes: list[ast.AST], new: str) -> tuple[_Spot, Piece]:
    """Return the first statement of a scope after its docstring, and the statements to put there."""
    block = scopes[0].body  # type: ignore[attr-defined]
    at = int(len(block) > 1 and ast.get_docstring(scopes[0], clean=False) is not None)  # type: ignore[arg-type]
    is_docstring = at == 0 and ast.get_docstring(scopes[0]) is not None  # type: ignore[arg-type]
    fresh = [block[0], *_statements(new)] if is_docstring else [*_statements(new), block[at]]
    return _Spot((scopes[0],), "body", at, [block[at]], {}), fresh


def _parsed(old: str, new: str) -> tuple[Piece, Piece]:
    """Parse both in the same way: as expressions, statements or clauses."""
    for parse in (_expression, _statements, _clause):
        try:
            return parse(old), parse(new)
        except SyntaxError:
            continue
    raise NotFound(f"neither two expressions nor statements nor clauses: {old!r} and {new!r}")


def _expression(text: str) -> Piece:
    return [ast.parse(text.strip(), mode="eval").body]


def _statements(text: str) -> Piece:
    return list(ast.parse(text).body)


def _clause(text: str) -> Piece:
    if not text:
        return []
    if text.startswith("case "):
        return list(_only(ast.parse("match _:\n" + _indented(text, "    ")).body, ast.Match).cases)
    return list(_only(ast.parse("try:\n    pass\n" + text).body, ast.Try).handlers)


def _only(found: Piece, kind: type) -> Any:
    if len(found) != 1 or not isinstance(found[0], kind):
        raise SyntaxError("more than one clause")
    return found[0]


def _scopes(tree: ast.Module, place: str) -> list[ast.AST]:
    """Return the functions and classes of a qualified name, or the module."""
    found: list[ast.AST] = [tree]
    for name in place.split(".") if place else ():
        found = [
            each
            for scope in found
            for _, field, _, each in _nodes(scope, ())
            if field in _BLOCKS and isinstance(each, _SCOPES) and each.name == name
        ]
    if not found:
        raise NotFound(f"no function or class {place!r}")
    return found


def _nodes(above: ast.AST, path: tuple[ast.AST, ...]) -> Iterator[tuple[tuple[ast.AST, ...], str, int | None, ast.AST]]:
    """Yield every node of a scope except those inside nested functions and classes."""
    path = (*path, above)
    for field, value in ast.iter_fields(above):
        for index, each in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(each, ast.AST):
                yield path, field, index, each
                if not isinstance(each, _SCOPES):
                    yield from _nodes(each, path)


def _spots(scope: ast.AST, wanted: Piece) -> Iterator[_Spot]:
    """Yield every match of a piece in a scope."""
    for path, field, index, node in _nodes(scope, ()):
        for nodes in _beginning(path[-1], field, index, node, wanted):
            holes: dict[tuple[int, int], Any] = {}
            if _is_series(wanted, nodes, holes, splits=isinstance(node, ast.stmt)):
                yield _Spot(path, field, index, nodes, holes)
                break


def _beginning(above: ast.AST, field: str, index: int | None, node: ast.AST, wanted: Piece) -> Iterator[Piece]:
    """Yield the candidates that begin with a node: the node, or statements beginning with it, the fewest first."""
    if not isinstance(node, ast.stmt) or index is None:
        yield [node]
        return
    block = getattr(above, field)
    has_gap = any(_is_gap(each) for each in wanted)
    for end in range(index + 1, len(block) + 1) if has_gap else (index + len(wanted),):
        yield block[index:end]


def _is_same(wanted: Any, node: Any, holes: dict[tuple[int, int], Any]) -> bool:
    """Whether a node, or the value of a field, matches; stores what each `...` matched in `holes`."""
    if isinstance(wanted, ast.Constant) and wanted.value is ... and isinstance(node, ast.expr):
        holes[_at(wanted)] = [node]
        return True
    if type(wanted) is not type(node):
        return False
    if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str):
        return _is_same_text(wanted, node.value, holes)
    if not isinstance(wanted, ast.AST):
        return bool(wanted == node)
    if isinstance(wanted, ast.Dict) and _dict_gap(wanted):
        return _holds_items(wanted, node, holes)
    for field, value in ast.iter_fields(wanted):
        other = getattr(node, field, None)
        if field == "kind":
            continue
        if isinstance(wanted, ast.Call) and field == "keywords":
            same = _are_same_keywords(wanted, node.keywords, holes)
        elif isinstance(value, list) and isinstance(other, list):
            same = _is_series(value, other, holes, splits=field in _BLOCKS or _SERIES.get(type(wanted)) == field)
        else:
            same = _is_same(value, other, holes)
        if not same:
            return False
    return True


def _is_series(wanted: Piece, nodes: Piece, holes: dict[tuple[int, int], Any], *, splits: bool) -> bool:
    """Whether a list of nodes matches; with `splits`, `...` matches any number of them."""
    if not wanted:
        return not nodes
    first, *rest = wanted
    if splits and _is_gap(first):
        for count in range(len(nodes) + 1):
            holes[_at(first)] = nodes[:count]
            if _is_series(rest, nodes[count:], holes, splits=splits):
                return True
        return False
    return bool(nodes) and _is_same(first, nodes[0], holes) and _is_series(rest, nodes[1:], holes, splits=splits)


def _is_same_text(wanted: Any, text: Any, holes: dict[tuple[int, int], Any]) -> bool:
    """Whether a string is equal, or contains the wanted part exactly once."""
    part = _part(wanted.value)
    if part is None or not isinstance(text, str):
        return type(text) is str and bool(text == wanted.value)
    before, _, behind = text.partition(part)
    is_anchored = (wanted.value.startswith(_DOTS) or not before) and (wanted.value.endswith(_DOTS) or not behind)
    if text.count(part) != 1 or not is_anchored:
        return False
    holes[_at(wanted)] = (before, behind)
    return True


def _part(text: str) -> str | None:
    """Return the text between the dots; None for a string without dots."""
    part = text.removeprefix(_DOTS).removesuffix(_DOTS)
    return part if part and part != text else None


def _are_same_keywords(wanted: ast.Call, keywords: list[ast.keyword], holes: dict[tuple[int, int], Any]) -> bool:
    """Whether keyword arguments match; a `...` among the arguments also matches those that are not written."""
    gaps = _gaps(wanted)
    if not gaps:
        return _is_series(wanted.keywords, keywords, holes, splits=False)
    named = {each.arg for each in wanted.keywords}
    taken = [each for each in keywords if each.arg in named]
    holes[_rest(gaps[-1])] = (keywords, named)
    return _is_series(wanted.keywords, taken, holes, splits=False)


def _gaps(node: ast.AST) -> Piece:
    """Return each `...` among the arguments of a call."""
    return [each for each in node.args if _is_gap(each)] if isinstance(node, ast.Call) else []


def _rest(gap: Any) -> tuple[int, int]:
    return _rest_of(_at(gap))


def _rest_of(gap: tuple[int, int]) -> tuple[int, int]:
    """Return the key in `holes` of the keyword arguments that a `...` at this position matched."""
    return -gap[0], -gap[1]


def _dict_gap(node: ast.Dict) -> Any:
    """Return the `...` of a `**...` among the items of a dictionary, or None."""
    return next((each for key, each in _items(node) if key is None and _is_gap(each)), None)


def _items(node: ast.Dict) -> list[tuple[Any, Any]]:
    return list(zip(node.keys, node.values, strict=True))


def _holds_items(wanted: ast.Dict, node: ast.Dict, holes: dict[tuple[int, int], Any]) -> bool:
    """Whether a dictionary has the wanted items; `**...` matches the others."""
    items, named = _items(node), {}
    for key, value in _items(wanted):
        if key is None and _is_gap(value):
            continue
        found = [at for at, item in enumerate(items) if _is_same(key, item[0], {}) and _is_same(value, item[1], {})]
        if not found:
            return False
        _is_same(value, items[found[0]][1], holes)
        named[found[0]] = _name(key)
    holes[_at(_dict_gap(wanted))] = (items, named)
    return True


def _name(key: Any) -> str:
    return ast.dump(key) if key is not None else ""


def _with_items(node: ast.Dict, holes: dict[tuple[int, int], Any]) -> ast.Dict:
    """Return a dictionary with the matched items in their order, those written in `old` replaced or left out."""
    before, named = holes[_at(_dict_gap(node))]
    left = {
        _name(key): (key, _fill(value, holes)) for key, value in _items(node) if not (key is None and _is_gap(value))
    }
    kept = [left.pop(named[at], None) if at in named else item for at, item in enumerate(before)]
    items = [*(item for item in kept if item is not None), *left.values()]
    return ast.Dict([key for key, _ in items], [value for _, value in items])


def _is_gap(node: Any) -> bool:
    """Whether a node is `...`, as an expression or a statement."""
    inner = node.value if isinstance(node, ast.Expr) else node
    return isinstance(inner, ast.Constant) and inner.value is ...


def _at(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _in_order(wanted: Piece, fresh: Piece, holes: dict[tuple[int, int], Any]) -> dict[tuple[int, int], Any]:
    """Return what replaces each `...` and each string with dots of the new piece, by its position there."""
    found: dict[tuple[int, int], Any] = {}
    for is_hole in (_is_gap_expression, _is_part):
        old, new = (sorted(_at(node) for node in _all(piece) if is_hole(node)) for piece in (wanted, fresh))
        if old and len(new) > len(old):
            raise NotFound(f"the new piece has {len(new)} places to fill, the old one {len(old)}")
        for before, after in zip(old, new, strict=False):
            found[after] = holes[before]
            if _rest_of(before) in holes:
                found[_rest_of(after)] = holes[_rest_of(before)]
    return found


def _all(piece: Piece) -> Iterator[ast.AST]:
    return (node for each in piece for node in ast.walk(each))


def _is_gap_expression(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _is_part(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _part(node.value) is not None


def _filled(nodes: Piece, holes: dict[tuple[int, int], Any]) -> Piece:
    """Return nodes with every `...` replaced."""
    found: Piece = []
    for node in nodes:
        if _is_gap(node) and _at(node) in holes:
            found += holes[_at(node)]
        else:
            found.append(_fill(node, holes))
    return found


def _fill(node: Any, holes: dict[tuple[int, int], Any]) -> Any:
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _at(node) in holes:
        before, behind = holes[_at(node)]
        return ast.Constant(before + (_part(node.value) or "") + behind)
    if isinstance(node, ast.Dict) and (gap := _dict_gap(node)) and _at(gap) in holes:
        return _with_items(node, holes)
    rest = next((holes[_rest(each)] for each in _gaps(node) if _rest(each) in holes), None)
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(node, field, _filled(value, holes))
        elif isinstance(value, ast.AST):
            filled = _filled([value], holes)
            if len(filled) != 1:
                raise NotFound(f"`...` stands for {len(filled)} nodes, where one is needed")
            setattr(node, field, filled[0])
    if rest is not None and isinstance(node, ast.Call):
        node.keywords = _merged(node.keywords, *rest)
    return node


def _merged(fresh: list[ast.keyword], before: list[ast.keyword], named: set[str | None]) -> list[ast.keyword]:
    """Return the matched keyword arguments in their order, those written in `old` replaced or left out."""
    left = {each.arg: each for each in fresh}
    kept = [left.pop(each.arg, None) if each.arg in named else each for each in before]
    return [*(each for each in kept if each is not None), *left.values()]


def _planted(tree: ast.Module, text: str, spot: _Spot, fresh: Piece) -> str:
    """Return the text with the nodes of a match replaced, and check that it parses to the changed tree."""
    above, nodes = spot.above[-1], spot.nodes
    owner = _owner(spot, text)
    if spot.start is None:
        setattr(above, spot.field, fresh[0])
    else:
        block = getattr(above, spot.field)
        block[spot.start : spot.start + len(nodes)] = fresh
        if not block and spot.field == "body":
            block.append(ast.Pass())
            fresh = block
    first, last = (nodes[0], nodes[-1]) if owner is None else (owner, owner)
    written = _written(fresh if owner is None else [owner], first.col_offset)
    result = _spliced(text, _start(first), (last.end_lineno, last.end_col_offset), written)
    if not _parses_to(tree, result):
        raise NotFound(f"cannot be written in place: {written}")
    return result


def _parses_to(tree: ast.Module, text: str) -> bool:
    try:
        return ast.dump(ast.parse(text)) == ast.dump(tree)
    except SyntaxError:
        return False


def _owner(spot: _Spot, text: str) -> Any:
    """Return the node to rewrite as a whole, if the matched nodes have no exact position in the text; else None."""
    for node in spot.above:
        if isinstance(node, ast.JoinedStr):
            return node
    lines = text.split("\n")
    first = spot.nodes[0]
    if isinstance(first, ast.expr) or (isinstance(first, ast.stmt) and not _is_elif(first, lines)):
        return None
    return next(node for node in reversed(spot.above) if isinstance(node, ast.stmt) and not _is_elif(node, lines))


def _is_elif(node: ast.stmt, lines: list[str]) -> bool:
    return isinstance(node, ast.If) and lines[node.lineno - 1].lstrip().startswith("elif")


def _written(nodes: Piece, indent: int) -> str:
    if len(nodes) == 1 and isinstance(nodes[0], ast.expr):
        return f"({ast.unparse(nodes[0])})"
    lines = "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in nodes)
    return _indented(lines, " " * indent).lstrip()


def _indented(text: str, by: str) -> str:
    return "\n".join(by + line if line else line for line in text.split("\n"))


def _start(node: Any) -> tuple[int, int]:
    """Return the position at which a node begins, including its decorators."""
    decorators = getattr(node, "decorator_list", ())
    return (decorators[0].lineno, node.col_offset) if decorators else _at(node)


def _spliced(text: str, start: tuple[int, int], end: Sequence[Any], fresh: str) -> str:
    """Return the text with the part between two positions (line, column in bytes) replaced."""
    lines = text.encode().split(b"\n")
    before = b"\n".join((*lines[: start[0] - 1], lines[start[0] - 1][: start[1]]))
    behind = b"\n".join((lines[end[0] - 1][end[1] :], *lines[end[0] :]))
    return (before + fresh.encode() + behind).decode()


def _line(spot: _Spot) -> int:
    return next(int(each.lineno) for each in (*spot.nodes, *reversed(spot.above)) if hasattr(each, "lineno"))
