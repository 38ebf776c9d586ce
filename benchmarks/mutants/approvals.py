"""Mutants of approval tokens, standing consents, key files, stored arguments, what a reviewer sees, and four eyes."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["APPROVALS"]

_TOKENS = ("tests/security/test_approval_tokens.py",)
_STANDING = ("tests/security/test_standing.py",)
_KEYS = ("tests/security/test_approval_keys.py",)
_REQUESTS = ("tests/security/test_approval_requests.py",)
_TYPED = ("tests/security/test_typed_data.py",)
_VISIBLE = ("tests/security/test_visible.py",)
_FOUR = ("tests/security/test_four_eyes.py",)

APPROVALS = (
    # -- tokens
    Mutant(
        "the signature of an approval is not checked",
        "security/signed_frame.py",
        "not key.fits(signature, _signed(domain, text[: -len(parts[3]) - 1]))",
        "not key.kid",
        _TOKENS,
    ),
    Mutant(
        "approvals and standing consents are signed alike", "security/signed_frame.py", "return domain + head", 'return b"" + head', _TOKENS
    ),
    Mutant(
        "a body may be written in several ways",
        "security/signed_frame.py",
        "if type(content) is not dict or _encoded(content) != raw:",
        "if type(content) is not dict:",
        _TOKENS,
    ),
    Mutant("base64 has spare bits", "security/signed_frame.py", "        if _text_of(raw) != text:", "        if not raw:", _TOKENS),
    Mutant(
        "a token is for any arguments",
        "security/approval_tokens.py",
        '    "arguments_digest": "arguments",\n    "subject"',
        '    "subject"',
        _TOKENS,
    ),
    Mutant("a token is for any subject", "security/approval_tokens.py", '    "subject": "subject",\n    "tenant"', '    "tenant"', _TOKENS),
    Mutant(
        "a changed handler needs no new consent",
        "security/approval_tokens.py",
        '    "definition": "definition",\n    "policy_version"',
        '    "policy_version"',
        _TOKENS,
    ),
    Mutant(
        "a token is good at its last moment",
        "security/approval_tokens.py",
        "if now_ms >= self.expires_ms:",
        "if now_ms > self.expires_ms:",
        _TOKENS,
    ),
    Mutant(
        "a signed token may live for ever",
        "security/approval_tokens.py",
        "not issued < expires <= issued + MAX_LIFETIME_MS",
        "not issued < expires",
        _TOKENS,
    ),
    Mutant(
        "one pair of eyes is two",
        "security/approval_tokens.py",
        "if four_eyes and same_person(self.approver, binding.subject):",
        "if four_eyes and not self.approver:",
        _TOKENS,
    ),
    Mutant(
        "an unknown field of a token is passed over",
        "security/approval_tokens.py",
        "if content.keys() != _KEYS:",
        "if not content.keys() >= _KEYS:",
        _TOKENS,
    ),
    # -- standing consents
    Mutant(
        "a standing consent leaves unnamed arguments alone",
        "security/standing.py",
        "if not self.open and any(value is not None and name not in names for name, value in given.items()):",
        "if not names and given is None:",
        _STANDING,
    ),
    Mutant(
        "a standing consent does not hold to its constraints",
        "security/standing.py",
        "return self._rule.holds(given, sources) and arguments_digest(given)",
        "return arguments_digest(given)",
        _STANDING,
    ),
    Mutant(
        "a standing consent never ends",
        "security/standing.py",
        "self.issued_ms - SKEW_MS <= now_ms < self.expires_ms",
        "self.issued_ms - SKEW_MS <= now_ms",
        _STANDING,
    ),
    Mutant(
        "a standing consent is for everybody",
        "security/standing.py",
        "self.subject in (None, binding.subject)",
        "self.subject != binding",
        _STANDING,
    ),
    Mutant(
        "what cannot be decided has standing consent",
        "security/standing.py",
        "        except Exception:\n            return False",
        "        except Exception:\n            return True",
        _STANDING,
    ),
    Mutant(
        "a standing consent may be for ever",
        "security/standing.py",
        "if not self.issued_ms < self.expires_ms <= self.issued_ms + MAX_LIFETIME_MS:",
        "if not self.issued_ms < self.expires_ms:",
        _STANDING,
    ),
    # -- keys, requests, what is shown
    Mutant("others may write what keys are trusted", "security/private_files.py", "0o022, ", "0o000, ", _KEYS),
    Mutant("a key stands under another's name", "security/approval_keys.py", "    if key.kid != kid:", "    if not kid:", _KEYS),
    Mutant(
        "a request may show other arguments than are bound",
        "security/approvals.py",
        "if _digest(canonical_of_stored(self._read())) != self.binding.arguments_digest:",
        "if not self._read():",
        _REQUESTS,
    ),
    Mutant(
        "a record stands for a message where it is done",
        "security/canonical.py",
        "        self.stored = False",
        "        self.stored = True",
        _TYPED,
    ),
    Mutant(
        "stored arguments may be written in several ways",
        "security/typed_data.py",
        "    if _dumped(arguments) != text:",
        "    if not text:",
        _TYPED,
    ),
    Mutant(
        "a backslash is shown as it is",
        "security/visible.py",
        'yield _escape(character) if character == "\\\\" else character',
        "yield character",
        _VISIBLE,
    ),
    Mutant(
        "what is not printable is shown",
        "security/visible.py",
        "if not character.isprintable() or character in",
        "if character in",
        _VISIBLE,
    ),
    # -- four eyes
    Mutant(
        "a layer that always asks hides one that wants four eyes",
        "security/decisions.py",
        "four_checks = () if always_four else",
        "four_checks = () if always else",
        _FOUR,
    ),
    Mutant(
        "what cannot be looked at needs no other person",
        "security/decisions.py",
        "return plain is None or not all(check.passes(plain, sources) is True for check in self.four_checks)",
        "return not all(check.passes(plain or {}, sources) is True for check in self.four_checks) and plain is not None",
        _FOUR,
    ),
    Mutant("sealed tokens lose four eyes", "security/permission_data.py", "    if layer.four_eyes:\n", "    if not layer.kind:\n", _FOUR),
)
