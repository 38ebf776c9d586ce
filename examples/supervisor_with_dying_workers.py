"""A supervisor whose workers really die, each in its own way, and the work is done all the same.

Shows: a lead that gives three workers their tasks at the same time; a worker whose process is killed with SIGKILL; one that has got into a
state in which it fails, until a restart; one that is gone for good, and for which another stands in; what the lead is told of all that
(nothing: its calls have results); how often whoever died was restarted.
Run:   python examples/supervisor_with_dying_workers.py           (a script stands in for the lead's model)
       python examples/supervisor_with_dying_workers.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import trio

import retinue as rt
from retinue import llm

TASK = "How many primes are there below 200000? How many letters and how many words are in 'all in the golden afternoon'?"
TEXT = "all in the golden afternoon"


def report(request: llm.Complete) -> str:
    """The end of the script: what came of the lead's calls."""
    primes, letters, words = (message.content for message in request.messages if message.role == "tool")
    return f"{primes} primes; {letters} letters in {words} words."


SCRIPT = [
    llm.tool_calls(("ask_primes", {"message": "200000"}), ("ask_letters", {"message": TEXT}), ("ask_words", {"message": TEXT})),
    report,
]


def count_primes(below: int) -> None:
    """A program of its own."""
    sieve = bytearray([1]) * below
    for number in range(2, int(below**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, below, number)))
    print(sum(sieve[2:]), flush=True)


class Primes(rt.Actor):
    """Lets a process do the work. An actor that takes an `AgentMessage` is a worker like any agent.

    Args:
        started: Told the id of each process.
    """

    def __init__(self, started: Callable[[int], None]) -> None:
        self.started = started

    @rt.handler
    async def count(self, message: rt.AgentMessage) -> rt.AgentMessage:
        below = re.search(r"\d+", str(message.content))
        if below is None:
            raise rt.Reject("say below which number, such as 1000")
        process = await trio.lowlevel.open_process([sys.executable, __file__, "count", below[0]], stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            self.started(process.pid)
            said = await process.stdout.receive_some()
            code = await process.wait()
            if code != 0:  # no handler's answer, but a failure: the actor is restarted
                raise ChildProcessError(f"the process ended by {signal.Signals(-code).name if code < 0 else code}")
            return rt.AgentMessage(said.decode().strip(), "primes")
        finally:
            process.kill()  # whoever is cancelled leaves no process behind
            with trio.CancelScope(shield=True):
                await process.wait()
                await process.stdout.aclose()


@rt.message
class Use(rt.Message):
    """Says which characters are letters: 'a-z'."""

    letters: str


class Letters(rt.Actor):
    """Counts letters. What it was told meanwhile is gone after a restart: it is made anew, as it was spawned."""

    def __init__(self) -> None:
        self.letters = "a-z"

    @rt.handler
    def use(self, message: Use) -> None:
        self.letters = message.letters

    @rt.handler
    def count(self, message: rt.AgentMessage) -> rt.AgentMessage:
        first, last = self.letters.split("-")
        return rt.AgentMessage(str(sum(first <= letter <= last for letter in str(message.content).lower())), "letters")


class Words(rt.Actor):
    """Counts words, or not.

    Args:
        broken: Whether it fails.
    """

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    @rt.handler
    def count(self, message: rt.AgentMessage) -> rt.AgentMessage:
        if self.broken:
            raise OSError("the disk is gone")
        return rt.AgentMessage(str(len(str(message.content).split())), "words")


class Killer:
    """Kills the first process that it hears of."""

    def __init__(self) -> None:
        self.killed = False

    def __call__(self, process: int) -> None:
        if not self.killed:
            self.killed = True
            print("  (the process of primes is killed)", flush=True)
            os.kill(process, signal.SIGKILL)


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The lead's model: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, SCRIPT, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def main() -> None:
    logging.disable()  # each death is logged as an error, with its traceback
    async with rt.ActorSystem("factory", events=1_000) as system:
        once = rt.Supervision(restart="temporary")  # whoever fails is gone
        letters = await system.spawn(Letters, name="letters")
        letters.tell(Use("a to z"))  # a slip: from now on it fails
        words = [(name, await system.spawn(Words, name == "words", name=name, supervision=once)) for name in ("words", "spare")]
        workers = {
            "primes": await system.spawn(Primes, Killer(), name="primes"),
            "letters": letters,
            "words": words,
        }
        lead = rt.Agent.spec(model=await choose(system), instructions="Give each worker its task, all at once, and report what they found.")
        team = await system.spawn(rt.Supervisor, lead=lead, workers=workers, retries=2, worker_seconds=30, name="team")

        print(f"user: {TASK}")
        async with team.stream(TASK) as events:
            async for envelope in events:
                path, event = rt.innermost(envelope)
                match event:
                    case rt.ToolStarted(_, name, arguments):
                        print(f"  {path[0]} calls {name} {arguments}")
                    case rt.Notice("retrying", text):
                        print(f"  {text}")
                    case rt.ToolFinished(_, name, ok, text):
                        print(f"  {name} {'->' if ok else 'failed:'} {text}")
                    case rt.RunEnd(message) if not path:
                        print(f"{message.sender}: {message.content}")

        for worker in ("/user/primes", "/user/letters", "/user/words", "/user/spare"):
            deaths = [event.what for event in system.events(worker) if event.what in ("failed", "restarted", "stopped")]
            print(f"{worker}: {', '.join(deaths) or 'alive all the time'}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["count"]:
        count_primes(int(sys.argv[2]))
    else:
        rt.run(main)
