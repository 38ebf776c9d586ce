"""`safe_expression`: arithmetic for models, which cannot count. Numbers, texts, lists and comparisons; no names, no calls, no attributes.

Each step is looked at before it is done: how large its outcome would be, and whether it is one of the few that there are. So nothing is allocated that is then refused, and
nothing runs longer than a moment.
"""

from __future__ import annotations

import ast
import io
import math
import operator
import tokenize
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from retinue.capabilities.errors import BadExpression
from retinue.capabilities.tools import tool

__all__ = ["evaluate_expression", "safe_expression"]

LONGEST: Final = 4_096
"""Characters of an expression."""

MOST_NODES: Final = 128
"""Parts of an expression."""

DEEPEST: Final = 32
"""Parts within each other."""

MOST_ITEMS: Final = 64
"""Items of a value, those of the values in it included."""

MOST_CHARACTERS: Final = 4_096
"""Characters of the texts in a value."""

MOST_BITS: Final = 4_096
"""Bits of a whole number."""

Size: TypeAlias = tuple[int, int]
"""Items and characters of a value, all that is in it included."""

_NUMBER: Final = (int, float)  # a bool is an int here, as in Python
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SIGNS: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_OTHERS: Final[Mapping[type[ast.AST], str]] = {
    ast.Name: "names", ast.Call: "calls", ast.Attribute: "attributes", ast.Subscript: "subscripts", ast.Lambda: "functions", ast.IfExp: "conditions (a if b else c)",
    ast.ListComp: "comprehensions", ast.SetComp: "comprehensions", ast.DictComp: "comprehensions", ast.GeneratorExp: "comprehensions", ast.JoinedStr: "f-strings",
    ast.NamedExpr: "assignments", ast.Starred: "stars", ast.Await: "await", ast.Yield: "yield", ast.YieldFrom: "yield", ast.Slice: "slices",
}  # fmt: skip


class _Fault(Exception):
    """What is wrong with a part, and at which byte it begins."""

    def __init__(self, why: str, offset: int) -> None:
        super().__init__(why)
        self.why = why
        self.offset = offset


def evaluate_expression(expression: str) -> Any:
    """The value of an expression.

    Args:
        expression: Numbers, texts, True, False, None; lists, tuples, sets and dicts of these; `+ - * / // %`, `-x`, `+x`; `and or not`; `< <= > >= == != in not in is`.

    Returns:
        The value: of at most 64 items, 4,096 characters, 4,096 bits a number.

    Raises:
        BadExpression: It is no such expression, would become too large, or cannot be calculated (a division by zero). The text is for the model.
    """
    if not isinstance(expression, str):
        raise BadExpression(f"an expression is a text, not an object of type {type(expression).__name__}")
    if len(expression) > LONGEST:
        raise BadExpression(f"the expression has {len(expression):,} characters, and {LONGEST:,} are the most")
    _check_lines(expression)
    text = expression.replace("\n", " ").lstrip()  # a text has no line within it, and the rest may be on several
    skipped = len(expression) - len(text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        where = getattr(error, "offset", None)
        why = str(getattr(error, "msg", error))[:200]
        raise BadExpression(f"this is no expression: {why}", position=skipped + where - 1 if where else None) from None
    except (RecursionError, MemoryError):
        raise BadExpression(f"the expression has too many parts within each other; {DEEPEST} are the most") from None
    _check_form(tree)
    try:
        return _value(tree)[0]
    except _Fault as fault:
        position = skipped + len(text.encode("utf-8")[: fault.offset].decode("utf-8", "ignore"))
        raise BadExpression(f"{fault.why} (at character {position + 1})", position=position) from None


def _check_lines(expression: str) -> None:
    """Refuses what would mean something else on one line: comments, and texts with a line break in them."""
    if "\n" not in expression and "#" not in expression:
        return
    try:
        for token in tokenize.generate_tokens(io.StringIO(f"({expression}\n)").readline):
            if token.type == tokenize.COMMENT:
                raise BadExpression("comments are not understood: leave out what begins with #")
            if (token.start[0] != token.end[0] and token.type == tokenize.STRING) or (
                token.type == tokenize.ERRORTOKEN and token.string[:1] in ("'", '"')
            ):
                raise BadExpression("a text ends in the line in which it begins: write \\n for a line break within it")
    except (tokenize.TokenError, SyntaxError) as error:
        raise BadExpression(f"this is no expression: {str(error.args[0])[:200]}") from None


def _check_form(tree: ast.expr) -> None:
    """Counts, without going deeper than it may."""
    level: list[ast.AST] = [tree]
    count = depth = 0
    while level:
        count += len(level)
        depth += 1
        if count > MOST_NODES:
            raise BadExpression(f"the expression has too many parts; {MOST_NODES} are the most. Calculate it in steps")
        if depth > DEEPEST:
            raise BadExpression(f"the expression has too many parts within each other; {DEEPEST} are the most. Calculate it in steps")
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.operator | ast.unaryop | ast.boolop | ast.cmpop | ast.expr_context)
        ]


