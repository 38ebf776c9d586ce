"""Mutants of tokens, canonical bytes, records, and the guards of files and addresses."""

from __future__ import annotations

from benchmarks.mutants.mutant import Mutant

__all__ = ["BORDERS"]

_SEAL = ("tests/security/test_seal.py",)
_FUZZ = ("tests/security/test_seal_fuzz.py", "tests/security/test_seal.py")
_AUDIT = ("tests/security/test_audit.py",)
_TOKENS = ("tests/gateway/test_attacks_tokens.py",)
_CROWDS = ("tests/gateway/test_attacks_crowds.py",)

BORDERS = (
    # -- sealed tokens
    Mutant("the MAC is not checked", "security/seal_frame.py", "if not hmac.compare_digest(_text(mac), frame.mac):", "if not mac:", _FUZZ),
    Mutant(
        "only the first block is under the MAC",
        "security/seal_frame.py",
        '        mac = hmac.digest(mac, _FURTHER + block.encode("ascii"), "sha256")\n        macs.append(mac)',
        '        macs.append(hmac.digest(mac, _FURTHER + block.encode("ascii"), "sha256"))',
        _FUZZ,
    ),
    Mutant(
        "the audience is ignored", "security/seal.py", "if content.audiences and content.audiences != {audience}:", "if not content:", _SEAL
    ),
    Mutant(
        "one of two audiences will do", "security/seal.py", "content.audiences != {audience}", "audience not in content.audiences", _SEAL
    ),
    Mutant(
        "revoked tokens are opened",
        "security/seal.py",
        "if not self.revocations.ids().isdisjoint(ids):",
        "if not content.ids:",
        _SEAL,
    ),
    Mutant(
        "revoking the root leaves what was attenuated from it",
        "security/seal.py",
        "self.revocations.ids().isdisjoint(ids)",
        "self.revocations.ids().isdisjoint(content.ids[-1:])",
        _SEAL,
    ),
    Mutant(
        "a token is good from its deadline on",
        "security/seal.py",
        "        if deadline_ms <= now_ms:",
        "        if deadline_ms > now_ms:",
        _SEAL,
    ),
    Mutant(
        "blocks narrow nothing",
        "security/authority.py",
        "            met = permissions.meet_restriction(joined(restrictions), self._clock.now_ms)",
        "            met = permissions",
        _SEAL,
    ),
    Mutant(
        "unknown keys of a block are passed over",
        "security/seal_content.py",
        "data.keys() != keys",
        "not data.keys() >= keys",
        ("tests/security/test_seal_content.py",),
    ),
    Mutant(
        "a token that is opened twice is spent twice",
        "security/accounts.py",
        "            if found is not None:\n                return found\n            if root",
        "            if root",
        _SEAL,
    ),
    Mutant(
        "a key file that others may read is used",
        "security/private_files.py",
        "return _read(path, most, 0o077,",
        "return _read(path, most, 0o000,",
        ("tests/security/test_keys.py",),
    ),
    # -- canonical bytes
    Mutant(
        "a float's digest is its whole number's",
        "security/canonical.py",
        'writer.parts.append(f"d{value.hex()};")',
        'writer.parts.append(f"i{int(value):x};")',
        ("tests/security/test_canonical.py",),
    ),
    Mutant(
        "a tuple's digest is its list's",
        "security/canonical.py",
        '_write_items("u", value, writer, depth)',
        '_write_items("l", value, writer, depth)',
        ("tests/security/test_canonical.py",),
    ),
    Mutant(
        "text has no length before it",
        "security/canonical.py",
        'writer.parts.append(f"s{len(value)}:{value}")',
        'writer.parts.append(f"s{value}")',
        ("tests/security/test_canonical.py",),
    ),
    # -- records
    Mutant(
        "records need not follow each other",
        "security/audit_chain.py",
        "if entry.number != number or entry.previous != mac:",
        "if entry.number != number:",
        _AUDIT,
    ),
    Mutant(
        "a record's MAC is not checked",
        "security/audit_chain.py",
        "        if not is_true(entry, chain_key):",
        "        if not entry:",
        _AUDIT,
    ),
    Mutant(
        "a head that was kept elsewhere is not compared",
        "security/audit_chain.py",
        "    met = head is None or head == start",
        "    met = True",
        _AUDIT,
    ),
    # -- the gateway
    Mutant(
        "a token is read before its rate is looked at",
        "security/seal.py",
        "            if admit is not None:\n                admit(root, None)\n            content = content_of(frame)\n",
        "            content = content_of(frame)\n            if admit is not None:\n                admit(root, None)\n",
        _TOKENS,
    ),
    Mutant(
        "one token's accounts take everybody's room",
        "security/accounts.py",
        "            if root and len(",
        "            if not root and len(",
        _TOKENS,
    ),
    Mutant(
        "one token's narrower ones put out everybody's",
        "security/seal.py",
        "(len(kept.macs) > KEPT_OF_ROOT or kept.size > KEPT_CHARACTERS)",
        "not kept.size",
        _TOKENS,
    ),
    Mutant(
        "lists that have nothing in common permit something",
        "security/reach.py",
        "    return False\n\n\ndef _shapes",
        "    return True\n\n\ndef _shapes",
        ("tests/security/test_reach.py",),
    ),
    Mutant(
        "whoever has a token watches every actor",
        "src/retinue/gateway/asking.py",
        "        if not self._wires.handlers(target.cell, visit.caller):\n",
        "        if not self._wires:\n",
        _TOKENS,
    ),
    Mutant(
        "who may not look into the system is told the texts of errors",
        "src/retinue/gateway/asking.py",
        "if error is not None and not inspects:",
        "if error is None:",
        _TOKENS,
    ),
    Mutant(
        "connections without a token make no room",
        "src/retinue/gateway/serving.py",
        "        if oldest is None:\n",
        "        if oldest is not None:\n",
        _CROWDS,
    ),
    Mutant(
        "a further request hides that the client has left",
        "src/retinue/gateway/connections.py",
        "            reading.start_soon(read)\n",
        "",
        _CROWDS,
    ),
    Mutant(
        "what one token does not take has no bound",
        "src/retinue/gateway/unsent.py",
        "while self._sum(owner) > self._most_of_token and",
        "while not owner and",
        _CROWDS,
    ),
    Mutant(
        "a system's folder moves with the process",
        "actors/runtime/system.py",
        "else Path(data_dir).absolute()",
        "else Path(data_dir)",
        ("tests/gateway/test_serve_ends.py",),
    ),
    # -- guards
    Mutant(
        "a file may have other names outside",
        "security/beneath.py",
        "        if not links:\n            _check_links(opened, parent, status, path)\n",
        "",
        ("tests/security/test_beneath.py",),
    ),
    Mutant(
        "one public address of a host is enough",
        "capabilities/net_addresses.py",
        "        if not rule.permits(address):\n",
        "        if not found and not rule.permits(address):\n",
        ("tests/capabilities/test_net.py",),
    ),
    Mutant(
        "an address inside another is not looked at",
        "security/addresses.py",
        "return routed and all(is_public(inner) for inner in embedded_addresses(address))",
        "return routed",
        ("tests/security/test_addresses.py",),
    ),
)
