"""Policies from a file: the first rule that fits decides; a file that cannot be used refuses everything."""

import os
import socket

import pytest

import retinue as rt
from retinue.capabilities import Gate
from retinue.capabilities.policy_file import MAX_BYTES, PolicyFile, policy_from_file
from retinue.security import Authority, Denied
from retinue.security.errors import ApprovalRequired

OFFICE = """
version = 1

[[rule]]
operations = ["payments.send"]
arguments = { amount = { at_most = 100 }, to = { one_of = ["ACME", "Bob"] } }
verdict = "allow"

[[rule]]
operations = ["payments.**"]
verdict = "ask"
reason = "larger payments are looked at"

[[rule]]
operations = ["fs.read", "fs.list"]
subjects = ["ada"]
verdict = "allow"

[[rule]]
operations = ["**"]
tenants = ["acme"]
max_risk = "L1"
verdict = "allow"

[[rule]]
operations = ["mail.send"]
paths = ["/user/mail"]
verdict = "refuse"
reason = "not from there"
"""


@rt.message
class Call(rt.Message):
    amount: object = 40
    to: object = "ACME"


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes) -> PolicyFile:
        path = tmp_path / "office.toml"
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return policy_from_file(path)

    return write


def outcome(policy, authority, operation="payments.send", message=None, subject="ada", tenant=None, path="/user/bank", risk=None) -> str:
    gate = Gate(authority, policies=[policy])
    context = authority.mint(subject, ["**"], tenant=tenant)
    try:
        gate.admit(context, None, operation, message or Call(), path=path, message_type=Call, risk=risk)
    except ApprovalRequired as error:
        return f"ask: {error}"
    except Denied as error:
        return f"refuse: {error}" if error.reason == "policy" else f"refused for another reason: {error}"
    return "allow"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({}, "allow"),
        ({"message": Call(101)}, "ask:"),
        ({"message": Call(40, "Mallory")}, "ask:"),
        ({"message": Call("40")}, "ask:"),  # a value of another type fits no constraint
        ({"message": Call(True)}, "ask:"),
        ({"operation": "payments.list"}, "ask:"),
        ({"operation": "fs.read"}, "allow"),
        ({"operation": "fs.read", "subject": "bob"}, "refuse:"),
        ({"operation": "fs.delete"}, "refuse:"),
        ({"operation": "web.get", "tenant": "acme", "risk": "L1"}, "allow"),
        ({"operation": "web.get", "tenant": "acme", "risk": "L2"}, "refuse:"),
        ({"operation": "web.get", "tenant": "acme"}, "refuse:"),  # what nobody rated is not below a rating
        ({"operation": "web.get", "tenant": "other", "risk": "L0"}, "refuse:"),
        ({"operation": "web.get", "risk": "L0"}, "refuse:"),
        ({"operation": "mail.send", "path": "/user/mail"}, "refuse:"),
    ],
)
def test_the_first_rule_that_fits_decides_and_where_none_does_it_is_refused(write, authority, call, expected):
    assert outcome(write(OFFICE), authority, **call).startswith(expected)


def test_reasons_are_told(write, authority):
    policy = write(OFFICE)
    assert "larger payments are looked at" in outcome(policy, authority, operation="payments.list")
    assert "not from there" in outcome(policy, authority, operation="mail.send", path="/user/mail")
    assert "no rule of 'office.toml' fits" in outcome(policy, authority, operation="fs.delete")
    assert "rule 1 of 'office.toml'" in outcome(write('version = 1\n[[rule]]\noperations = ["**"]\nverdict = "refuse"'), authority)
    assert policy.problem == ""
    assert policy.name == "office.toml"


KINDS = [
    ("at_most = 5", 5, 6),
    ("at_least = 5", 5, 4),
    ("between = [1, 5]", 3, 0),
    ("one_of = [1, 'a', true]", True, 1.0),
    ("max_length = 2", "ab", "abc"),
    ("within = ['reports/']", "reports/a.txt", "reports/../a.txt"),
    ("host = ['example.com']", "https://example.com/x", "https://evil.com/x"),
    ("absent = true", None, 1),
    ("each = { at_most = 5 }", [1, 5], [1, 6]),
    ("any_of = [{ absent = true }, { at_most = 5 }]", None, 6),
]


@pytest.mark.parametrize(("constraint", "good", "bad"), KINDS)
def test_every_kind_of_constraint_can_be_written(write, authority, constraint, good, bad):
    policy = write(f'version = 1\n[[rule]]\noperations = ["**"]\nverdict = "allow"\narguments = {{ amount = {{ {constraint} }} }}')
    assert policy.problem == ""
    assert outcome(policy, authority, message=Call(good)) == "allow"
    assert outcome(policy, authority, message=Call(bad)).startswith("refuse:")


def test_an_argument_that_is_missing_fits_nothing(write, authority):
    policy = write('version = 1\n[[rule]]\noperations = ["**"]\nverdict = "allow"\narguments = { other = { at_most = 5 } }')
    assert outcome(policy, authority).startswith("refuse:")


