"""What each restriction that people type permits, refuses and asks for: absolute tables."""

import datetime
from decimal import Decimal

import pytest

from retinue.security import (
    Authority,
    ConstraintError,
    DefinitionError,
    Layer,
    Limits,
    Pattern,
    PatternError,
    Rule,
    allow,
    deny,
    expires,
    label,
    limit,
    max_risk,
    needs_approval,
    unlabelled,
    where,
)
from retinue.security.constraints import absent, any_of, at_least, at_most, between, each, host, known_from, max_length, one_of, within
from retinue.security.decisions import ALLOWED, ASKED, DENIED
from retinue.security.limits import NEVER, NO_LIMITS

AUTHORITY = Authority()
SEND = "payments.send"
FULL = {"to": "ACME", "amount": 40}


def the_set(*restrictions):
    return AUTHORITY.root.narrow(*restrictions).permissions


def says(permission_set, operation, arguments):
    return permission_set.decision(operation).evaluate(arguments, AUTHORITY.sources).value


@pytest.mark.parametrize(
    ("restriction", "arguments", "expected"),
    [
        # A rule without constraints leaves arguments alone.
        (allow(SEND), {"anything": object()}, "allow"),
        (allow(SEND), {}, "allow"),
        # Closed: what the rule does not name must be missing or None.
        (allow(SEND, amount=at_most(100)), {"amount": 40}, "allow"),
        (allow(SEND, amount=at_most(100)), {"amount": 100}, "allow"),
        (allow(SEND, amount=at_most(100)), {"amount": 101}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": True}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": "40"}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": [40]}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": None}, "deny"),
        (allow(SEND, amount=at_most(100)), {}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": 40, "bcc": "eve"}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": 40, "bcc": False}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": 40, "bcc": ""}, "deny"),
        (allow(SEND, amount=at_most(100)), {"amount": 40, "bcc": None}, "allow"),
        (allow(SEND, amount=at_most(100), open=True), {"amount": 40, "bcc": "eve"}, "allow"),
        (allow(SEND, amount=at_most(100), open=True), {"amount": 400, "bcc": "eve"}, "deny"),
        (allow(SEND, amount=at_most(100), open=False), {"amount": 40, "bcc": "eve"}, "deny"),
        # Any rule may permit; all constraints of that rule must hold.
        (allow("payments.list", SEND, to=one_of("ACME"), amount=at_most(50)), FULL, "allow"),
        (allow("payments.list", SEND, to=one_of("ACME"), amount=at_most(50)), {"to": "ACME"}, "deny"),
        (allow("payments.list", SEND, to=one_of("ACME"), amount=at_most(50)), {"to": "EVE", "amount": 4}, "deny"),
        (allow("payments.list"), FULL, "deny"),
        (allow("payments.list", amount=at_most(50)), {"amount": 4}, "deny"),
        (allow("**", amount=at_most(50)), {"amount": 4}, "allow"),
        (allow("**", amount=at_most(50)), {"amount": 400}, "deny"),
        # absent, and None where a constraint says so.
        (allow(SEND, amount=at_most(100), bcc=absent()), {"amount": 40, "bcc": None}, "allow"),
        (allow(SEND, amount=at_most(100), bcc=absent()), {"amount": 40, "bcc": "eve"}, "deny"),
        (allow(SEND, amount=any_of(absent(), at_most(3))), {}, "allow"),
        (allow(SEND, to=one_of(None, "ACME")), {"to": None}, "allow"),
        (allow(SEND, to=one_of("ACME")), {"to": None}, "deny"),
        # Names of arguments that are no keyword arguments.
        (allow(SEND, arguments={"open": one_of("x"), "from": one_of("me")}), {"open": "x", "from": "me"}, "allow"),
        (allow(SEND, arguments={"open": one_of("x"), "from": one_of("me")}), {"open": "x", "from": "you"}, "deny"),
        (allow(SEND, arguments={"arguments": at_most(1)}), {"arguments": 1}, "allow"),
        # where: all must hold, for what it names only; unnamed arguments are left alone.
        (where(SEND, amount=at_most(100)), {"amount": 40, "bcc": "eve"}, "allow"),
        (where(SEND, amount=at_most(100)), {"amount": 400}, "deny"),
        (where(SEND, amount=at_most(100)), {}, "deny"),
        (where(SEND, amount=at_most(100), to=one_of("ACME")), FULL, "allow"),
        (where(SEND, amount=at_most(100), to=one_of("ACME")), {"to": "EVE", "amount": 40}, "deny"),
        (where(SEND, amount=at_most(100), to=one_of("ACME")), {"amount": 40}, "deny"),
        (where("payments.list", amount=at_most(1)), {"amount": 400}, "allow"),
        (where("payments.*", SEND, amount=at_most(1)), {"amount": 400}, "deny"),
        (where(SEND, to=each(one_of("ACME", "Bolt"))), {"to": ["ACME", "Bolt"]}, "allow"),
        (where(SEND, to=each(one_of("ACME", "Bolt"))), {"to": ["ACME", "EVE"]}, "deny"),
        (where(SEND, to=each(one_of("ACME", "Bolt"))), {"to": []}, "deny"),
        (where(SEND, to=one_of("*")), {"to": "ACME"}, "deny"),
        (where(SEND, to=one_of("*")), {"to": "*"}, "allow"),
        # deny.
        (deny(SEND), FULL, "deny"),
        (deny("payments.list"), FULL, "allow"),
        # Consent.
        (needs_approval("payments.**"), FULL, "ask"),
        (needs_approval("fs.**"), FULL, "allow"),
        (needs_approval(SEND, unless={"amount": at_most(100)}), FULL, "allow"),
        (needs_approval(SEND, unless={"amount": at_most(10)}), FULL, "ask"),
        (needs_approval(SEND, unless={"amount": at_most(100)}), {"to": "ACME"}, "ask"),
        (needs_approval(SEND, unless={"amount": at_most(100)}), {"amount": "40"}, "ask"),
        (needs_approval(SEND, unless={"amount": at_most(100)}), {"amount": float("nan")}, "ask"),
        (needs_approval(SEND, unless={"amount": at_most(100), "to": one_of("ACME")}), FULL, "allow"),
        (needs_approval(SEND, unless={"amount": at_most(100), "to": one_of("Bolt")}), FULL, "ask"),
        (needs_approval(SEND, "payments.*", unless={"amount": at_most(10)}), {"amount": 5}, "allow"),
        # Labels.
        (unlabelled(SEND, labels=["web"]), FULL, "allow"),
    ],
)
def test_a_call_under_one_restriction(restriction, arguments, expected):
    permission_set = the_set(restriction)
    assert says(permission_set, SEND, arguments) == expected
    assert permission_set.permits(SEND, arguments) is (expected == "allow")
    assert permission_set.may_permit(SEND) or expected == "deny"


