"""Errors between processes: what the gateway writes into its answers, and what the clients make of it. One table for both sides.

    {"error": {"type": "Denied", "message": "…", "status": 403, "operation": "payments.send", "path": "/user/bank", "subject": "ada", "reason": "permission"}}

An error of `retinue.errors` comes back as the very class that was raised, with its attributes (`CROSSING` is the list). What a handler raises of its own has no
class on the other side: it comes back as a RemoteError with the name of its class, and with its text only where the handler declares the error (`raises=`), for
any other text was never meant for a stranger. Neither side looks anything up by a name that the other sent, except in this table.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from retinue import errors as e

if TYPE_CHECKING:
    from retinue.security.approvals import ApprovalRequest

__all__ = ["CROSSING", "LONGEST_TEXT", "STAYING", "error_from_data", "error_to_data", "request_from_data", "request_to_data"]

LONGEST_TEXT: Final = 16_384
"""Characters of an error's text that cross; a longer one is cut off, and says so."""

_CUT: Final = " … (cut off)"


@final
class _Odd(Exception):
    """A part of an error's JSON that is of another type than it must be; becomes a GatewayError."""


@attrs.frozen
class _Field:
    """One attribute of an error.

    Attributes:
        name: The attribute, and the keyword argument of the constructor.
        key: Its name in the JSON.
        take: Whether a JSON value can be it.
        needed: Whether the constructor has no default for it.
    """

    name: str
    key: str
    take: Callable[[Any], bool]
    needed: bool = False


def _text(value: Any) -> bool:
    return type(value) is str


def _text_or_none(value: Any) -> bool:
    return value is None or type(value) is str


def _bool_or_none(value: Any) -> bool:
    return value is None or type(value) is bool


def _integer_or_none(value: Any) -> bool:
    return value is None or type(value) is int


def _integer(value: Any) -> bool:
    return type(value) is int


def _counts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(each, list | tuple) and len(each) == 2 and type(each[0]) is str and type(each[1]) is int for each in value
    )


def _names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _seconds_or_none(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) < math.inf)


def _fields(*names: str) -> tuple[_Field, ...]:
    return tuple(_Field(name, name, _text_or_none) for name in names)


def _texts(*names: str) -> tuple[_Field, ...]:
    return tuple(_Field(name, name, _text) for name in names)


@attrs.frozen
class Crossing:
    """How one class of error crosses.

    Attributes:
        status: The HTTP status, or a function of the error that gives it.
        fields: What is written beside the text.
    """

    status: int | Callable[[Any], int]
    fields: tuple[_Field, ...] = ()


_DENIED = _fields("operation", "path", "subject")
_REASON = (_Field("reason", "reason", _text, needed=True),)
_UNANSWERED = (*_fields("path"), _Field("begun", "begun", _bool_or_none))
_MODEL = (_Field("status", "model_status", _integer_or_none),)  # "status" is the answer's own

_APPROVAL = {"unknown": 404, "full": 429, "store": 503, "clock": 503, "key": 503, "malformed": 422, "arguments": 422, "decided": 409}
_WIRE = {"too_large": 413, "unknown_type": 404, "invalid_fields": 422, "not_encodable": 500}
_GATEWAY = {
    "unauthorized": 401,
    "refused_host": 421,
    "too_large": 413,
    "rate": 429,
    "not_found": 404,
    "malformed": 400,
    "closing": 503,
    "timeout": 408,
}

