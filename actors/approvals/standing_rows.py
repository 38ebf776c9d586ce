"""Standing consents as rows: signed texts, believed only where the signature fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from retinue.security.errors import ApprovalError
from retinue.security.standing import StandingConsent, read_standing
from retinue.security.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retinue.actors.approvals.keys import DeskKeys
    from retinue.actors.approvals.tables import Row
    from retinue.security.approval_keys import VerifyingKeys

__all__ = ["StandingReader", "standing_row"]

MAX_KNOWN: Final = 1_024
"""Texts whose signature was checked that one reader remembers."""


def standing_row(consent: StandingConsent, signed: str) -> Row:
    """The row of a new standing consent."""
    return {
        "id": consent.id,
        "pattern": consent.pattern,
        "subject": consent.subject,
        "tenant": consent.tenant,
        "audience": consent.audience,
        "described": visible(consent.text),
        "approver": consent.approver,
        "issued_ms": consent.issued_ms,
        "expires_ms": consent.expires_ms,
        "signed": signed,
    }


class StandingReader:
    """Reads standing consents from rows, and checks each signature once for each set of keys."""

    __slots__ = ("_keys", "_kids", "_known")

    def __init__(self) -> None:
        self._kids: dict[str, str] = {}
        self._keys: VerifyingKeys | None = None
        self._known: dict[str, StandingConsent | None] = {}

    def read_all(self, rows: Iterable[Row], keys: DeskKeys) -> list[StandingConsent]:
        """The consents of rows, without those that are none. Raises ApprovalError where the keys cannot be used (reason "key")."""
        try:
            trusted = keys.verifying()  # one look at their file for all of them
        except ApprovalError as error:
            if error.reason != "unknown_key":
                raise
            return []  # no key at all is trusted: so no signature fits
        return [consent for consent in (self.read(row, trusted) for row in rows) if consent is not None]

    def read(self, row: Row, keys: VerifyingKeys) -> StandingConsent | None:
        """The consent; None where the signature does not fit, or the row's id is another than the signed one: somebody wrote into the file."""
        if keys != self._keys:
            self._keys = keys
            self._known.clear()
            self._kids.clear()
        signed = row["signed"]
        if signed not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
                self._kids.clear()
            try:
                found = self._known[signed] = read_standing(signed, keys)
                self._kids[found.id] = signed.split(".", 2)[1]
            except ApprovalError:
                self._known[signed] = None
        known = self._known[signed]
        return known if known is not None and known.id == row["id"] else None

    def kid_of(self, consent: StandingConsent) -> str:
        """The name of the key that a consent is signed with, which was read here."""
        return self._kids.get(consent.id, "none")  # of which none is trusted