@pytest.mark.parametrize(
    ("restrictions", "expected"),
    [
        # Deny wins over ask, ask over allow, whatever the order.
        ([needs_approval(SEND), deny(SEND)], "deny"),
        ([needs_approval(SEND), allow("payments.list")], "deny"),
        ([needs_approval(SEND), where(SEND, amount=at_most(1))], "deny"),
        ([needs_approval(SEND), allow(SEND)], "ask"),
        ([needs_approval(SEND, unless={"amount": at_most(1)}), allow(SEND, amount=at_most(100), open=True)], "ask"),
        ([needs_approval(SEND, unless={"amount": at_most(50)}), needs_approval(SEND, unless={"amount": at_most(1)})], "ask"),
        ([needs_approval(SEND, unless={"amount": at_most(50)}), needs_approval(SEND, unless={"to": one_of("ACME")})], "allow"),
        ([needs_approval(SEND, unless={"amount": at_most(1)}), where(SEND, amount=at_most(2))], "deny"),
        # Layers are AND, even where each alone would leave something.
        ([where(SEND, amount=at_most(50)), where(SEND, amount=at_least(41))], "deny"),
        ([where(SEND, amount=at_most(50)), where(SEND, amount=at_least(40))], "allow"),
        ([allow(SEND, amount=at_most(50), open=True), allow(SEND, to=one_of("ACME"))], "deny"),
        ([allow(SEND, amount=at_most(50), open=True), allow(SEND, to=one_of("ACME"), open=True)], "allow"),
        ([label("web"), unlabelled("payments.**", labels=["web", "mail"])], "deny"),
        ([label("web"), unlabelled("payments.**", labels=["mail"])], "allow"),
        ([label("web"), unlabelled("payments.list", labels=["web"])], "allow"),
        ([label("web"), label("mail"), unlabelled("payments.**", labels=["mail"])], "deny"),
        ([label("web"), unlabelled("payments.**", labels=["web"]), needs_approval(SEND)], "deny"),
    ],
)
def test_a_call_under_several_restrictions(restrictions, expected):
    assert says(the_set(*restrictions), SEND, FULL) == expected
    assert says(the_set(*reversed(restrictions)), SEND, FULL) == expected