CROSSING: Final[Mapping[type[e.RetinueError], Crossing]] = {
    e.AuthorityError: Crossing(403),
    e.Denied: Crossing(lambda error: 503 if error.reason == "store" else 403, (*_DENIED, _Field("reason", "reason", _text))),
    e.ForgedContext: Crossing(403, _DENIED),
    e.Revoked: Crossing(403, _DENIED),
    e.Expired: Crossing(403, _DENIED),
    e.BudgetExceeded: Crossing(403, (*_DENIED, _Field("resource", "resource", _text, needed=True), *_fields("account"))),
    e.AuditUnavailable: Crossing(503, _DENIED),
    e.ApprovalRequired: Crossing(428, _fields("operation", "path", "run")),  # and "requests", by hand below
    e.ApprovalError: Crossing(lambda error: _APPROVAL.get(error.reason, 403), _REASON),
    e.NoContext: Crossing(403),
    e.PatternError: Crossing(422),
    e.ConstraintError: Crossing(422),
    e.CanonicalError: Crossing(422),
    e.TokenError: Crossing(401, _REASON),
    e.GuardRefused: Crossing(403, (_Field("what", "what", _text, needed=True),)),
    e.MailboxFull: Crossing(409),
    e.Unhandled: Crossing(404),
    e.WireError: Crossing(lambda error: _WIRE.get(error.problem, 400), (_Field("problem", "problem", _text),)),
    e.RemoteError: Crossing(500, (_Field("type", "raised", _text, needed=True),)),
    e.GatewayError: Crossing(
        lambda error: error.status or _GATEWAY.get(error.reason, 502),
        (
            _Field("reason", "reason", _text),
            _Field("delivered", "delivered", _bool_or_none),
            _Field("retry_after", "retry_after", _seconds_or_none),
        ),
    ),
    e.StoreUnavailable: Crossing(503, (_Field("reason", "reason", _text),)),
    e.Unanswered: Crossing(500, _UNANSWERED),
    e.AskTimeout: Crossing(504, _UNANSWERED),
    e.ActorStopped: Crossing(410, _UNANSWERED),
    e.AskCancelled: Crossing(409, _UNANSWERED),
    e.AskCycle: Crossing(409),
    e.Reject: Crossing(422),  # its only argument is its text
    e.NameTaken: Crossing(409),
    e.StartTimeout: Crossing(503),
    e.StreamClosed: Crossing(500),
    e.SystemClosed: Crossing(503),
    e.AgentError: Crossing(500),
    e.BadInput: Crossing(422, _texts("option", "path")),
    e.RunLimitReached: Crossing(429, (_Field("limit", "limit", _text, needed=True), _Field("partial", "partial", _text))),
    e.RunCancelled: Crossing(409),
    e.RunParked: Crossing(409, _fields("run")),
    e.NoSuchRun: Crossing(404, _fields("run")),
    e.HookBlocked: Crossing(403, _texts("phase", "hook", "reason")),
    e.GuardrailBlocked: Crossing(403, _texts("stage", "guardrail", "reason")),
    e.OutputInvalid: Crossing(502, (*_texts("problem", "answer"), _Field("attempts", "attempts", _integer))),
    e.OutputRefused: Crossing(502, _texts("refusal")),
    e.HandoffLimit: Crossing(429, (_Field("limit", "limit", _text, needed=True), _Field("way", "way", _names))),
    e.RoutingFailed: Crossing(502, _texts("answer")),
    e.TeamError: Crossing(500),
    e.NoSuchMember: Crossing(404, _texts("name")),
    e.MemberPaused: Crossing(409, _texts("name")),
    e.TeamDiverged: Crossing(500),
    e.VoteUndecided: Crossing(409, (_Field("votes", "votes", _counts),)),
    e.BadState: Crossing(422),
    e.UnknownStateKey: Crossing(422, _texts("key")),
    e.ModelError: Crossing(502, _MODEL),
    e.ModelUnreachable: Crossing(502, _MODEL),
    e.ModelTimeout: Crossing(504, _MODEL),
    e.ModelRefused: Crossing(502, _MODEL),
    e.KeyRefused: Crossing(502, _MODEL),
    e.RateLimited: Crossing(503, (*_MODEL, _Field("retry_after", "retry_after", _seconds_or_none))),
    e.QuotaExceeded: Crossing(502, _MODEL),
    e.ContextOverflow: Crossing(422, (*_MODEL, _Field("limit", "limit", _integer_or_none), _Field("used", "used", _integer_or_none))),
    e.ContentFiltered: Crossing(502, _MODEL),
    e.ModelFailed: Crossing(502, (*_MODEL, _Field("retry_after", "retry_after", _seconds_or_none))),
    e.ModelInterrupted: Crossing(502, _MODEL),  # what was said stays here: a stream has passed it on, event by event
    e.AllMembersFailed: Crossing(503, (*_MODEL, _Field("retry_after", "retry_after", _seconds_or_none))),
    e.BadReply: Crossing(502, _MODEL),
    e.WrongEndpoint: Crossing(502, _MODEL),
    e.EmptyReply: Crossing(502, _MODEL),
    e.StreamTruncated: Crossing(502, _MODEL),
    e.BadStreamEvent: Crossing(502, _MODEL),
    e.BadEndpoint: Crossing(500, _MODEL),
    e.ScriptEnded: Crossing(500, _MODEL),
    e.ScriptUnused: Crossing(500, (*_MODEL, _Field("unused", "unused", _integer_or_none))),
    e.ModelNotInstalled: Crossing(500, _MODEL),
    e.WeightsError: Crossing(500, _MODEL),
}
"""The errors that come back as what they were."""

