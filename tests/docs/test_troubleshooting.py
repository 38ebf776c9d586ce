"""Each error has a code of its own, and the page about trouble has a row for each, no more and no less."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest

import retinue as rt
from housekeeping import ROOT
from retinue import errors
from retinue.capabilities.tool_results import ERROR_KINDS

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z_.]+)` \| `(\w+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)}


def test_the_page_has_a_row_for_each_code_and_none_for_another() -> None:
    assert {getattr(errors, name).code: name for name in errors.__all__} == ROWS


def test_codes_are_dotted_words_in_lower_case_and_no_two_are_the_same() -> None:
    codes = [getattr(errors, name).code for name in errors.__all__]
    assert len(set(codes)) == len(codes)
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(?:[._][a-z]+)*", code)] == []


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("AskTimeout", "ask.timeout"),
        ("ApprovalRequired", "approval.required"),
        ("RunLimitReached", "run.limit"),
        ("ModelTimeout", "model.timeout"),
    ],
)
def test_codes_stay_what_they_are(name: str, code: str) -> None:
    assert getattr(errors, name).code == code


def test_an_error_of_the_users_has_a_code_of_its_name_or_the_one_that_it_gives_itself() -> None:
    class OutOfStockError(rt.RetinueError):
        """Nothing left."""

    class Sold(rt.RetinueError):
        """Gone."""

        code: ClassVar[str] = "shop.sold"

    class HTTPFailed(Sold):
        """Another."""

    assert (OutOfStockError.code, Sold.code, HTTPFailed.code, OutOfStockError("x").code) == (
        "out.of.stock",
        "shop.sold",
        "http.failed",
        "out.of.stock",
    )


@pytest.mark.parametrize("kind", ERROR_KINDS)
def test_each_word_for_a_tool_call_that_went_wrong_is_explained(kind: str) -> None:
    assert re.search(rf'^\| "{kind}" \| ', PAGE, re.MULTILINE)
