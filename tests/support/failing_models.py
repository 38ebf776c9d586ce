"""Deployments that do what a test tells them: answer, fail, stall, break off in the middle."""

from __future__ import annotations

import trio

from retinue import llm


def said(text):
    return llm.Completed(llm.Completion(text, "puppet", finish_reason="stop"))


class Puppet(llm.Deployment):
    """Does one act a request, and the last one again and again: a text, an error, an event (or a list of these), or an async function without arguments."""

    def __init__(self, *acts):
        super().__init__(1024)
        self.acts = list(acts)
        self.seen = []

    async def stream_once(self, request):
        self.seen.append(request)
        act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]
        for part in act if isinstance(act, list) else [act]:
            found = part
            if callable(found):
                found = await found()
            if isinstance(found, BaseException):
                raise found.with_traceback(None)
            if isinstance(found, str):
                yield llm.TextDelta(found)
                yield said(found)
            elif found is not None:
                yield found


async def stall():
    """An act that never ends."""
    await trio.sleep_forever()


async def text_of(model, message="hello", **options):
    return (await model.ask(llm.Complete.of(message), **options)).text


async def events_of(model, message="hello", **options):
    events = []
    async with model.stream(llm.CompleteStream.of(message), **options) as stream:
        async for event in stream:
            events.append(event)
    return events