def test_a_known_value_is_permitted_from_the_moment_on_at_which_it_is_known():
    authority = Authority()
    context = authority.mint("alice", ["**", where(SEND, to=known_from("payees"))])
    assert not context.allows(SEND, {"to": "ACME"}), "no such source"
    payees = authority.source("payees")
    assert not context.allows(SEND, {"to": "ACME"})
    payees.add("ACME", 1)
    assert context.allows(SEND, {"to": "ACME"})
    assert not context.allows(SEND, {"to": True})
    payees.discard("ACME")
    assert not context.allows(SEND, {"to": "ACME"})
    assert not Authority().mint("alice", ["**", where(SEND, to=known_from("payees"))]).allows(SEND, {"to": 1})


# --- arguments that are none


class Hostile(dict):
    def get(self, *_):
        return 1

    def items(self):
        raise RuntimeError

    def __iter__(self):
        raise RuntimeError


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "arguments", [None, 3, "amount", [("amount", 1)], object(), {3: 1, "amount": 1}, {Name("amount"): 1}, {"amount": 1, None: 1}, Hostile()]
)
def test_arguments_that_are_no_mapping_of_plain_names_are_refused_where_they_are_looked_at(arguments):
    for restriction in (allow(SEND, amount=at_most(1)), where(SEND, amount=at_most(1))):
        assert the_set(restriction).permits(SEND, arguments) is False
        assert the_set(restriction).refusing(SEND, arguments) != []
        assert "amount" in the_set(restriction).explain(SEND, arguments)
    assert the_set(needs_approval(SEND, unless={"amount": at_most(1)})).permits(SEND, arguments) is False
    assert the_set(allow(SEND)).permits(SEND, arguments) is True


def test_what_depends_on_arguments_is_not_permitted_unseen_but_may_be():
    for restriction in (
        allow(SEND, amount=at_most(1)),
        where(SEND, amount=at_most(1)),
        needs_approval(SEND, unless={"amount": at_most(1)}),
    ):
        permission_set = the_set(restriction)
        assert permission_set.permits(SEND) is False
        assert permission_set.may_permit(SEND) is True
        assert permission_set.permits("payments.list") is (restriction.kind != "allow")


# --- decisions


def test_what_needs_no_arguments_is_a_shared_constant():
    assert the_set(allow("fs.*")).decision("fs.read") is ALLOWED
    assert the_set(allow("fs.*")).decision("web.get") is DENIED
    assert the_set(deny("fs.*")).decision("fs.read") is DENIED
    assert the_set(needs_approval("fs.*")).decision("fs.read") is ASKED
    assert the_set(needs_approval("fs.*")).decision("web.get") is ALLOWED
    assert the_set(where("fs.*", path=within("a/"))).decision("web.get") is ALLOWED
    assert the_set(where("fs.*", path=within("a/")), deny("fs.read")).decision("fs.read") is DENIED
    assert the_set(limit(calls=3), max_risk("L0"), label("web")).decision("fs.read") is ALLOWED
    assert the_set(label("web"), unlabelled("fs.read", labels=["web"])).decision("fs.read") is DENIED


def test_a_decision_says_what_it_depends_on():
    depends = the_set(where("fs.*", path=within("a/"))).decision("fs.read")
    assert (depends.verdict.value, depends.asks.value, len(depends.checks)) == ("depends", "never", 1)
    asks = the_set(needs_approval("fs.*", unless={"path": within("a/")})).decision("fs.read")
    assert (asks.verdict.value, asks.asks.value, len(asks.checks)) == ("allow", "depends", 1)
    both = the_set(needs_approval("fs.*"), where("fs.*", path=within("a/"))).decision("fs.read")
    assert (both.verdict.value, both.asks.value, len(both.checks)) == ("depends", "always", 1)
    assert ASKED.evaluate(None, {}).value == "ask"
    with pytest.raises(AttributeError):
        ALLOWED.verdict = DENIED.verdict


