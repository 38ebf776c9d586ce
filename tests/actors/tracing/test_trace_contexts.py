"""What of a span's context goes with a message: whose turn a span of one's own was made in, the `tracestate`, and that a trace is not kept."""

from __future__ import annotations

import logging
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import retinue as rt
from retinue import llm
from retinue.actors.runtime.current import current
from retinue.actors.tracing.contexts import FromOutside, parsed, state_of, written
from trace_reading import one, read_spans

MINE = TracerProvider(shutdown_on_exit=False).get_tracer("a program")
USED = llm.Completion("yes", "tiny-1", llm.Usage(1, 10, 20, cost_micro_usd=5), "stop")


@rt.message
class Look(rt.Request[list[Any]]):
    """Says what a turn finds of its span, and what the turns do that it asks."""

    below: tuple[rt.Ref[Any], ...] = ()
    own: bool = False


class Looker(rt.Actor):
    @rt.handler
    async def look(self, message: Look) -> list[Any]:
        span, current = self.ctx.span, trace.get_current_span()
        own = MINE.start_span("own")
        seen = (span.recording, span.traceparent, span.tracestate, written(current.get_span_context()), own.is_recording())
        found: list[Any] = [seen]
        if message.below:
            with trace.use_span(own if message.own else current):
                found += await message.below[0].ask(Look(message.below[1:], message.own))
        return found


@rt.message
class Turn(rt.Message):
    """Goes round so many times more."""

    left: int


async def chain(system: rt.ActorSystem, length: int) -> tuple[rt.Ref[Any], ...]:
    return tuple([await system.spawn(Looker) for _ in range(length)])


# -- spans of one's own --------------------------------------------------------------------------------------------------------------------------------


class Wrapped(rt.Team):
    """Asks its member within spans of the program's own."""

    def __init__(self, members: Any, away: bool) -> None:
        super().__init__(members)
        self.away = away

    async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
        with (
            MINE.start_as_current_span("outer", otel_context.Context() if self.away else None),
            MINE.start_as_current_span("inner"),
        ):
            return await run.ask("w", run.message)


@pytest.mark.parametrize("away", [False, True], ids=["in its trace", "of another trace"])
async def test_what_models_take_within_a_span_of_ones_own_counts_for_the_run_that_it_is_part_of(away: bool, tmp_path: Path) -> None:
    async with rt.ActorSystem("own", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        model = await system.spawn(llm.Scripted, lambda _: USED)
        team = await system.spawn(Wrapped, {"w": rt.Agent.spec(model=model)}, away, name="team")
        await team.ask("Is it?")
    spans = read_spans(tmp_path)
    team_run, member = one(spans, "invoke_agent team"), one(spans, "invoke_agent w")
    assert member["gen_ai.usage.input_tokens"] == 10 and member.parent not in {span.id for span in spans}
    if away:
        assert member.trace != team_run.trace and "gen_ai.usage.input_tokens" not in team_run.attributes
    else:
        about = [team_run[key] for key in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "retinue.cost_micro_usd")]
        assert member.trace == team_run.trace and about == [10, 20, 5]


async def test_a_span_of_ones_own_that_is_not_kept_keeps_nothing_below_it(tmp_path: Path) -> None:
    async with rt.ActorSystem("dark", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        [looker] = await chain(system, 1)
        dark = NonRecordingSpan(SpanContext(5, 6, is_remote=False, trace_flags=TraceFlags(0)))
        with trace.use_span(dark):
            [seen] = await looker.ask(Look())
    assert seen == (False, f"00-{5:032x}-{6:016x}-00", None, f"00-{5:032x}-{6:016x}-00", False) and read_spans(tmp_path) == []


# -- what goes with a span -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [1.0, 0.0], ids=["kept", "not kept"])
@pytest.mark.parametrize("own", [False, True], ids=["turns", "spans of one's own"])
async def test_the_state_of_a_trace_goes_with_it_from_turn_to_turn(own: bool, sample: float, tmp_path: Path) -> None:
    state = TraceState([("vendor", "a"), ("other@system", "1")])
    async with rt.ActorSystem("state", data_dir=tmp_path, tracing=rt.Tracing(sample=sample)) as system:
        first, *rest = await chain(system, 3)
        outside = NonRecordingSpan(SpanContext(5, 6, is_remote=False, trace_flags=TraceFlags(int(sample)), trace_state=state))
        with trace.use_span(outside):
            found = await first.ask(Look(tuple(rest), own))
    assert [(seen[0], seen[2]) for seen in found] == [(bool(sample), "vendor=a,other@system=1")] * 3


async def test_a_state_that_is_too_long_is_left_out_and_the_span_is_not(tmp_path: Path) -> None:
    state = TraceState([(f"v{n}", "x" * 200) for n in range(3)])
    async with rt.ActorSystem("long", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        [looker] = await chain(system, 1)
        with trace.use_span(NonRecordingSpan(SpanContext(5, 6, is_remote=False, trace_flags=TraceFlags(1), trace_state=state))):
            [seen] = await looker.ask(Look())
    assert seen[2] is None and one(read_spans(tmp_path), "Look").parent == f"{6:016x}"


KEYS = st.from_regex(r"[a-z][a-z0-9_*/-]{0,12}(@[a-z][a-z0-9_*/-]{0,8})?", fullmatch=True)
PLAIN = "".join(chr(n) for n in range(0x21, 0x7F) if chr(n) not in ",=")
VALUES = st.builds(str.__add__, st.text(PLAIN + " ", max_size=10), st.sampled_from(PLAIN))


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=12), st.sampled_from([",", ", ", " ,\t", ",,"]))
def test_whatever_list_is_well_formed_is_read_and_written_as_it_was(members: dict[str, str], between: str) -> None:
    state = state_of(between.join(f"{key}={value}" for key, value in members.items()))
    assert state is not None and dict(state) == members
    text = FromOutside(written(SpanContext(5, 6, is_remote=True)), state)
    context = parsed(text)
    assert context is not None and context.trace_state.to_header() == ",".join(f"{key}={value}" for key, value in members.items())
    assert written(context) == text and hash(written(context)) == hash(str(text))


