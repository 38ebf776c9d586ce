"""The derivation rules stand in one module: nobody else in the runtime, the hosts or the twins meets, narrows, grants or makes a context."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from housekeeping import ROOT

FILES = sorted(
    [
        *(ROOT / "actors").rglob("*.py"),
        *(ROOT / "mailbox").rglob("*.py"),
        *(ROOT / "capabilities").rglob("*.py"),
        *(ROOT / "src").rglob("*.py"),
    ]
)
MAKING = frozenset({"_meet", "_grant", "narrow", "derive", "enrol", "mint", "adopt", "label", "fan_in"})
"""What gives a context that was not there before."""

PLACE = ROOT / "actors" / "runtime" / "derivation.py"
TAKING_OVER = {
    "actors/runtime/current.py": {"make_delivery"},  # a turn begins under what it was sent under
    "actors/runtime/lifecycle.py": {"build"},  # …which a constructor's turn spells out
    "actors/runtime/door.py": {"admit"},  # the effective authority, as derivation gives it
    "actors/runtime/ref.py": {"ask", "tell"},  # …or as the door gave it the last time
    "actors/runtime/lending.py": {"ask_lent"},
    "actors/runtime/relaying.py": {"relayed"},
    "actors/runtime/scheduler.py": {"_turn"},
    "actors/testing/limbo.py": {"_keep_reply"},  # a turn that is over, for the labels and the text of its answer, which a fault holds back
    "src/retinue/gateway/foreseeing.py": {"of_tell"},  # a delivery that is only asked about, and never sent
}
"""Who may write a turn's authority, beside the place itself, and in which functions."""

OTHER_THINGS = {
    "seal.py": {"narrow"},
    "map_reduce.py": {"label"},  # the name of a branch of a team's run
}
"""Where such a word calls something else."""

OPEN = {
    "capabilities/self_test.py": "proves at the start that the gate refuses, with contexts of its own",
    "src/retinue/cli": "a person at a terminal",
}


def is_open(path: Path) -> bool:
    name = str(path.relative_to(ROOT))
    return any(name.startswith(prefix) for prefix in OPEN)


@pytest.mark.parametrize(
    "path", [file for file in FILES if file != PLACE and not is_open(file)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_nobody_else_makes_a_context(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in MAKING):  # parsing is what takes the time
        return
    called = {node.func.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    assert called & MAKING <= OTHER_THINGS.get(path.name, set())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_else_writes_the_authority_of_a_turn(path: Path) -> None:
    if path == PLACE:
        return
    text = path.read_text(encoding="utf-8")
    if not re.search(r"\.security\s*[:=]", text):  # parsing is what takes the time
        return
    allowed = TAKING_OVER.get(str(path.relative_to(ROOT)), set())
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        written = [
            target.attr
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Attribute) and target.attr in ("security", "context", "grant")
        ]
        if "security" in written:
            assert function.name in allowed or function.name == "__init__", (function.name, function.lineno)


def test_the_place_has_each_rule_and_says_it() -> None:
    tree = ast.parse(PLACE.read_text(encoding="utf-8"))
    text = ast.get_docstring(tree) or ""
    rules = [line.split(".")[0] for line in text.splitlines() if line[:1].isdigit()]
    assert rules == [str(number) for number in range(1, len(rules) + 1)]
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in ("effective", "sending", "child_grant", "answered", "taint", "fan_in", "own_authority", "guard"):
        assert name in functions
        assert f"`{name}`" in text