@pytest.mark.parametrize(
    ("constraint", "value", "hint"),
    [
        (one_of("ACME"), ["ACME-SECRET"], "is not one_of('ACME') (it is a list: use each(…))"),
        (within("reports/"), ("SECRET",), "is not within('reports/') (it is a list: use each(…))"),
        (each(one_of("ACME")), "SECRET", "is not each(one_of('ACME')) (it is no list)"),
        (each(one_of("ACME")), ["SECRET"], "is not each(one_of('ACME'))."),
        (max_length(1), ["SECRET", "b"], "is not max_length(1)."),
        (at_most(5), "SECRET", "is not at_most(5) (it is no number)"),
        (between(1, 5), True, "is not between(1, 5) (it is no number)"),
        (at_most(5), 6.0, "is not at_most(5)."),
        (at_least(5), Decimal(1), "is not at_least(5)."),
        (within("reports/"), b"SECRET", "is not within('reports/') (it is no str)"),
        (host("example.com"), 3, "is not host('example.com') (it is no str)"),
        (one_of("ACME"), "SECRET", "is not one_of('ACME')."),
        (any_of(absent(), one_of("a")), ["SECRET"], "is not any_of(absent(), one_of('a'))."),
        (absent(), ["SECRET"], "is not absent()."),
        (one_of("ACME"), None, "is not one_of('ACME') (it is missing)"),
    ],
)
def test_a_value_of_a_type_that_a_constraint_never_permits_is_told_by_its_type(constraint, value, hint):
    text = the_set(where(SEND, to=constraint)).explain(SEND, {"to": value})
    assert f"its argument 'to' {hint}" in text
    assert "SECRET" not in text


def test_an_argument_that_the_message_does_not_have_is_told_with_those_that_it_has():
    wrong = the_set(where(SEND, recipient=one_of("ACME")))
    assert "its argument 'recipient' is not one_of('ACME') (it is missing; given: 'amount', 'to')." in wrong.explain(SEND, FULL)
    many = wrong.explain(SEND, {f"field{number}" + "x" * 300: "SECRET" for number in range(50)})
    assert "and 42 more)" in many
    assert len(many) < 1_500
    assert "SECRET" not in many


def test_a_constraint_that_stands_bare_in_a_list_is_told_where_it_belongs():
    for ask in (lambda given: AUTHORITY.mint("ada", given), AUTHORITY.root.narrow):
        with pytest.raises(
            DefinitionError, match=r"within\('reports/'\), a constraint.*Write where\('fs.read', path=within\('reports/'\)\)"
        ):
            ask(["fs.read", within("reports/")])


def test_an_error_about_a_grant_says_grant():
    with pytest.raises(DefinitionError, match=r"grant= takes a list .* not an object of type str\. Write grant=\['fs.read'\]"):
        AUTHORITY.root._grant("fs.read")
    with pytest.raises(DefinitionError, match=r"grant=: the list holds within"):
        AUTHORITY.root._grant([within("reports/")])


def test_a_host_that_is_a_url_is_told_what_is_wanted_and_not_shown():
    with pytest.raises(ConstraintError, match=r"without the scheme, the port and the path\. Write 'api.example.com'") as caught:
        host("https://user:s3cr3t@api.example.com")
    assert "s3cr3t" not in str(caught.value)


# --- what adds nothing


def test_equal_rules_are_one_and_what_restricts_nothing_is_left_out():
    assert allow("a", "a").layers == allow("a").layers
    assert the_set(allow("a", x=at_most(1)), allow("a", "a", x=at_most(1))) is the_set(allow("a", x=at_most(1)))
    assert where("a", x=at_most(1)) == where("a", arguments={"x": at_most(1)})
    assert where("a", x=at_most(1), y=absent()) == where("a", y=absent(), x=at_most(1))
    assert allow("a", open=True) == allow("a"), "openness means nothing where nothing is constrained"
    for unit in (
        allow("**"),
        allow("x", "**"),
        deny(),
        label(),
        limit(),
    ):
        assert unit.layers == frozenset()
        assert the_set(unit) is AUTHORITY.everything
    assert the_set(max_risk("L3")) is AUTHORITY.everything
    assert the_set(limit(depth=32)) is AUTHORITY.everything
    assert the_set(allow("**", x=at_most(1))) is not AUTHORITY.everything
    assert the_set(needs_approval("**")) is not AUTHORITY.everything


