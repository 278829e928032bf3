"""Hypothesis strategies for every type of the format, derived from the types themselves.

A new field or type is covered as soon as it is declared; nothing has to be added here.
"""

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)

# JSON as text, with what a JSON library refuses or changes although it is valid: numbers that no double holds, integers
# of thousands of digits, lone surrogate escapes (in keys too), the same key twice, escapes that need not be.
_ODD_NUMBERS = st.sampled_from(
    ["1e400", "-1e400", "1E+400", "2.5e999999999999999999999", "-0.0", "1e-400", "1.0e2", "9" * 400, "-" + "7" * 5_000]
)
_ODD_STRINGS = st.sampled_from(
    [
        r'"\ud800"',
        r'"\uDFFF x"',
        r'"\\ud800\ud800"',
        r'"\ud83e\udd80"',
        r'"\u0061"',
        '"1e400"',
        r'"\"}\u0000"',
        '"\u2028"',
    ]
)


def _objects(inner):
    return st.lists(st.tuples(_ODD_STRINGS, inner), max_size=3).map(
        lambda pairs: "{{{}}}".format(", ".join(f"{key} :{value}" for key, value in pairs))
    )


ODD_JSON = st.recursive(
    st.sampled_from(["null", "true"]) | _ODD_NUMBERS | _ODD_STRINGS,
    lambda inner: st.lists(inner, max_size=3).map(lambda values: "[{}]".format(",".join(values))) | _objects(inner),
    max_leaves=6,
).map(str.encode)


def values_of(cls):
    """A strategy for one struct type, with a valid id."""
    return _strategy(inspect.type_info(cls))


def _strategy(kind):
    match kind:
        case inspect.StructType():
            return _struct(kind)
        case inspect.UnionType():
            return st.one_of([_strategy(one) for one in kind.types])
        case inspect.VarTupleType():
            return st.lists(_strategy(kind.item_type), max_size=2).map(tuple)
        case inspect.DictType():
            return st.dictionaries(TEXTS, JSON, max_size=2)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.StrType():
            return TEXTS
        case inspect.IntType():
            return st.integers(0, 2**53)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.AnyType():
            return JSON
    raise TypeError(f"no strategy for {kind}")


def _struct(kind):
    fields = {field.name: _field(field) for field in kind.fields}
    return st.fixed_dictionaries(fields).map(lambda given: kind.cls(**given))


def _field(field):
    if field.name == "id":
        return IDS
    if field.name in ("v", "seq"):
        return st.none()
    if field.name == "version":
        return st.sampled_from([None, 1])
    return _strategy(field.type)


def required(cls):
    """The names of the required fields of a body."""
    return [field.name for field in msgspec.structs.fields(cls) if field.required]