def _value(node: ast.expr) -> tuple[Any, Size]:
    """The value of a part, and its size."""
    if isinstance(node, ast.Constant):
        return _constant(node)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return _collection(node)
    if isinstance(node, ast.Dict):
        return _dict(node)
    if isinstance(node, ast.UnaryOp):
        return _unary(node)
    if isinstance(node, ast.BinOp):
        return _binary(node)
    if isinstance(node, ast.BoolOp):
        found = _value(node.values[0])
        for part in node.values[1:]:
            if bool(found[0]) is isinstance(node.op, ast.Or):
                break
            found = _value(part)
        return found
    if isinstance(node, ast.Compare):
        return _comparison(node)
    raise _fault(
        node,
        f"{_OTHERS.get(type(node), type(node).__name__)} are not understood: there are numbers, texts, lists, + - * / // %, and comparisons",
    )


def _constant(node: ast.Constant) -> tuple[Any, Size]:
    value = node.value
    if value is None or isinstance(value, bool):
        return value, (1, 0)
    if isinstance(value, int):
        return _number(node, value)
    if isinstance(value, float):
        return _number(node, value)
    if isinstance(value, str):
        return _sized(node, value, (1, len(value)))
    raise _fault(node, f"a {type(value).__name__} is not understood")


def _collection(node: ast.List | ast.Tuple | ast.Set) -> tuple[Any, Size]:
    parts = [_value(part) for part in node.elts]
    size = _sum(node, [part[1] for part in parts])
    values = [part[0] for part in parts]
    if isinstance(node, ast.List):
        return values, size
    if isinstance(node, ast.Tuple):
        return tuple(values), size
    try:
        return set(values), size
    except TypeError:
        raise _fault(node, "a set holds numbers, texts and tuples of these") from None


def _dict(node: ast.Dict) -> tuple[Any, Size]:
    if any(key is None for key in node.keys):
        raise _fault(node, "stars are not understood")
    keys = [_value(key) for key in node.keys if key is not None]
    values = [_value(value) for value in node.values]
    size = _sum(node, [part[1] for part in (*keys, *values)])
    try:
        return {key[0]: value[0] for key, value in zip(keys, values, strict=True)}, size
    except TypeError:
        raise _fault(node, "the keys of a dict are numbers, texts and tuples of these") from None


def _unary(node: ast.UnaryOp) -> tuple[Any, Size]:
    value, _ = _value(node.operand)
    if isinstance(node.op, ast.Not):
        return not value, (1, 0)
    if isinstance(node.op, ast.Invert):
        raise _fault(node, "~ is not understood")
    if not isinstance(value, _NUMBER):
        raise _fault(node, f"there is no {'-' if isinstance(node.op, ast.USub) else '+'} of a {type(value).__name__}")
    return _number(node, -value if isinstance(node.op, ast.USub) else +value)


