"""How `retinue approvals` prints requests and events: exactly, and so that nothing in them writes on the reader's terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from retinue.cli.output import say

if TYPE_CHECKING:
    from retinue.security.approvals import ApprovalRequest

__all__ = ["data_of", "harmless", "in_short", "is_good", "state_of", "tell", "width"]


MOST_LINES: Final = 40
"""Lines of one request's arguments in a list."""


def width() -> int:
    """Columns of the terminal, 60 at least."""
    import shutil

    return max(shutil.get_terminal_size().columns, 60)


def data_of(request: ApprovalRequest) -> dict[str, Any]:
    """The request for programs, as it is over HTTP; its token is left out."""
    from retinue.remote import request_to_data

    return request_to_data(request.without_token())


def state_of(request: ApprovalRequest, row: dict[str, Any]) -> str:
    """What has become of a request, and of its approval."""
    from retinue.actors.approvals.deciding import VOID
    from retinue.security.limits import moment

    if request.status != "approved":
        return request.status
    if row["spent_ms"] is None and row["token_expires_ms"] <= row["read_ms"]:
        return f"expired, not used; its token was good until {moment(row['token_expires_ms'])}"
    if row["spent_ms"] is None and row["void"]:
        return f"void, not used: since it was given, {VOID}"
    if row["spent_ms"] is None:
        return f"not used yet; its token is good until {moment(row['token_expires_ms'])}"
    used = f"used on {moment(row['spent_ms'])}"
    if row["outcome"] is not None:
        return f"{used}; outcome: {row['outcome']}"
    if row["alive"] is None:
        return (
            f"{used}; outcome: unknown, and so is whether it is in progress still: it was begun in another container, or on another machine"
        )
    return f"{used}; " + ("in progress" if row["alive"] else "outcome: indeterminate, its process ended before it said how it went")


def is_good(request: ApprovalRequest, row: dict[str, Any]) -> bool:
    """Whether the request's token can still be used."""
    return request.status == "approved" and row["spent_ms"] is None and row["token_expires_ms"] > row["read_ms"] and not row["void"]


def harmless(error: Exception) -> str:
    """An error's text, in which names that anybody may have chosen write nothing on the terminal."""
    from retinue.security.visible import visible

    # Names in it may be escaped already, so its backslashes stay as they are.
    return "\\".join(visible(part) for part in " ".join(str(error).splitlines()).split("\\"))


def in_short(request: ApprovalRequest) -> list[str]:
    """A request for a list: a line, and all its arguments."""
    from retinue.security.limits import moment
    from retinue.security.showing import shown_arguments
    from retinue.security.visible import quoted, visible

    if request.status == "pending":
        when = f"until {moment(request.expires_ms)}"
    else:
        when = f"{request.status} {moment(request.decided_ms or request.created_ms)}"
    what = request.operation or request.message_type
    head = f"{request.id}  {visible(what)} at {visible(request.audience)} for {quoted(request.subject)}{_by_run(request.run)}  {when}"
    lines = shown_arguments(request.arguments, width=width() - 2)
    if len(lines) > MOST_LINES:
        rest = f"… {len(lines) - MOST_LINES:,} more lines, {len(request.stored_arguments):,} characters in all: retinue approvals show {request.id}"
        lines = [*lines[:MOST_LINES], rest]
    return [head, *(f"  {line}" for line in lines)]


def _by_run(run: str | None) -> str:
    """The run that asks: its session, and as much of the rest as tells two of them apart."""
    from retinue.security.visible import quoted

    session, mark, word = (run or "").rpartition("/")
    return f", run {quoted(session + mark + word[:8])}" if run else ""


def tell(request: ApprovalRequest | None, event: dict[str, Any] | None, as_json: bool) -> None:
    """Something for `watch`: a request that waits, or anything else that happened."""
    from retinue.security.limits import moment
    from retinue.security.visible import quoted, visible

    if as_json:
        names = ("number", "at_ms", "kind", "request_id", "jti", "standing_id", "who", "detail")
        told = {name: event[name] for name in names} if event is not None else {"kind": "waits"}
        say(json.dumps({**told, "request": None if request is None else data_of(request)}))
    elif request is not None:
        for line in in_short(request):
            say(line)
    elif event is not None:
        about = event["request_id"] or event["standing_id"] or event["jti"] or ""
        by = f" by {quoted(event['who'])}" if event["who"] else ""
        said = f": {visible(event['detail'])}" if event["detail"] else ""
        say(f"{visible(about)}  {visible(event['kind'])}{by}  {moment(event['at_ms'])}{said}")
