"""Reading what an OpenAI-compatible endpoint sends back beside the answer itself: failures, counts of tokens, what is no answer at all.

Nothing here trusts the sender. A failure is judged by its status and by the codes in its body; only for a context that is too small, and a
parameter that is not known, some endpoints say it in no other way than in words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from retinue.actors.llm.errors import (
    BadReply,
    ContentFiltered,
    ContextOverflow,
    KeyRefused,
    ModelError,
    ModelFailed,
    ModelRefused,
    QuotaExceeded,
    RateLimited,
    WrongEndpoint,
)
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.retrying import asked_wait
from retinue.actors.llm.texts import whole
from retinue.actors.llm.usage import Usage

__all__ = ["embedded_failure", "failure_of", "json_of", "refused_parameter", "tidy", "usage_of"]

_LONGEST_QUOTE = 300
_LONGEST_READ = 4_000  # characters of which a quote is made


def tidy(text: str) -> str:
    """Make foreign text quotable in one line: no control characters, no runs of white space, at most 300 characters.

    What must not be quoted is blotted out before: half of it, left by a cut, would not be found.
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_READ]).split())
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + "…"


def json_of(body: bytes, content_type: str, where: str) -> dict[str, Any]:
    """Read the JSON object of a successful answer. Raises WrongEndpoint for a web page, BadReply for anything else."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # never chained: a JSONDecodeError carries the whole document
        if _is_web_page(body, content_type):
            raise WrongEndpoint(
                f"{where} answered with a web page instead of JSON: is a log-in page or a proxy in between, or /v1 missing from the address?"
            ) from None
        what = "nothing" if not body.strip() else f"{len(body)} bytes that are no JSON"
        raise BadReply(f"{where} answered with {what}: is it an OpenAI-compatible endpoint?") from None
    if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], dict):
        answer = answer[0]
    if not isinstance(answer, dict):
        raise BadReply(f"{where} answered with a JSON {type(answer).__name__} instead of an object: is it an OpenAI-compatible endpoint?")
    return answer


def usage_of(usage: object) -> Usage | None:
    """Read a count of tokens, under the names that endpoints have for it; None where it counts nothing."""
    if not isinstance(usage, dict):
        return None
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    completion = _count(usage, "completion_tokens", "output_tokens")
    cached = _count(_part(usage, "prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    if cached is None:
        cached = _count(usage, "prompt_cache_hit_tokens", "cached_tokens")
    reasoning = _count(_part(usage, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    cost = usage.get("cost")
    micro = None
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:  # in dollars, as OpenRouter says it
        micro = round(cost * 1_000_000)
    if prompt is None and completion is None and micro is None:
        return None
    return Usage(1, prompt, completion, cached, reasoning, micro)


def failure_of(
    status: int, headers: Mapping[str, str], body: bytes, *, where: str, hide: Callable[[str], str] = str, profile: Profile = GENERIC
) -> ModelError:
    """Make the typed error of an answer whose status is not 2xx.

    Args:
        status: The HTTP status.
        headers: The answer's headers, looked up in lower case.
        body: The bytes as they came, decompressed.
        where: Which model at which address.
        hide: Blots out what must not be quoted.
        profile: What is known of the endpoint: its error codes.
    """
    content_type = headers.get("content-type", "")
    web_page = _is_web_page(body, content_type)
    if status < 400:
        return WrongEndpoint(
            f"{where} answered {status}, which sends elsewhere: give the final address (https instead of http? a missing /v1?)",
            status=status,
        )
    if web_page and status in (404, 405):
        return WrongEndpoint(
            f"{where} was not found ({status}, and a web page came): check the address (does it end in /v1?)", status=status
        )
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = {} if web_page else {"message": body.decode("utf-8", "replace")}
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return _failure(status, headers, answer, where=where, hide=hide, profile=profile)


_STATUS_OF_WORD = {
    "rate_limit_exceeded": 429, "rate_limit_error": 429, "too_many_requests": 429, "insufficient_quota": 429, "throttling": 429,
    "server_error": 500, "internal_server_error": 500, "internal_error": 500, "api_error": 500,
    "overloaded_error": 503, "overloaded": 503, "engine_overloaded_error": 503, "service_unavailable": 503, "unavailable_error": 503,
    "invalid_api_key": 401, "authentication_error": 401, "permission_error": 403, "permission_denied": 403,
    "invalid_request_error": 400, "bad_request": 400, "badrequesterror": 400, "context_length_exceeded": 400,
    "exceed_context_size_error": 400, "content_filter": 400, "not_found_error": 404, "model_not_found": 404,
}  # fmt: skip


def embedded_failure(
    answer: dict[str, Any], *, where: str, hide: Callable[[str], str] = str, profile: Profile = GENERIC
) -> ModelError | None:
    """Make the typed error that an answer of status 200 holds in the place of a completion; None where it holds none.

    It is judged by the status that it names; where it names none, by its code; where that is not known either, it is a `BadReply`.
    """
    error = answer.get("error")
    if not error:
        bare = "choices" not in answer and "usage" not in answer and answer.get("object", "error") == "error"
        if not bare or not (answer.get("message") or answer.get("detail")):
            return None
    inner = error if isinstance(error, dict) else answer
    status = next((found for found in map(_status, _status_values(inner, answer)) if found is not None), None)
    if status is None:
        status = next((_STATUS_OF_WORD[word] for word in _words(answer) if word in _STATUS_OF_WORD), None)
    if status is None:
        return BadReply(f"{where} answered with an error instead of a completion: {tidy(hide(_error_text(answer)))}")
    metadata = inner.get("metadata")
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    found = {str(name).lower(): str(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
    return _failure(status, found, answer, where=where, hide=hide, profile=profile)


_UNKNOWN = re.compile(
    r"unsupported|not supported|does(?: not|n't) support|unrecogni[sz]ed|unknown|unexpected|extra|not permitted|not allowed|no such|"
    r"invalid (?:field|parameter|argument)|can ?not be used",
    re.IGNORECASE,
)


def refused_parameter(status: int, body: bytes, optional: Collection[str], *, said: str = "") -> str | None:
    """Which of the optional parameters an endpoint does not know: it refused the request and names it. None where it names none.

    Args:
        status: The HTTP status.
        body: The failure's body.
        optional: The parameters that may be left out; see `Profile.optional`.
        said: The words of the conversation, which endpoints quote: a name that stands there is no parameter's, unless it stands where only a parameter's does.
    """
    if status not in (400, 422) or not optional:
        return None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = {"message": body[:1000].decode("utf-8", "replace")}
    details = answer.get("detail") if isinstance(answer, dict) else None
    if isinstance(details, list):
        return _misplaced(details, optional)
    text = _error_text(answer)[:2000]
    inner = answer.get("error") if isinstance(answer, dict) else None
    param = str(inner.get("param") or "") if isinstance(inner, dict) else ""
    codes = _words(answer) if isinstance(answer, dict) else []
    if not (_UNKNOWN.search(text) or any(_UNKNOWN.search(word.replace("_", " ")) for word in codes)):
        return None
    for field in sorted(optional, key=len, reverse=True):
        if param == field or param.endswith(f".{field}"):
            return field
    for field in sorted(optional, key=len, reverse=True):
        if field in said:
            continue
        # Where two fields for the limit are named, the one that is refused is named first. A name that is a word, too, has to be marked as a name.
        marked = (
            r"(?<![A-Za-z0-9_]){}(?![A-Za-z0-9_])"
            if "_" in field
            else r"['\"`]{}['\"`]|(?:argument|field|parameter|property|key)s?:? {}\b|\b{} (?:argument|field|parameter|property)"
        )
        found = re.search(marked.replace("{}", re.escape(field)), text)
        if found is not None and not any(other != field and f"{other}" in text[: found.start()] for other in _LIMITS if field in _LIMITS):
            return field
    return None


def _misplaced(details: list[Any], optional: Collection[str]) -> str | None:
    """The parameter that is refused in the form of pydantic's errors, which say where; what they quote beside that is anybody's."""
    for detail in details:
        if isinstance(detail, dict) and isinstance(place := detail.get("loc"), list) and place:
            words = f"{detail.get('type')} {detail.get('msg')}".replace("_", " ")
            if _UNKNOWN.search(words[:300]) and isinstance(place[-1], str) and place[-1] in optional:
                return place[-1]
    return None


_LIMITS = ("max_tokens", "max_completion_tokens")


def _failure(
    status: int, headers: Mapping[str, str], answer: object, *, where: str, hide: Callable[[str], str], profile: Profile
) -> ModelError:
    text = _error_text(answer)
    said = tidy(hide(text))
    said = f": {said}" if said else ""
    words = _words(answer)
    if status < 500 and status not in (401, 403):
        if any(word in profile.quota_codes for word in words) or status == 402:
            return QuotaExceeded(
                f"{where} refused the request, as the account's quota is used up ({status}{said}): look at its billing", status=status
            )
        if any(word in profile.filter_codes for word in words):
            return ContentFiltered(f"{where} refused the prompt ({status}{said}): its content filter objects", status=status)
        overflow = None if status == 429 else _overflow(answer, words, text, profile)
        if overflow is not None:
            limit, used = overflow
            size = "" if limit is None else f" of {limit:,} tokens"
            asked = "" if used is None else f", {used:,} were needed"
            return ContextOverflow(
                f"the request does not fit into the context{size} of {where}{asked} ({status}{said}): send less of the conversation, or ask for a shorter answer",
                status=status,
                limit=limit,
                used=used,
            )
    if status == 403 and _flagged(answer):
        return ContentFiltered(f"{where} refused the prompt (403{said}): its content filter objects", status=status)
    if status in (401, 403):
        return KeyRefused(f"{where} refused the key ({status}{said}): check OPENAI_API_KEY or api_key=", status=status)
    seconds = asked_wait(headers)
    if status == 429:
        wait = "wait" if seconds is None else f"wait {seconds:g} s"
        return RateLimited(
            f"{where} is asked too often or its quota is used up (429{said}): {wait}, or ask less", status=status, retry_after=seconds
        )
    if status == 404:
        return ModelRefused(
            f"{where} was not found (404{said}): check the address (does it end in /v1?) and the model's name", status=status
        )
    if status < 500:
        return ModelRefused(f"{where} refused the request ({status}{said})", status=status)
    return ModelFailed(f"{where} failed ({status}{said}): try again later", status=status, retry_after=seconds)


_NUMBER = r"(\d[\d,]{0,12})"
_OVERFLOWS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"maximum context length (?:is|of) {_NUMBER}",
        rf"context length is only {_NUMBER}",
        rf"too large for model with {_NUMBER} maximum context length",
        rf"exceeds the maximum number of tokens allowed \(?{_NUMBER}",
        r"exceeds the available context size",
    )
)
_NEEDED = re.compile(rf"(?:requested (?:about )?|resulted in |contains (?:at least )?|passed |input token count \(?){_NUMBER}")


def _overflow(answer: object, words: list[str], text: str, profile: Profile) -> tuple[int | None, int | None] | None:
    error = answer.get("error") if isinstance(answer, dict) else None
    facts = error if isinstance(error, dict) else answer if isinstance(answer, dict) else {}
    limit, used = _count(facts, "n_ctx"), _count(facts, "n_prompt_tokens")
    start = text[:_LONGEST_QUOTE]
    found = next((match for match in (pattern.search(start) for pattern in _OVERFLOWS) if match), None)
    if found is None and not any(word in profile.overflow_codes for word in words):
        return None
    if limit is None and found is not None and found.groups():
        limit = _whole_number(found[1])
    needed = _NEEDED.search(start)
    if used is None and needed is not None:
        used = _whole_number(needed[1])
    return limit, used


def _whole_number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _words(answer: object) -> list[str]:
    """The codes and types of an error, in lower case: whatever an endpoint calls it by."""
    if not isinstance(answer, dict):
        return []
    error = answer.get("error")
    inner = error.get("innererror") if isinstance(error, dict) else None
    levels = [level for level in (error, inner, answer) if isinstance(level, dict)]
    values = [level.get(field) for level in levels for field in ("code", "type", "status")]
    if isinstance(error, str) and error.isidentifier():
        values.append(error)
    return [value.lower() for value in values if isinstance(value, str)]


def _status_values(inner: dict[str, Any], answer: dict[str, Any]) -> list[object]:
    return [level.get(field) for level in (inner, answer) for field in ("code", "status", "status_code", "statusCode", "http_code")]


def _status(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None


def _flagged(answer: object) -> bool:
    error = answer.get("error") if isinstance(answer, dict) else None
    metadata = error.get("metadata") if isinstance(error, dict) else None
    return isinstance(metadata, dict) and ("flagged_input" in metadata or bool(metadata.get("reasons")))


def _error_text(answer: object) -> str:
    """Find the message in the shapes that endpoints use: {"error": {"message": …}}, {"error": …}, {"message": …}, {"detail": …}."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error")
    if isinstance(error, str) and error:
        return whole(error)
    if isinstance(error, dict):
        answer = error
    found = answer.get("message") or answer.get("detail") or ""
    return whole(found) if isinstance(found, str) else json.dumps(found)


def _is_web_page(body: bytes, content_type: str) -> bool:
    return "html" in content_type.lower() or body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _part(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        part = usage.get(name)
        if isinstance(part, dict):
            return part
    return {}


def _count(facts: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = facts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            return value
    return None