def _binary(node: ast.BinOp) -> tuple[Any, Size]:
    act = _ARITHMETIC.get(type(node.op))
    if act is None:
        raise _fault(node, f"the operator {type(node.op).__name__} is not understood: there are + - * / // %")
    (one, size), (other, other_size) = _value(node.left), _value(node.right)
    sign = _SIGNS[type(node.op)]
    if isinstance(one, _NUMBER) and isinstance(other, _NUMBER):
        if (
            isinstance(node.op, ast.Mult)
            and isinstance(one, int)
            and isinstance(other, int)
            and one.bit_length() + other.bit_length() > MOST_BITS + 1
        ):
            raise _too_large(node)
        try:
            return _number(node, act(one, other))
        except ZeroDivisionError:
            raise _fault(node, "this divides by zero") from None
        except OverflowError:
            raise _too_large(node) from None
    if isinstance(node.op, ast.Add) and type(one) is type(other) and isinstance(one, str | list | tuple):
        total = (size[0] + other_size[0], size[1] + other_size[1])
        return one + other, _sized(node, None, total)[1]
    if isinstance(node.op, ast.Mult):
        if isinstance(one, int) and isinstance(other, str | list | tuple):
            one, other, size = other, one, other_size
        if isinstance(one, str | list | tuple) and isinstance(other, int):
            times = max(int(other), 0)
            total = (1 if isinstance(one, str) else 1 + (size[0] - 1) * times, size[1] * times)
            _sized(node, None, total)
            return (one * times if one else one), total
    raise _fault(node, f"there is no {type(one).__name__} {sign} {type(other).__name__}")


def _comparison(node: ast.Compare) -> tuple[Any, Size]:
    one, _ = _value(node.left)
    for op, part in zip(node.ops, node.comparators, strict=True):
        other, _ = _value(part)
        if isinstance(op, ast.Is | ast.IsNot) and not (one is None or other is None or isinstance(one, bool) or isinstance(other, bool)):
            raise _fault(node, "`is` is for None, True and False: compare by == and !=")
        try:
            compare: Callable[[Any, Any], Any] = _COMPARISONS[type(op)]
            if not compare(one, other):
                return False, (1, 0)
        except TypeError:
            raise _fault(node, f"a {type(one).__name__} cannot be compared so with a {type(other).__name__}") from None
        one = other
    return True, (1, 0)


def _number(node: ast.expr, value: Any) -> tuple[Any, Size]:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise _too_large(node)
    if isinstance(value, float) and not math.isfinite(value):
        raise _too_large(node)
    return value, (1, 0)


def _sum(node: ast.expr, sizes: list[Size]) -> Size:
    total = (1 + sum(size[0] for size in sizes), sum(size[1] for size in sizes))
    return _sized(node, None, total)[1]


def _sized(node: ast.expr, value: Any, size: Size) -> tuple[Any, Size]:
    if size[0] > MOST_ITEMS + 1 or size[1] > MOST_CHARACTERS:
        raise _too_large(node)
    return value, size


def _too_large(node: ast.expr) -> _Fault:
    return _fault(
        node,
        f"this would become too large: {MOST_ITEMS} items, {MOST_CHARACTERS:,} characters and whole numbers of {MOST_BITS:,} bits are the most, and floats as far as they go",
    )


def _fault(node: ast.expr, why: str) -> _Fault:
    return _Fault(why, node.col_offset)


@tool(risk="L0", blocking=False, idempotent=True)
def safe_expression(expression: str) -> str:
    """Calculates an expression exactly: numbers, texts and lists, + - * / // %, comparisons, and/or/not. No names and no functions.

    Args:
        expression: For example (17 * 23 + 4) / 2 or 3 in [1, 2, 3].
    """
    return repr(evaluate_expression(expression))