@pytest.mark.parametrize(
    "make",
    [
        lambda: where(path=within("reports/")),
        lambda: where(*[], arguments={"path": within("reports/")}),
        lambda: needs_approval(),
        lambda: needs_approval(unless={"amount": at_most(100)}),
        lambda: unlabelled(labels=["web"]),
    ],
)
def test_a_restriction_whose_operation_was_forgotten_is_refused_and_not_taken_for_one_of_nothing(make):
    with pytest.raises(ConstraintError, match=r"names no operation, so it would restrict nothing\. Write, for example, "):
        make()


# --- how they are checked and shown


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: deny("a", amount=at_most(1)), r"where\('payments.send', amount=at_most\(100\)\)"),
        (lambda: where("a"), "one constraint at least"),
        (lambda: where("a", arguments={}), "one constraint at least"),
        (lambda: needs_approval("a", unless={}), "one constraint at least"),
        (lambda: allow("a", arguments={}), "one constraint at least"),
        (lambda: needs_approval("a", unless="x"), "mapping"),
        (lambda: where("a", amount=100), "constraint such as"),
        (lambda: where("a", amount=at_most), "constraint such as"),
        (lambda: allow("a", amount=None), "constraint such as"),
        (lambda: allow("a", amount=lambda value: True), "constraint such as"),
        (lambda: allow("a", arguments={"x": at_most(1)}, x=at_most(2)), "given twice"),
        (lambda: allow("a", arguments={3: at_most(1)}), "name of an argument"),
        (lambda: allow("a", arguments={"": at_most(1)}), "name of an argument"),
        (lambda: allow("a", arguments={"x" * 256: at_most(1)}), "name of an argument"),
        (lambda: allow("a", arguments=[("x", at_most(1))]), "mapping"),
        (lambda: allow("a", open=one_of("x")), "arguments="),
        (lambda: allow("a", open=1), "True or False"),
        (lambda: unlabelled("a", labels=[]), "one label at least"),
        (lambda: unlabelled("a", labels="web"), "list of str"),
        (lambda: unlabelled("a", labels=["two words"]), "1 to 64 characters"),
        (lambda: label(""), "1 to 64 characters"),
        (lambda: label("x" * 65), "1 to 64 characters"),
        (lambda: label("wéb"), "1 to 64 characters"),
        (lambda: label("web\n"), "1 to 64 characters"),
        (lambda: label(3), "1 to 64 characters"),
        (lambda: label(*["web"] * 40, "a b"), "1 to 64 characters"),
        (lambda: max_risk("L4"), "'L0'"),
        (lambda: max_risk(1), "'L0'"),
        (lambda: max_risk("l1"), "'L0'"),
        (lambda: expires(), "exactly one"),
        (lambda: expires(60), r"expires\(60\): write expires\(seconds=60\)"),
        (lambda: expires(seconds=1, at=datetime.datetime.now(datetime.UTC)), "exactly one"),
        (lambda: expires(seconds=-1), "number from 0"),
        (lambda: expires(seconds=float("nan")), "number from 0"),
        (lambda: expires(seconds=float("inf")), "number from 0"),
        (lambda: expires(seconds=Decimal("nan")), "number from 0"),
        (lambda: expires(seconds=True), "number from 0"),
        (lambda: expires(seconds="60"), "number from 0"),
        (lambda: expires(seconds=10**12), "number from 0"),
        (lambda: expires(at=datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)), "time zone"),
        (lambda: expires(at="2030-01-01"), "time zone"),
        (lambda: expires(at=datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC)), "whole number"),
        (lambda: Layer("deny", frozenset({Rule(Pattern("a"), (("x", at_most(1)),))})), "names operations only"),
        (lambda: Layer("unlabelled", frozenset({Rule(Pattern("a"))})), "labels"),
        (lambda: Layer("allow", frozenset(), frozenset({"web"})), "labels"),
        (lambda: Layer("where", frozenset({Rule(Pattern("a"))})), "constraints in each rule"),
        (lambda: Layer("ask", frozenset({Rule(Pattern("a"), (("x", at_most(1)),), open=True)})), "open is for allow"),
        (lambda: Layer("maybe", frozenset()), "kind"),
    ],
)
def test_what_is_malformed_is_refused_when_it_is_made_and_the_text_says_what_to_write(make, text):
    with pytest.raises(ConstraintError, match=text):
        make()


@pytest.mark.parametrize("make", [where, needs_approval, unlabelled])
def test_restrictions_with_conditions_check_their_patterns_too(make):
    more = {"labels": ["web"]} if make is unlabelled else {"x": at_most(1)} if make is where else {}
    with pytest.raises(PatternError):
        make("fs..read", **more)
    with pytest.raises(DefinitionError, match="separate str arguments"):
        make(["fs.read"], **more)