RULE = 'version = 1\n[[rule]]\noperations = ["**"]\nverdict = "allow"\n'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it is empty"),
        ("# nothing but a comment\n", "it is empty"),
        ("version = 1", "it has no [[rule]]"),
        ("version = 1\nrule = []", "it has no [[rule]]"),
        ("version = 1\nrule = [1]", "it has no [[rule]]"),
        ("version = 1\nrule = 'allow'", "it has no [[rule]]"),
        (RULE.replace("version = 1\n", ""), "version = 1"),
        (RULE.replace("1", "2"), "version = 1"),
        (RULE.replace("1", "true"), "version = 1"),
        (RULE.replace("1", "1.0"), "version = 1"),
        (RULE.replace("version", "verison"), "unknown key"),
        ("otherwise = 'allow'\n" + RULE, "unknown key"),
        (RULE.replace('"allow"', '"ALLOW"'), "the verdict"),
        (RULE.replace('"allow"', "true"), "the verdict"),
        (RULE.replace('verdict = "allow"', ""), "the verdict"),
        (RULE.replace('["**"]', '"**"'), "the operations"),
        (RULE.replace('["**"]', "[]"), "the operations"),
        (RULE.replace('["**"]', "[3]"), "the operations"),
        (RULE.replace('operations = ["**"]', ""), "the operations"),
        (RULE.replace('["**"]', '["fs.read", "a..b"]'), "the operation 'a..b' of rule 1 is no pattern"),
        (RULE.replace('["**"]', '["**.a"]'), "no pattern"),
        (RULE + "reason = 3", "the reason"),
        (RULE + "subjects = 'ada'", "the subjects"),
        (RULE + "subjects = []", "the subjects"),
        (RULE + "tenants = ['']", "the tenants"),
        (RULE + "paths = [1]", "the paths"),
        (RULE + "max_risk = 'L4'", "the max_risk"),
        (RULE + "max_risk = 1", "the max_risk"),
        (RULE + "unless = 3", "unknown key"),
        (RULE + "arguments = 3", "the arguments"),
        (RULE + "arguments = { a = 3 }", "no constraint"),
        (RULE + "arguments = { a = {} }", "no constraint"),
        (RULE + "arguments = { a = { at_most = 1, at_least = 0 } }", "no constraint"),
        (RULE + "arguments = { a = { regex = '.*' } }", "unknown kind"),
        (RULE + "arguments = { a = { known_from = 'x' } }", "unknown kind"),
        (RULE + "arguments = { a = { at_most = '5' } }", "'a'"),
        (RULE + "arguments = { a = { at_most = nan } }", "'a'"),
        (RULE + "arguments = { a = { between = [5, 1] } }", "'a'"),
        (RULE + "arguments = { a = { between = [1] } }", "'a'"),
        (RULE + "arguments = { a = { one_of = [] } }", "'a'"),
        (RULE + "arguments = { a = { one_of = 'ACME' } }", "no list"),
        (RULE + "arguments = { a = { absent = false } }", "absent = true"),
        (RULE + "arguments = { a = " + "{ each = " * 12 + "{ at_most = 1 }" + " }" * 12 + " }", "no constraint"),
        (RULE + "arguments = { a = { any_of = [] } }", "'a'"),
        # An odd value would fit no constraint of such a rule, and the call would go on to one that may allow it.
        (RULE.replace("allow", "refuse") + "arguments = { path = { within = ['secret/'] } }", "would go on to the next rule"),
        (RULE.replace("allow", "ask") + "arguments = { amount = { at_least = 100 } }", "would go on to the next rule"),
        (RULE.replace("allow", "refuse") + "max_risk = 'L3'", "would go on to the next rule"),
        ("version = 1\n[[rule]", "it is no TOML"),
        ("version = 1\nversion = 1", "it is no TOML"),
        ("[" * 100_000, "no TOML"),
        (b"version = 1 # \xff", "not UTF-8"),
        (b"\x00", "it is no TOML"),
        (RULE + "#" * MAX_BYTES, "larger than"),
    ],
)
def test_a_file_that_is_not_understood_whole_refuses_everything(write, authority, content, problem):
    policy = write(content)
    assert problem in policy.problem
    for operation in ("payments.send", "fs.read"):
        assert "refuses everything" in outcome(policy, authority, operation=operation)


def test_a_file_that_is_not_there_refuses_everything(tmp_path, authority):
    policy = policy_from_file(tmp_path / "none.toml")
    assert policy.problem == "there is no such file"
    assert "refuses everything" in outcome(policy, authority)
    assert policy.digest == ""


def test_a_file_that_cannot_be_used_is_told_at_once_with_its_whole_path_and_what_to_do(tmp_path, authority, caplog):
    path = tmp_path / "none.toml"
    policy = policy_from_file(path)
    assert [(record.name, record.levelname) for record in caplog.records] == [("retinue.policies", "WARNING")]
    assert caplog.messages == [
        f"the policy file {str(path)!r} refuses everything, because there is no such file. Fix: mend the file, then reload() the policy"
    ]
    told = outcome(policy, authority)
    assert f"the policy file {str(path)!r} refuses everything, because there is no such file. Nothing was done." in told
    assert told.endswith("Fix: mend the file, then reload() the policy.")
    path.write_text("nonsense", encoding="utf-8")
    policy.reload()
    assert len(caplog.records) == 2
    path.write_text(RULE, encoding="utf-8")
    policy.reload()
    assert len(caplog.records) == 2, "nothing to tell"


