"""Errors between processes: each comes back as what it was, or is named among those that do not; and nothing odd comes back at all."""

import json
import math
from decimal import Decimal

import hypothesis.strategies as st
import pytest
from hypothesis import given

from retinue import errors, remote
from retinue.remote import CROSSING, LONGEST_TEXT, STAYING, error_from_data, error_to_data
from retinue.security.approvals import ApprovalRequest, Binding, arguments_digest

SAMPLES = {
    errors.Denied: {"operation": "shop.read", "path": "/user/shop", "subject": "ada", "reason": "arguments"},
    errors.ForgedContext: {"operation": "shop.read", "path": "/user/shop", "subject": "ada"},
    errors.Revoked: {"operation": None, "path": "/user/shop", "subject": "ada"},
    errors.Expired: {"operation": "shop.read", "path": None, "subject": None},
    errors.BudgetExceeded: {"resource": "calls", "account": "a1", "operation": "shop.read", "path": "/user/shop", "subject": "ada"},
    errors.AuditUnavailable: {"operation": "shop.read", "path": "/user/shop", "subject": "ada"},
    errors.ApprovalRequired: {"operation": "shop.pay", "path": "/user/shop", "run": "0/3f9a"},
    errors.ApprovalError: {"reason": "spent"},
    errors.TokenError: {"reason": "mac"},
    errors.GuardRefused: {"what": "path"},
    errors.WireError: {"problem": "invalid_fields"},
    errors.RemoteError: {"type": "InsufficientFunds"},
    errors.GatewayError: {"status": 429, "reason": "rate", "delivered": False, "retry_after": 2.5},
    errors.StoreUnavailable: {"reason": "full_disk"},
    errors.Unanswered: {"path": "/user/shop", "begun": True},
    errors.AskTimeout: {"path": "/user/shop", "begun": False},
    errors.ActorStopped: {"path": "/user/shop", "begun": None},
    errors.AskCancelled: {"path": "/user/shop", "begun": True},
    **{cls: {"status": 503} for cls in CROSSING if issubclass(cls, errors.ModelError)},
    errors.RateLimited: {"status": 429, "retry_after": 1.5},
    errors.RunLimitReached: {"limit": "tokens", "partial": "so far"},
    errors.HandoffLimit: {"limit": "hops", "way": ("front", "billing")},
    errors.HookBlocked: {"phase": "before_run", "hook": "h", "reason": "r"},
    errors.GuardrailBlocked: {"stage": "input", "guardrail": "g", "reason": "r"},
    errors.OutputInvalid: {"problem": "p", "attempts": 3},
    errors.BadArguments: {"tool": "t"},
}


def over_the_wire(error: BaseException, **options: object) -> tuple[int, errors.RetinueError]:
    status, data = error_to_data(error, **options)
    return status, error_from_data(status, json.loads(json.dumps(data)))


def test_every_error_of_the_tree_either_crosses_or_is_named_among_those_that_do_not() -> None:
    tree = {getattr(errors, name) for name in errors.__all__}
    assert set(CROSSING) | STAYING == tree
    assert not set(CROSSING) & STAYING


@pytest.mark.parametrize("cls", CROSSING, ids=lambda cls: cls.__name__)
def test_an_error_comes_back_as_the_very_class_with_its_text_and_all_its_attributes(cls: type[errors.RetinueError]) -> None:
    given_ = SAMPLES.get(cls, {})
    error = cls("what, where — and the fix", **given_)
    status, back = over_the_wire(error)
    assert type(back) is cls
    assert str(back) == str(error) == "what, where — and the fix"
    assert {name: value for name, value in vars(back).items() if name != "requests"} == {
        name: value for name, value in vars(error).items() if name != "requests"
    }
    assert 400 <= status <= 599


@pytest.mark.parametrize("cls", CROSSING, ids=lambda cls: cls.__name__)
def test_every_attribute_that_an_error_is_made_with_is_one_that_crosses(cls: type[errors.RetinueError]) -> None:
    attributes = set(vars(cls("text", **SAMPLES.get(cls, {}))))
    crossing = {field.name for field in CROSSING[cls].fields} | {"requests"}
    crossing |= {"status"} if cls is errors.GatewayError else set()
    crossing |= {"reason"} if cls is errors.Reject or issubclass(cls, errors.Denied) else set()  # the class gives it
    crossing |= {"partial", "usage", "errors"}  # values of this process: what a model had said a stream has passed on, event by event
    assert attributes <= crossing