@pytest.mark.parametrize(
    "text",
    [
        "allow('a', 'b', x=at_most(1))",
        "allow('a', open=True, x=at_most(1), y=one_of('q'))",
        "allow('a', arguments={'from': one_of('me'), 'open': at_most(1)}, x=at_most(1))",
        "where('payments.send', amount=at_most(100), to=one_of('ACME'))",
        "needs_approval('payments.**')",
        "needs_approval('payments.**', unless={'amount': at_most(100)})",
        "needs_approval('payments.**', unless={'from': one_of('me'), 'amount': at_most(100)})",
        "unlabelled('mail.*', labels=['secret:payroll', 'web'])",
        "label('file:mail', 'web')",
        "limit(calls=3, tokens=4, cost_usd='0.5', depth=2)",
        "limit(cost_usd='1000')",
        "expires(seconds=60)",
        "expires(seconds=0.5)",
        "max_risk('L1')",
        "deny('a')",
        "where('a', x=at_least(3))",
    ],
)
def test_a_restriction_shows_as_it_is_typed(text):
    made = eval(text)
    assert repr(made) == text
    assert eval(repr(made)) == made


def test_a_deadline_shows_as_a_time():
    at = datetime.datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.UTC)
    assert repr(expires(at=at)) == "expires(at=2030-01-02T03:04:05.678+00:00)"
    assert repr(Limits(deadline_ms=NEVER - 1)).startswith("Limits(expires(at=9223372036854775806 ms")
    assert NO_LIMITS.texts == []


# --- explanations


@pytest.mark.parametrize(
    ("restriction", "arguments", "expected"),
    [
        (
            where(SEND, amount=at_most(100)),
            {"amount": 400},
            "the layer where('payments.send', amount=at_most(100)) refuses it: its argument 'amount' is not at_most(100)",
        ),
        (where(SEND, amount=at_most(100)), {"amount": None}, "its argument 'amount' is not at_most(100) (it is missing)"),
        (where(SEND, amount=at_most(100)), {}, "its argument 'amount' is not at_most(100) (it is missing)"),
        (where(SEND, amount=at_most(100)), None, "its argument 'amount' was not given to look at: at_most(100)"),
        (
            allow(SEND, amount=at_most(100)),
            {"amount": 1, "bcc": "secret"},
            "its argument 'bcc' is not named by the rule (open=True would leave it alone)",
        ),
        (allow("fs.read"), {}, "the layer allow('fs.read') does not name it"),
        (needs_approval(SEND), FULL, "it needs a person's consent by the layer needs_approval('payments.send')"),
        (needs_approval(SEND, unless={"amount": at_most(1)}), FULL, "its argument 'amount' is not at_most(1)"),
    ],
)
def test_an_explanation_names_the_layer_and_the_argument_and_its_constraint(restriction, arguments, expected):
    text = the_set(restriction).explain(SEND, arguments)
    assert f"'{SEND}' is not permitted: " in text
    assert expected in text
    assert "400" not in text
    assert "secret" not in text


def test_an_explanation_shows_the_rule_that_came_closest():
    layer = Layer(
        "allow",
        frozenset(
            {
                Rule(Pattern("payments.*"), (("amount", at_most(1)), ("to", one_of("Bolt")))),
                Rule(Pattern(SEND), (("amount", at_most(10)), ("to", one_of("ACME")))),
                Rule(Pattern("fs.read")),
            }
        ),
    )
    text = AUTHORITY._table.intern(frozenset({layer})).explain(SEND, FULL)
    expected = "whose closest rule is 'payments.send', amount=at_most(10), to=one_of('ACME'), refuses it: its argument 'amount' is not at_most(10)."
    assert expected in text


def test_a_label_that_refuses_is_named():
    text = the_set(label("web", "mail"), unlabelled(SEND, labels=["web", "pii"])).explain(SEND)
    assert "the layer unlabelled('payments.send', labels=['pii', 'web']) refuses it under the label 'web'" in text


def test_names_of_arguments_from_outside_are_escaped_and_cut():
    arguments = {"amount": 1, "x\n\x1b[31m" + "y" * 300: 1, **{f"more{number}": 1 for number in range(50)}}
    text = the_set(allow(SEND, amount=at_most(1))).explain(SEND, arguments)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 600
    assert "and 47 more" in text
