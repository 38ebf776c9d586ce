"""Reading what an OpenAI-compatible endpoint sends back: a completion, or a typed error.

Nothing here trusts the sender. Whatever comes is a completion with text, or one of the errors of `retinue.actors.llm.errors`.
"""

from __future__ import annotations

import email.utils
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from retinue.actors.llm.errors import BadReply, KeyRefused, ModelError, ModelFailed, ModelRefused, RateLimited
from retinue.actors.llm.messages import Completion
from retinue.actors.llm.usage import Usage

__all__ = ["completion_of", "failure_of", "retry_after", "tidy"]

_LONGEST_QUOTE = 300
_LONGEST_WAIT = 24 * 3600.0


def completion_of(body: bytes, *, content_type: str, where: str, model: str, hide: Callable[[str], str] = str) -> Completion:
    """Read a completion out of a successful answer's body.

    Args:
        body: The bytes as they came, decompressed.
        content_type: The answer's content type, for the error's text.
        where: Which model at which address, for the error's text.
        model: The name that was asked for; used where the answer gives none.
        hide: Blots out what must not be quoted.

    Raises:
        BadReply: The body is no completion with text; the text says what it is instead.
    """
    answer = _json(body, content_type, where)
    error = answer.get("error")
    if error:  # some gateways answer 200 and put their failure into the body
        raise BadReply(f"{where} answered with an error instead of a completion: {tidy(hide(_error_text(answer)))}")
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    said = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(said, dict):
        raise BadReply(f"{where} answered with JSON that is no chat completion (no choices[0].message in it): is the address right?")
    finish = _word(choice.get("finish_reason"))
    text = _content(said.get("content"))
    if not text.strip():
        advice = "it needs a larger max_tokens" if finish == "length" else "ask again, or look at the prompt"
        raise BadReply(f"{where} answered without text (finish reason: {finish or 'none given'}): {advice}")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Completion(
        text=_whole(text),
        model=_word(answer.get("model")) or model,
        usage=Usage(prompt_tokens=_count(usage.get("prompt_tokens")), completion_tokens=_count(usage.get("completion_tokens"))),
        finish_reason=finish,
    )


def failure_of(status: int, headers: Mapping[str, str], body: bytes, *, where: str, hide: Callable[[str], str] = str) -> ModelError:
    """Make the typed error of an answer whose status is not 2xx.

    Args:
        status: The HTTP status.
        headers: The answer's headers, looked up in lower case.
        body: The bytes as they came, decompressed.
        where: Which model at which address.
        hide: Blots out what must not be quoted.
    """
    said = tidy(hide(_said(body, headers.get("content-type", ""))))
    said = f": {said}" if said else ""
    if status < 400:
        return BadReply(
            f"{where} answered {status}, which sends elsewhere: give the final address (https instead of http? a missing /v1?)",
            status=status,
        )
    if status in (401, 403):
        return KeyRefused(f"{where} refused the key ({status}{said}): check OPENAI_API_KEY or api_key=", status=status)
    if status == 429:
        seconds = retry_after(headers.get("retry-after"))
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
    return ModelFailed(f"{where} failed ({status}{said}): try again later", status=status)


def retry_after(value: str | None, *, now: float | None = None) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait, in either of its forms (seconds, or a date); None for anything else.

    Args:
        value: The header, or None.
        now: The wall clock's time in seconds since the epoch; default: read it.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else None


def tidy(text: str) -> str:
    """Make foreign text quotable in one line: no control characters, no runs of white space, at most 300 characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + "…"


def _json(body: bytes, content_type: str, where: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # never chained: a JSONDecodeError carries the whole document
        start = body[:200].lstrip().lower()
        if "html" in content_type.lower() or start.startswith((b"<!doctype html", b"<html")):
            raise BadReply(
                f"{where} answered with a web page instead of JSON: is a log-in page or a proxy in between, or /v1 missing from the address?"
            ) from None
        what = "nothing" if not body.strip() else f"{len(body)} bytes that are no JSON"
        raise BadReply(f"{where} answered with {what}: is it an OpenAI-compatible endpoint?") from None
    if not isinstance(answer, dict):
        raise BadReply(f"{where} answered with a JSON {type(answer).__name__} instead of an object: is it an OpenAI-compatible endpoint?")
    return answer


def _said(body: bytes, content_type: str) -> str:
    """What the endpoint says of its failure, or nothing."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "" if "html" in content_type.lower() else body[:1000].decode("utf-8", "replace")
    return _error_text(answer)


def _error_text(answer: object) -> str:
    """Find the message in the shapes that endpoints use: {"error": {"message": …}}, {"error": …}, {"message": …}, {"detail": …}."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error")
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        answer = error
    found = answer.get("message") or answer.get("detail") or ""
    return _whole(found) if isinstance(found, str) else json.dumps(found)


def _content(content: object) -> str:
    """The text of a message's content: a string, or a list of parts of which the text ones count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text"))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _whole(text: str) -> str:
    """Replace lone surrogates (JSON can carry them), which no file and no terminal takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _word(value: object) -> str | None:
    return (tidy(_whole(value)) or None) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
