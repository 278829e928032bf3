"""RUN-7: the schema for the model and the check of arguments are both derived from the function."""

from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest

from wakelog.errors import UsageError
from wakelog.ports.runtime import ToolInvocation
from wakelog.tools.function_tool import describe_function


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


def everything(
    text: str,
    count: int,
    share: float,
    point: Point,
    named: Named,
    anything: dict[str, Any],
    call: ToolInvocation,
    flag: bool = False,
    words: list[str] = ["a"],  # noqa: B006 - defaults that could be changed are the point
    mode: Literal["fast", "slow"] = "fast",
    maybe: Optional[int] = None,  # noqa: UP045 - the old spelling works too
    small: Annotated[int, msgspec.Meta(le=9, description="own words")] = 1,
):
    """Does everything,
    and more.

    This paragraph is for people.

    Args:
        text: Some words,
            which go on here: and on.
        count (int): How many.
        small: not taken, the type has its own
        stranger: no such parameter

    Returns:
        nothing: at all
    """


VALID = {"text": "t", "count": 1, "share": 1, "point": {"x": 1}, "named": {"name": "n"}, "anything": {"k": [1]}}


def test_every_type_is_described():
    found = describe_function(everything)
    properties = found.schema["properties"]
    assert found.description == "Does everything, and more."
    assert found.invocation_parameter == "call"
    assert found.schema["required"] == list(VALID)
    assert list(properties) == [*VALID, "flag", "words", "mode", "maybe", "small"]
    assert found.schema["additionalProperties"] is False
    assert properties["text"] == {"type": "string", "description": "Some words, which go on here: and on."}
    assert properties["count"] == {"type": "integer", "description": "How many."}
    assert properties["share"] == {"type": "number"}
    assert properties["point"] == {"$ref": "#/$defs/Point"}
    assert set(found.schema["$defs"]) == {"Point", "Named"}
    assert properties["flag"] == {"type": "boolean", "default": False}
    assert properties["words"] == {"type": "array", "items": {"type": "string"}}
    assert properties["mode"] == {"enum": ["fast", "slow"], "default": "fast"}
    assert properties["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["small"] == {"type": "integer", "maximum": 9, "default": 1, "description": "own words"}
    assert msgspec.json.decode(msgspec.json.encode(found.schema)) == found.schema


def test_arguments_are_converted_to_the_types_of_the_function():
    given = describe_function(everything).arguments(VALID)
    assert (given["point"], given["share"], given["words"]) == (Point(1, 0), 1.0, ["a"])
    given["words"].append("b")
    assert describe_function(everything).arguments(VALID)["words"] == ["a"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": "1"}, "bad arguments: Expected `int`, got `str` - at `$.count`"),
        ({"wrong": 1}, "bad arguments: Object contains unknown field `wrong`"),
        ({"point": {}}, "bad arguments: Object missing required field `x` - at `$.point`"),
        ({"mode": "a\nb"}, "bad arguments: Invalid enum value 'a\\nb' - at `$.mode`"),
        ({"small": 10}, "bad arguments: Expected `int` <= 9 - at `$.small`"),
    ],
)
def test_invalid_arguments_are_an_error_of_one_line(change, said):
    with pytest.raises(UsageError) as caught:
        describe_function(everything).arguments(VALID | change)
    assert caught.value.message == said


@pytest.mark.parametrize("given", [None, [], "text", 7])
def test_arguments_that_are_not_an_object(given):
    with pytest.raises(UsageError, match="bad arguments: Expected `object`"):
        describe_function(everything).arguments(given)


def without_types(a): ...


def starred(*rest: str): ...


def two_calls(one: ToolInvocation, two: ToolInvocation): ...


def unknown_name(a: "NoSuchType"): ...  # type: ignore[name-defined]  # noqa: F821


def odd_type(a: describe_function): ...  # type: ignore[valid-type]


@pytest.mark.parametrize("function", [without_types, starred, two_calls, unknown_name, odd_type])
def test_a_function_without_a_possible_schema_is_refused(function):
    """When the tool is made, not when a model calls it."""
    with pytest.raises(UsageError, match=function.__name__):
        describe_function(function)


def test_a_function_without_parameters_or_docstring():
    def bare(): ...

    found = describe_function(bare)
    assert (found.description, found.schema["properties"], found.arguments({})) == ("", {}, {})