ODD_STATES = {
    "nothing": "",
    "only commas": " , ,",
    "no value": "a=",
    "no key": "=a",
    "no sign": "a",
    "two signs": "a=b=c",
    "a large letter": "A=b",
    "a key twice": "a=b,a=c",
    "not ASCII": "a=\N{LATIN SMALL LETTER E WITH ACUTE}",
    "a line": "a=b\nc",
    "half of it malformed": "a=b,c",
    "33 members": ",".join(f"k{n}=1" for n in range(33)),
    "513 characters": "a=" + "x" * 255 + ",b=" + "x" * 253,
    "a key of 257": string.ascii_lowercase[0] * 257 + "=b",
}


@pytest.mark.parametrize("name", list(ODD_STATES))
def test_what_is_no_well_formed_list_is_none_and_nothing_is_logged_of_it(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert state_of(ODD_STATES[name]) is None and not caplog.records


def test_a_list_may_have_32_members_and_512_characters() -> None:
    state = state_of(",".join(f"k{n}=1" for n in range(32)))
    assert state is not None and len(state) == 32
    assert state_of("a=" + "x" * 255 + ",b=" + "x" * 252) is not None


# -- traces that are not kept --------------------------------------------------------------------------------------------------------------------------


async def test_in_a_trace_that_is_not_kept_every_turn_and_what_it_starts_is_of_it(tmp_path: Path) -> None:
    async with rt.ActorSystem("dark", data_dir=tmp_path, tracing=rt.Tracing(sample=0.0)) as system:
        first, *rest = await chain(system, 3)
        found = await first.ask(Look(tuple(rest)))
        again = await first.ask(Look())
    first_seen = found[0]
    assert not int(first_seen[1][-2:], 16) & TraceFlags.SAMPLED
    assert found == [(False, first_seen[1], None, first_seen[1], False)] * 3  # spans of one's own are not recorded either
    assert again[0][1][:35] != first_seen[1][:35] and read_spans(tmp_path) == []


async def test_a_ring_in_a_trace_that_is_not_kept_holds_the_last_turns_context_and_none_before_it(tmp_path: Path) -> None:
    came: list[Any] = []

    class Ring(rt.Actor):
        @rt.handler
        def turn(self, message: Turn) -> None:
            postmark: Any = current().postmark
            came.append(postmark.trace)
            if message.left:
                with MINE.start_as_current_span("own"):
                    self.ctx.ref.tell(Turn(message.left - 1))

    async with rt.ActorSystem("ring", data_dir=tmp_path, tracing=rt.Tracing(sample=0.0)) as system:
        ring = await system.spawn(Ring)
        ring.tell(Turn(5))
        await system.wait_quiet()
    assert len(came) == 6 and all(isinstance(each, FromOutside) and not isinstance(each.within, FromOutside) for each in came[1:])


async def test_what_was_current_in_a_turn_that_is_not_kept_is_not_when_it_is_over(tmp_path: Path) -> None:
    async with rt.ActorSystem("dark", data_dir=tmp_path, tracing=rt.Tracing(sample=0.0)) as system:
        first, second = await chain(system, 2)
        await first.ask(Look((second,)))
        for looker in (first, second):
            cell = looker._cell
            assert cell.context is not None and not cell.context.run(trace.get_current_span).get_span_context().is_valid
