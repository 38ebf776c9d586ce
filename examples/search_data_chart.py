"""From a question to a chart: a researcher searches documents, and a charter draws what was found. (Lagent's third example.)

Shows: two agents that work together by one text and hand over to each other; a real search in the folder planets, and a real PNG file
that matplotlib draws in a process of its own; a broken call of one tool, which is told of and never run as the code of another; all
memories written to a JSON file, and loaded from it by a second team.
Run:   python examples/search_data_chart.py [FOLDER]    (a script stands in for the model; the files go to FOLDER, else to a new temporary one)
       python examples/search_data_chart.py --live      (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
It needs matplotlib: pip install '.[charts]'

The code runs as you on this machine, and nobody is asked before. For code that you would not run yourself: PythonKernel(approval=True).
"""

import importlib.util
import json
import math
import re
import struct
import sys
import tempfile
from collections import Counter
from pathlib import Path

import attrs

import retinue as rt
from retinue import llm

DOCUMENTS = Path(__file__).parent / "planets"
TASK = "How long is a year on each of the four inner planets? Draw a bar chart of it. Once the chart is saved, finish."
TOGETHER = (
    "You are the {name}, and work together with the {other}. Do your part with your tool; if you cannot finish, that is fine, the other goes on "
    "where you stopped. Whoever has the final result begins with FINAL ANSWER, so that all know to stop. {task}\n\n{tool}"
)
BROWSER = rt.ToolParser(
    "browser",
    'To search, write one call: {begin}{{"name": "Search.find", "parameters": {{"query": "what to look for"}}}}{end}',
    begin="```json\n",
    end="\n```\n",
    validate=json.loads,
)
INTERPRETER = rt.ToolParser("interpreter", "To run Python, write: {begin}print(6 * 7){end}", begin="```python\n", end="\n```\n")
ROUNDS, CALLS = 10, 5  # of the two by turns; of one tool, in one go


