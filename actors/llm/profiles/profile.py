"""The form that a provider's peculiarities are written in."""

from __future__ import annotations

from typing import Literal

import attrs

from retinue.security.spelling import names_the_nearest

__all__ = ["Profile"]


@names_the_nearest
@attrs.frozen(kw_only=True)
class Profile:
    """What an OpenAI-compatible endpoint takes and gives. Make a variant of one with `attrs.evolve(profile, …)`.

    Attributes:
        name: How it is chosen: `OpenAICompatible(profile="vllm", …)`.
        path: What comes after the endpoint's address. Default "/chat/completions".
        query: Parameters of the address's query, such as Azure's `api-version`.
        key_header: The header that carries the key. Default "authorization".
        key_prefix: What stands before the key there. Default "Bearer ".
        streams: Whether it can answer in pieces; else it is asked for plain answers. Default True.
        include_usage: Whether a stream is asked to count its tokens (`stream_options`). Default True.
        limit_field: The field for `max_tokens`; "max_tokens" (default) or "max_completion_tokens".
        seed_field: The field for `seed`. Default "seed".
        most_stops: The most texts in `stop`; None for no limit. Default 4.
        instructions_role: The role that the program's instructions are sent as: "system" (default), "developer", or "user" where there is no
            such role: then they stand before the first user's text.
        alternates: Whether the roles user and assistant have to alternate; neighbours of the same role are joined then. Default False.
        sends_names: Whether an entry's `name` is sent. Default False.
        empty_content: What stands for the text of an assistant's entry that only calls tools: "empty" ("", the default), "null" or "omit".
        call_id: How long the ids of tool calls have to be, of letters and digits only; ids of others are translated. Default None: any.
        required_word: The word for "call any tool" in `tool_choice`; "auto" where there is none. Default "required".
        names_tool: Whether `tool_choice` can name a tool; where not, `required_word` is sent. Default True.
        tools: How the model is told of tools: "native" (the default), or "schema" for models without tool calls: in the instructions, with a
            form to which the server holds each reply, and which is turned back into calls. What `output` says goes for that form, too.
            "llguidance" is the same with a grammar of that library's, for a server of llama.cpp's that has it: it takes half the tokens.
        strict: Whether `strict` is sent with tools and output forms. Default True.
        parallel_tool_calls: Whether that field is sent, where the request says something of it. Default True.
        output: How a form of the answer is asked for: "schema" (the default), "object" (any JSON object; the schema stands in the
            instructions), or "prompt" (the schema stands in the instructions, and nothing else is sent).
        output_with_tools: Whether a form may be asked for beside tools; where not, it stands in the instructions then, as some servers call no
            tool when they are held to a form. Default True.
        effort: How `reasoning_effort` is sent: "field" (the default), "object" (`reasoning: {effort: …}`), or "never".
        reasoning_fields: Where the answer's reasoning stands, in order of preference.
        send_back_reasoning: How the reasoning of earlier answers is sent: "field" (in the first of `reasoning_fields`), "calls" (the same, only
            in entries that call tools), "tags" (before the text, in `think_tags`), or "never" (the default).
        think_tags: The tags around reasoning that stands in the text itself; None where there is no such thing.
        starts_in_thought: Whether the text begins within the reasoning, without the opening tag. Default False.
        overflow_codes: The error codes and types that mean: does not fit into the context.
        quota_codes: Those that mean: the account has no money or quota left.
        filter_codes: Those that mean: a content filter refused the prompt.
        needs_finish_reason: Whether a stream without a finish reason is one that broke off. Default True.
        optional: The parameters that are left out for good where the endpoint refuses a request and names one of them as unknown: the request
            still asks for the same. Of the two fields for `max_tokens` the other one is taken then.
    """

    __immutable__ = True

    name: str
    path: str = "/chat/completions"
    query: tuple[tuple[str, str], ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    streams: bool = True
    include_usage: bool = True
    limit_field: str = "max_tokens"
    seed_field: str = "seed"
    most_stops: int | None = 4
    instructions_role: Literal["system", "developer", "user"] = "system"
    alternates: bool = False
    sends_names: bool = False
    empty_content: Literal["empty", "null", "omit"] = "empty"
    call_id: int | None = None
    required_word: str = "required"
    names_tool: bool = True
    tools: Literal["native", "schema", "llguidance"] = "native"
    strict: bool = True
    parallel_tool_calls: bool = True
    output: Literal["schema", "object", "prompt"] = "schema"
    output_with_tools: bool = True
    effort: Literal["field", "object", "never"] = "field"
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    send_back_reasoning: Literal["field", "calls", "tags", "never"] = "never"
    think_tags: tuple[str, str] | None = ("<think>", "</think>")
    starts_in_thought: bool = False
    overflow_codes: frozenset[str] = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"})
    quota_codes: frozenset[str] = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"})
    filter_codes: frozenset[str] = frozenset({"content_filter", "content_policy_violation"})
    needs_finish_reason: bool = True
    optional: frozenset[str] = frozenset(
        {
            "developer", "max_completion_tokens", "max_tokens", "name", "parallel_tool_calls", "reasoning_effort", "seed",
            "stream_options", "strict",
        }
    )  # fmt: skip