STAYING: Final[frozenset[type[e.RetinueError]]] = frozenset(
    {
        e.RetinueError,  # the root: nobody raises it itself
        e.DefinitionError,  # a mistake in the system's own code
        e.KeyFileError,  # its text names files of the other machine
        e.AuditBroken,  # and so does this one's
        e.TraceFileError,  # and this one's
        e.TraceFileUnusable,  # and this one's
        e.WrongEventLoop,  # about a thread or a loop of the other process
        e.WrongThread,
        e.Killed,  # what a test of the other process has done, or is told
        e.NeedsLoop,
        e.BadExpression,  # for a model, too
        e.BadArguments,  # for the model that the system's own tool was called by
    }
)
"""The errors that say something of the system's own process alone: they cross as any handler's error does, by name and without their text."""

_BY_NAME: Final = {cls.__name__: cls for cls in CROSSING}
_OF_THE_GATE: Final = (e.GatewayError, e.TokenError)


def error_to_data(error: BaseException, *, raises: Iterable[type[BaseException]] = (), asked: bool = False) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the JSON of an error.

    Args:
        error: Any exception.
        raises: What the handler declares: of these (and what derives from them) the text crosses, too.
        asked: Whether it came out of asking the actor, so that a GatewayError or a TokenError in it is about something that the *handler* did elsewhere, and
            must not look as if this gateway had refused the request.

    Returns:
        The status and `{"error": {…}}`: strings, integers, booleans, None, lists and dicts, without lone surrogates.
    """
    crossing = CROSSING.get(type(error))  # type: ignore[arg-type]
    if crossing is None or (asked and isinstance(error, _OF_THE_GATE)):
        return _foreign(error, tuple(raises))
    status = crossing.status if isinstance(crossing.status, int) else crossing.status(error)
    written: dict[str, Any] = {"type": type(error).__name__, "message": _text_of(error), "status": status}
    for field in crossing.fields:
        value = getattr(error, field.name)
        if isinstance(value, str):
            value = _clean(str(value))
        written[field.key] = value if field.take(value) else None if field.take(None) else ""
    if isinstance(error, e.ApprovalRequired):
        written["requests"] = [request_to_data(request) for request in error.requests]
    return status, {"error": written}


def error_from_data(status: int, data: object) -> e.RetinueError:
    """The error that an answer's JSON stands for; whatever the JSON is, an error comes back, none is raised.

    Args:
        status: The HTTP status of the answer (for an event of a stream: of the answer that the stream is).
        data: The parsed JSON.

    Returns:
        The error's own class where it is in `CROSSING`; RemoteError for another's name; GatewayError ("malformed") for what no gateway of ours writes.
    """
    try:
        return _read(status, data)
    except _Odd as odd:
        return e.GatewayError(
            f"the answer (HTTP status {status}) is not one of a Retinue gateway: {odd}. Check the address and what stands between",
            status=status,
            reason="malformed",
        )


def _read(status: int, data: object) -> e.RetinueError:
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        raise _Odd("no error in it")
    name, text = error.get("type"), error.get("message")
    if type(name) is not str or type(text) is not str:
        raise _Odd("an error without type or message")
    cls = _BY_NAME.get(name)
    if cls is None:
        return e.RemoteError(text[: LONGEST_TEXT + len(_CUT)], type=name[:200])
    if cls is e.Reject:
        return e.Reject(text)
    given: dict[str, Any] = {}
    for field in CROSSING[cls].fields:
        if field.key in error:
            value = error[field.key]
            if not field.take(value):
                raise _Odd(f"{field.key!r} of a {name} is of another type")
            given[field.name] = value
        elif field.needed:
            raise _Odd(f"a {name} without {field.key!r}")
    if cls is e.GatewayError:
        given["status"] = error["status"] if type(error.get("status")) is int else status
    elif cls is e.ApprovalRequired:
        given["requests"] = _requests(error.get("requests", []))
    made: Callable[..., e.RetinueError] = cls
    return made(text, **given)


def _requests(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise _Odd("the requests of an ApprovalRequired are no list")
    if not data:
        return []
    try:
        return [request_from_data(item) for item in data]
    except (e.RetinueError, ValueError, TypeError, KeyError) as error:
        raise _Odd(f"a request of an ApprovalRequired is malformed ({type(error).__name__})") from None


# -- requests for approval -----------------------------------------------------------------------------------------------------------------------------

_VIEW: Final = frozenset({"operation", "subject", "tenant", "session", "run", "audience", "arguments", "shown"})
"""What is added to a request for readers that are not ours; it says nothing that is not in the rest."""


def request_to_data(request: ApprovalRequest) -> dict[str, Any]:
    """A request as JSON for everybody: what `ApprovalRequest.to_data` gives, and beside it the attributes that programs want, by their names.

    `arguments` are plain JSON (a Decimal or a time as text, bytes in base64, a message as an object of its fields), `shown` the lines that a person is shown;
    `stored_arguments` is the text that keeps the types.
    """
    from retinue.security.showing import shown_arguments

    arguments = request.arguments
    return {
        **request.to_data(),
        "operation": request.operation,
        "subject": request.subject,
        "tenant": request.tenant,
        "session": request.session,
        "run": request.run,
        "audience": request.audience,
        "arguments": {name: _readable(value) for name, value in arguments.items()},
        "shown": shown_arguments(arguments),
    }


def request_from_data(data: object) -> ApprovalRequest:
    """What `request_to_data` gave. Raises ApprovalError ("malformed", "arguments") for anything else."""
    from retinue.security.approvals import ApprovalRequest

    if type(data) is dict:
        data = {name: value for name, value in data.items() if name not in _VIEW}
    return ApprovalRequest.from_data(data)


def _readable(value: Any) -> Any:
    """An argument as JSON: for readers, who are told of types elsewhere."""
    from retinue.security.records import FlagValue, Member, Record

    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind in (list, tuple):
        return [_readable(item) for item in value]
    if kind in (set, frozenset):
        return [_readable(item) for item in sorted(value, key=repr)]
    if kind is dict:
        return {str(name): _readable(item) for name, item in value.items()}
    if kind is bytes:
        return base64.b64encode(value).decode("ascii")
    if kind is Record:
        return {name: _readable(item) for name, item in value.fields}
    if kind is Member:
        return value.name
    if kind is FlagValue:
        return value.number
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if kind is dt.timedelta:
        return value // dt.timedelta(microseconds=1)  # as in messages
    return str(value)  # Decimal, UUID, a path


# -- others' errors ------------------------------------------------------------------------------------------------------------------------------------


def _foreign(error: BaseException, raises: tuple[type[BaseException], ...]) -> tuple[int, dict[str, Any]]:
    """What has no class on the other side."""
    name = _clean(type(error).__name__)[:200]
    if isinstance(error, raises) or type(error) in _OF_THE_GATE:
        text = _text_of(error)
    else:
        text = f"the handler raised {name}; its text stays with the system, as the handler does not declare it (raises=)"
    return 500, {"error": {"type": "RemoteError", "message": text, "status": 500, "raised": name}}


def _text_of(error: BaseException) -> str:
    from retinue.actors.runtime.errors import text_of

    return _clean(text_of(error))


def _clean(text: str) -> str:
    """The text, not too long, and without what no JSON may hold."""
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + _CUT
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
