"""What the tests of sealed tokens share: an authority whose clock is set by hand, a sealer, and restrictions of every kind."""

from __future__ import annotations

import datetime as dt
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

from retinue.security.authority import Authority
from retinue.security.constraints import absent, any_of, at_most, each, host, known_from, max_length, one_of, within
from retinue.security.errors import TokenError
from retinue.security.keys import KeyRing
from retinue.security.restrictions import allow, deny, expires, label, limit, max_risk, needs_approval, unlabelled, where
from retinue.security.seal import Sealer

START_MS = 1_800_000_000_000
OPERATIONS = ["fs.read", "fs.write", "fs.delete", "payments.send", "web.get"]


@attrs.define
class Bench:
    """An authority and a sealer on a clock of their own; `now` is in milliseconds since the epoch."""

    now: int = START_MS
    keys: Any = attrs.field(factory=KeyRing.generate)
    root: Any = None
    audience: str | None = None
    revocations: Any = None
    audit: Any = None
    authority: Authority = attrs.field(init=False)
    sealer: Sealer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.authority = Authority(self.root, clock=lambda: self.now)
        self.sealer = Sealer(self.authority, self.keys, audience=self.audience, revocations=self.revocations, audit=self.audit)

    def other(self, **changes: Any) -> Bench:
        """As in another process with the same keys."""
        return Bench(now=self.now, keys=changes.pop("keys", self.keys), **changes)


def refusal(bench: Bench, token: Any, **options: Any) -> str:
    """Why the token is refused, twice the same: cold, and if it was warm, warm."""
    reasons = []
    for _ in range(2):
        with pytest.raises(TokenError) as caught:
            bench.sealer.unseal(token, **options)
        if type(token) is str and len(token) > 20:
            assert token not in str(caught.value)
            assert token[-43:] not in str(caught.value)
        reasons.append(caught.value.reason)
    assert reasons[0] == reasons[1]
    return reasons[0]


patterns = st.sampled_from([*OPERATIONS, "fs.*", "fs.**", "payments.**", "web.*", "**"])
constraints = st.sampled_from(
    [
        one_of("ACME", 1, True, 1.0, None, b"\x00*"),
        one_of("*", "é\u2028😀"),
        at_most(100),
        within("reports/"),
        host("example.com"),
        max_length(10),
        absent(),
        each(one_of("a", "b")),
        any_of(absent(), at_most(5)),
        known_from("pool"),
    ]
)
several = st.lists(patterns, min_size=1, max_size=3)
arguments = st.dictionaries(st.sampled_from(["path", "amount", "to", "from", "ünter"]), constraints, min_size=1, max_size=2)
restrictions = st.one_of(
    st.lists(patterns, max_size=3).map(lambda names: allow(*names)),
    st.builds(lambda names, given, is_open: allow(*names, arguments=given, open=is_open), several, arguments, st.booleans()),
    st.builds(lambda names, given: where(*names, arguments=given), several, arguments),
    st.lists(patterns, max_size=2).map(lambda names: deny(*names)),
    st.builds(lambda names, given: needs_approval(*names, unless=given), several, st.none() | arguments),
    st.builds(lambda names: unlabelled(*names, labels=["web", "mail"]), several),
    st.lists(st.sampled_from(["web", "mail", "secret:x"]), max_size=2).map(lambda names: label(*names)),
    st.builds(limit, calls=st.none() | st.integers(0, 20), tokens=st.none() | st.integers(0, 20), depth=st.none() | st.integers(0, 32)),
    st.sampled_from(["0.5", "1", "2.000001"]).map(lambda cost: limit(cost_usd=cost)),
    st.sampled_from(["L0", "L1", "L2", "L3"]).map(max_risk),
    st.integers(1, 10**6).map(
        lambda seconds: expires(at=dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC) + dt.timedelta(seconds=seconds))
    ),
)
