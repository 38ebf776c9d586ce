"""A maths agent that programs: it writes Python, a process runs it, and it answers from what came out. (Lagent's first example, as a team.)

Shows: a team's `forward`, at most three rounds; code in a text, found by a parser; a kernel for each session, in a process of its own, which
is killed when its code does not end, and whose variables no other session sees; the memory of a member by its key path.
Run:   python examples/maths_agent_that_programs.py           (a script stands in for the model; the code is really run)
       python examples/maths_agent_that_programs.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)

The code runs as you on this machine, and nobody is asked before. For code that you would not run yourself: PythonKernel(approval=True).
"""

import sys

import attrs
import trio

import retinue as rt
from retinue import llm

ROUNDS = 3
PROGRAM = rt.ToolParser(
    "code interpreter",
    "Solve the problem step by step. Where there is something to compute, write one Python program and print what it finds, like this:\n"
    "{begin}print(6 * 7){end}You are told what it printed. Then answer in one sentence.",
    begin="```python\n",
    end="\n```\n",
)
PROJECTION = "a · b is 2, and b is (1, -3). What is the projection of a onto b?"
SQUARES = "What is the sum of the squares from 1 to 100?"
PRIMES = "Which is the last prime number?"


class Coder(rt.Team):
    """Two members: "agent" writes programs, "executor" runs them."""

    async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
        message = run.message
        for _ in range(ROUNDS):
            message = await run.ask("agent", message)
            found = PROGRAM.parse(message.content)
            if not found.calls:
                return message
            message = await run.ask("executor", attrs.evolve(message, formatted=found.formatted))
        return rt.AgentMessage(f"no answer in {ROUNDS} rounds; the last program gave: {message.content}", run.name, partial=True)


def script(request: llm.Complete) -> str:
    """What a model would write: it is told the problem, and what its programs printed."""
    told = [entry.content for entry in request.messages if entry.role == "user"]
    programs = len(told) - 1
    if told[0] == PROJECTION:
        return [
            "The projection is (a·b / b·b) b.\n```python\nb = (1, -3)\nscale = Fraction(2, sum(x * x for x in b))\nprint(scale)\n```\n",
            "I forgot an import.\n```python\nfrom fractions import Fraction\nprint(*(Fraction(2, sum(x * x for x in b)) * x for x in b))\n```\n",
            f"The projection is ({', '.join(told[-1].split())}).",
        ][programs]
    if told[0] == SQUARES:
        return [
            "```python\nprint('b is known here:', 'b' in globals())\nprint(sum(n * n for n in range(1, 101)))\n```\n",
            f"The sum is {told[-1].split()[-1]}.",
        ][programs]
    return ["```python\nn = 2\nwhile True:\n    n += 1\n```\n", "There is none: my program would never have ended."][programs]


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, script, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def main() -> None:
    async with rt.ActorSystem("maths") as system:
        kernel = rt.PythonKernel(approval=False, ipython=False, timeout=3)
        before, after = rt.action_processor("python.run", code_parameter="code", tool_type=PROGRAM.tool_type)
        agent = rt.Agent.spec(model=await choose(system), instructions=PROGRAM.instruction(), stop=["\n```\n"])
        executor = await system.spawn(rt.ActionExecutor, [kernel], before=[before], after=[after], name="executor")
        coder = await system.spawn(Coder, {"agent": agent, "executor": executor}, name="coder")

        async def solve(problem: str, session: str) -> None:
            answers[session] = (await coder.ask(rt.AgentMessage(problem, session=session))).content

        answers: dict[str, str] = {}
        async with trio.open_nursery() as nursery:  # three sessions at the same time
            for number, problem in enumerate((PROJECTION, SQUARES, PRIMES), 1):
                nursery.start_soon(solve, problem, f"problem {number}")

        for session, answer in sorted(answers.items()):
            state = await coder.ask(rt.GetState(session=session))
            print(f"{session}:")
            for item in state["agent.memory"]:
                print(f"  {item['sender']}: {item['content']}".rstrip().replace("\n", "\n      "))
            print(f"  => {answer}")


if __name__ == "__main__":
    rt.run(main)