class Search:
    """Documents of a folder, found by the words that they share with a query; rare words count more."""

    def __init__(self, folder: Path) -> None:
        self.documents = {path.name: path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.txt"))}  # a few, and short
        self.words = {name: Counter(_words(text)) for name, text in self.documents.items()}

    @rt.tool
    async def find(self, query: str, most: int = 4) -> str:
        """Searches the documents.

        Args:
            query: The words to look for.
            most: How many documents.
        """
        wanted = set(_words(query))
        weights = {word: math.log(1 + len(self.words) / (1 + sum(word in words for words in self.words.values()))) for word in wanted}
        scores = {name: sum(weights[word] for word in wanted if word in words) for name, words in self.words.items()}
        best = sorted((name for name in scores if scores[name] > 0), key=lambda name: (-scores[name], name))[:most]
        return "\n".join(f"[{name}] {self.documents[name]}" for name in best) or "nothing was found"


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


class Workflow(rt.Team):
    """The researcher and the charter by turns, each with what runs its calls, until one of them has the final answer."""

    async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
        message = run.message
        for _ in range(ROUNDS):
            for member, parser in (("researcher", BROWSER), ("charter", INTERPRETER)):
                message = await self.work(run, member, parser, message)
                if "FINAL ANSWER" in message.content:
                    return message
        return rt.AgentMessage(f"no final answer in {ROUNDS} rounds: {message.content}", run.name, partial=True)

    async def work(self, run: rt.TeamRun, member: str, parser: rt.Parser, message: rt.AgentMessage) -> rt.AgentMessage:
        """What a member says when it has made its calls."""
        reply = await run.ask(member, message)
        for _ in range(CALLS):
            found = parser.parse(reply.content)
            if not found.calls:
                break
            done = await run.ask("executor", attrs.evolve(reply, formatted=found.formatted))
            reply = await run.ask(member, done)
        return reply


def script(request: llm.Complete) -> str:
    """What a model would write; its numbers are those that were found."""
    told = [entry.content for entry in request.messages if entry.role == "user"]
    if "You are the researcher" in request.messages[0].content:
        return [
            "I search.\n```json\n{'name': 'Search.find'; open('never.txt', 'w')\n```\n",  # no JSON
            'Once more.\n```json\n{"name": "Search.find", "parameters": {"query": "days round the Sun: Mercury, Venus, Earth, Mars"}}\n```\n',
            "The years, from NASA's Planetary Fact Sheet: "
            + ", ".join(
                f"{name} {days} days [{file}]"
                for file, name, days in re.findall(r"\[(.+)\] (\w+) goes round the Sun in ([\d.]+) days", told[-1])
            ),
        ][len(told) - 1]
    if len(told) == 1:
        years = sorted((float(days), name) for name, days in re.findall(r"(\w+) ([\d.]+) days", told[0]))
        names, days = [name for _, name in years], [number for number, _ in years]
        return (
            "I draw.\n```python\nimport matplotlib.pyplot as plt\n"
            f"figure, axes = plt.subplots()\naxes.bar({names}, {days})\naxes.set_ylabel('days')\n"
            "axes.set_title('A year on the inner planets')\nfigure.savefig('years.png')\nprint('saved years.png,', len(axes.patches), 'bars')\n```\n"
        )
    return f"FINAL ANSWER: {told[-1]}."


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, script, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def team_of(system: rt.ActorSystem, model: rt.Ref[llm.Deployment], folder: Path, name: str) -> rt.Ref[Workflow]:
    """The two agents and what runs their calls; code runs in the folder, and draws without a screen."""
    kernel = rt.PythonKernel(
        approval=False, ipython=False, cwd=str(folder), env={"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(folder / "matplotlib")}
    )
    before, after = rt.action_processor("python.run", code_parameter="code", tool_type=INTERPRETER.tool_type)
    tools = [kernel, Search(DOCUMENTS)]  # code comes first: a broken search is not taken for it
    executor = await system.spawn(rt.ActionExecutor, tools, before=[before], after=[after])
    parts = {
        "researcher": ("charter", "You find facts, and say where they are from.", BROWSER),
        "charter": ("researcher", "You draw charts with matplotlib, save them as PNG files, and print the file's name.", INTERPRETER),
    }
    agents = {
        part: rt.Agent.spec(
            model=model,
            instructions=TOGETHER.format(name=part, other=other, task=task, tool=parser.instruction()),
            stop=["\n```\n"],
        )
        for part, (other, task, parser) in parts.items()
    }
    return await system.spawn(Workflow, {**agents, "executor": executor}, name=name)


def folder_for_files() -> Path:
    """Where the chart and the memories go: as given, else a new temporary folder."""
    given = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    folder = Path(given[0] if given else tempfile.mkdtemp(prefix="retinue-chart-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def main() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("this example draws a chart: pip install '.[charts]'")
    folder = folder_for_files()
    async with rt.ActorSystem("planets") as system:
        model = await choose(system)
        team = await team_of(system, model, folder, "team")
        answer = await team.ask(TASK)

        state = await team.ask(rt.GetState())
        for member in ("researcher", "charter"):
            print(f"the {member}:")
            for item in state[f"{member}.memory"]:
                print(f"  {item['sender']}: {item['content'].strip()}".replace("\n", "\n      "))
        print(f"=> {answer.content}")

        pictures = {path.name: struct.unpack(">II", path.read_bytes()[16:24]) for path in folder.glob("*.png")}
        for name, (width, height) in pictures.items():
            print(f"{folder / name}: {width} x {height} pixels")

        file = folder / "state.json"
        file.write_text(json.dumps(state), encoding="utf-8")
        again = await team_of(system, model, folder, "again")
        await again.ask(rt.LoadState(json.loads(file.read_text(encoding="utf-8"))))
        same = await again.ask(rt.GetState()) == state
        print(f"written to {file.name} and loaded by another team: {'the same' if same else 'something else'}")


if __name__ == "__main__":
    rt.run(main)