def test_two_files_of_one_name_say_how_to_tell_them_apart(tmp_path, authority):
    paths = [tmp_path / folder / "policy.toml" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(RULE, encoding="utf-8")
    with pytest.raises(rt.DefinitionError, match=r"policy_from_file\(path, name=…\)"):
        Gate(authority, policies=[policy_from_file(path) for path in paths])
    Gate(authority, policies=[policy_from_file(path, name=path.parent.name) for path in paths])


def test_a_call_that_no_rule_fits_is_told_which_rules_came_near_and_no_value(write, authority):
    policy = write("""
        version = 1
        [[rule]]
        operations = ["payments.send"]
        arguments = { amount = { at_most = 100 }, to = { one_of = ["ACME"] } }
        verdict = "allow"
        [[rule]]
        operations = ["payments.*"]
        subjects = ["bob"]
        verdict = "allow"
        [[rule]]
        operations = ["payments.*"]
        tenants = ["acme"]
        verdict = "allow"
        [[rule]]
        operations = ["payments.*"]
        paths = ["/user/other"]
        verdict = "allow"
        [[rule]]
        operations = ["fs.*"]
        max_risk = "L1"
        verdict = "allow"
        [[rule]]
        operations = ["mail.*"]
        arguments = { cc = { absent = true }, bcc = { at_most = 3 } }
        verdict = "allow"
    """)
    told = outcome(policy, authority, message=Call(40, "Mallory"))
    assert "no rule of 'office.toml' fits: rule 1 names the operation, but its argument 'to' is not one_of('ACME'); rule 2" in told
    assert "rule 2 names the operation, but not for this subject; rule 3 names the operation, but not for this tenant; and 1 more." in told
    assert "Mallory" not in told
    assert "rule 4 names the operation, but not at this actor." in outcome(policy, authority, "payments.list", subject="eve")
    assert "rule 5 names the operation, but not at the risk L2: at most L1." in outcome(policy, authority, "fs.read", risk="L2")
    assert "rule 5 names the operation, but not at the risk (unrated): at most L1." in outcome(policy, authority, "fs.read")
    assert "rule 6 names the operation, but its argument 'bcc' is no field of the message: at_most(3)." in outcome(
        policy, authority, "mail.send"
    )
    assert "no rule of 'office.toml' names the operation." in outcome(policy, authority, "web.get")


def test_a_folder_a_device_a_pipe_and_a_socket_are_no_policy_files(tmp_path, authority):
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", "/dev/zero"):
        policy = policy_from_file(odd)
        assert policy.problem == "it is no regular file"
        assert "refuses everything" in outcome(policy, authority)
    assert "refuses everything" in outcome(policy_from_file(tmp_path), authority)
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(path))
        assert "refuses everything" in outcome(policy_from_file(path), authority)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_refuses_everything(tmp_path, authority):
    path = tmp_path / "secret.toml"
    path.write_text(RULE, encoding="utf-8")
    path.chmod(0)
    assert "refuses everything" in outcome(policy_from_file(path), authority)


def test_a_reload_takes_the_new_file_and_a_bad_one_is_not_survived_by_the_last_good_one(tmp_path, authority):
    path = tmp_path / "office.toml"
    path.write_text(RULE, encoding="utf-8")
    policy = policy_from_file(path, name="office")
    first = policy.digest
    assert outcome(policy, authority) == "allow"
    path.write_text(RULE.replace("allow", "refuse"), encoding="utf-8")
    assert outcome(policy, authority) == "allow", "not read again by itself"
    assert policy.reload() is True
    assert outcome(policy, authority).startswith("refuse:")
    assert policy.digest != first
    path.write_text("nonsense", encoding="utf-8")
    assert policy.reload() is False
    assert "refuses everything" in outcome(policy, authority)
    path.write_text(RULE, encoding="utf-8")
    assert policy.reload() is True
    assert outcome(policy, authority) == "allow"
    assert policy.digest == first
    path.unlink()
    assert policy.reload() is False
    assert repr(policy) == "<PolicyFile office.toml: refuses everything, there is no such file>"


def test_a_reload_is_guarded(write):
    policy = write(RULE)

    def guard():
        raise Denied("inside a handler")

    policy.guard = guard
    with pytest.raises(Denied):
        policy.reload()
    assert policy.problem == ""


def test_the_example_in_the_documentation_of_the_module_works(write, authority):
    import inspect
    import textwrap

    from retinue.capabilities import policy_file

    text = inspect.getdoc(policy_file) or ""
    example = textwrap.dedent(text[text.index("    version = 1") : text.index("The first rule")])
    policy = write(example)
    assert policy.problem == ""
    assert outcome(policy, authority) == "allow"
    assert outcome(policy, authority, message=Call(101)).startswith("ask")