@pytest.mark.parametrize("cls", sorted(STAYING, key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__)
def test_an_error_about_the_other_process_comes_back_by_its_name_and_without_its_text(cls: type[errors.RetinueError]) -> None:
    status, back = over_the_wire(cls("data/tokens.key is readable by others", **SAMPLES.get(cls, {})))
    assert status == 500
    assert isinstance(back, errors.RemoteError)
    assert back.type == cls.__name__
    assert "tokens.key" not in str(back)


class InsufficientFunds(Exception):
    pass


class Overdrawn(InsufficientFunds):
    pass


def test_a_handlers_own_error_comes_back_without_its_text_unless_the_handler_declares_it() -> None:
    _, hidden = over_the_wire(Overdrawn("the password was hunter2"))
    assert type(hidden) is errors.RemoteError
    assert hidden.type == "Overdrawn"
    assert "hunter2" not in str(hidden)
    assert "raises=" in str(hidden)
    _, told = over_the_wire(Overdrawn("3 short"), raises=(InsufficientFunds,))
    assert (type(told), told.type, str(told)) == (errors.RemoteError, "Overdrawn", "3 short")


def test_a_subclass_of_one_of_our_errors_is_not_taken_for_it() -> None:
    class MyDenied(errors.Denied):
        pass

    _, back = over_the_wire(MyDenied("secret"))
    assert type(back) is errors.RemoteError
    assert back.type == "MyDenied"
    assert "secret" not in str(back)


@pytest.mark.parametrize(
    "error", [errors.GatewayError("down", status=503, reason="closing", delivered=False), errors.TokenError("altered", reason="mac")]
)
def test_what_a_handler_met_at_another_gateway_does_not_look_like_a_refusal_of_this_one(error: errors.RetinueError) -> None:
    status, back = over_the_wire(error, asked=True)
    assert status == 500
    assert type(back) is errors.RemoteError
    assert back.type == type(error).__name__
    assert str(back) == str(error)


def test_a_text_that_no_json_may_hold_crosses_escaped_and_a_long_one_is_cut() -> None:
    _, odd = over_the_wire(errors.Reject("lone \ud800 surrogate"))
    assert str(odd) == "lone \\ud800 surrogate"
    _, long = over_the_wire(errors.Reject("x" * (LONGEST_TEXT + 1)))
    assert str(long).startswith("x" * LONGEST_TEXT)
    assert str(long).endswith("(cut off)")


def test_an_error_whose_own_text_fails_still_crosses() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    _, back = over_the_wire(Odd(), raises=(Odd,))
    assert "no text" in str(back)


def test_an_unknown_name_is_an_error_of_the_other_side_and_never_looked_up_anywhere_else() -> None:
    for name in ("SystemExit", "KeyboardInterrupt", "os.system", "WrongThread", "Crossing", "error_to_data"):
        back = error_from_data(500, {"error": {"type": name, "message": "m"}})
        assert type(back) is errors.RemoteError
        assert back.type == name


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "no",
        {},
        {"error": None},
        {"error": {}},
        {"error": {"type": "Denied"}},
        {"error": {"type": 1, "message": "m"}},
        {"error": {"type": "Denied", "message": "m", "reason": 5}},
        {"error": {"type": "TokenError", "message": "m"}},
        {"error": {"type": "AskTimeout", "message": "m", "begun": "yes"}},
        {"error": {"type": "RateLimited", "message": "m", "retry_after": True}},
        {"error": {"type": "ApprovalRequired", "message": "m", "requests": {}}},
        {"error": {"type": "ApprovalRequired", "message": "m", "requests": [{"id": "x"}]}},
        {"error": {"type": "ApprovalRequired", "message": "m", "requests": [None]}},
    ],
)
def test_what_no_gateway_of_ours_writes_is_a_malformed_answer(data: object) -> None:
    back = error_from_data(418, data)
    assert isinstance(back, errors.GatewayError)
    assert (back.reason, back.status, back.delivered) == ("malformed", 418, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KEYS = sorted({field.key for crossing in CROSSING.values() for field in crossing.fields} | {"requests", "status"})


@given(
    st.sampled_from(sorted(remote._BY_NAME)) | st.text(max_size=12),
    st.text(max_size=20),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4),
)
def test_whatever_the_json_is_an_error_comes_back_and_none_is_raised(name: str, text: str, rest: dict[str, object]) -> None:
    back = error_from_data(500, {"error": {"type": name, "message": text, **rest}})
    assert isinstance(back, errors.RetinueError)
    assert isinstance(back, errors.GatewayError) or str(back) == text


@given(st.text(), st.sampled_from(sorted(CROSSING, key=lambda cls: cls.__name__)))
def test_any_text_crosses_as_it_is(text: str, cls: type[errors.RetinueError]) -> None:
    _, back = over_the_wire(cls(text, **SAMPLES.get(cls, {})))
    assert str(back) == text


def test_attributes_of_other_types_than_documented_never_break_the_answer() -> None:
    status, data = error_to_data(errors.Denied("m", operation=5, path=object(), reason=None))  # type: ignore[arg-type]
    assert status == 403
    assert json.loads(json.dumps(data))["error"]["operation"] is None
    assert type(error_from_data(status, data)) is errors.Denied
    _, late = error_to_data(errors.RateLimited("m", retry_after=math.inf))
    assert json.dumps(late, allow_nan=False)


def test_what_a_person_is_asked_comes_along() -> None:
    arguments = {"to": "ACME", "amount": 40, "exact": Decimal("1.50"), "raw": b"\x00", "flag": True}
    binding = Binding("shop.pay", arguments_digest(arguments), "ada", None, "s1", "/user/shop", "0" * 64, "1")
    requests = [
        ApprovalRequest.new(binding, arguments, message_type="shop/Pay@1", reasons=["over 10"], context_id="c1", now_ms=5, four_eyes=flag)
        for flag in (False, True)
    ]
    status, back = over_the_wire(errors.ApprovalRequired("ask a person", operation="shop.pay", path="/user/shop", requests=requests))
    assert status == 428
    assert isinstance(back, errors.ApprovalRequired)
    assert back.requests == tuple(requests)
    assert back.requests[0].arguments == arguments
    with pytest.raises(ValueError, match="2 requests"):
        _ = back.request
