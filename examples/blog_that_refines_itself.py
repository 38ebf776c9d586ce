"""A blog that refines itself: a writer and a critic, four drafts and three critiques, on five topics at the same time. (Lagent's second example.)

Shows: a team whose members share one model; a session for each topic, none of which knows of the others; a hook that puts words before what
the critic is told by the writer, and before nothing else; the members' memories by key path.
Run:   python examples/blog_that_refines_itself.py           (a script stands in for the model)
       python examples/blog_that_refines_itself.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys

import attrs
import trio

import retinue as rt
from retinue import llm

TOPICS = ["bees", "tides", "rust", "sourdough", "chess"]
CRITIQUES = 3
PREFIX = "Reflect on the following and criticise it:\n"
WRITER = "You write short posts for a blog. When you are told what is wrong with a post, write it anew."
CRITIC = "You criticise posts for a blog: say what is missing."


class Refining(rt.Team):
    """Drafts and critiques by turns; the last word is the writer's."""

    async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
        message = run.message
        for _ in range(CRITIQUES):
            draft = await run.ask("writer", message)
            message = await run.ask("critic", draft)
        return await run.ask("writer", message)


@rt.hook("before_run")
def reflect(context: rt.HookContext) -> object:
    """Puts words before what the writer says, and leaves alone what others say."""
    told = context.payload
    return rt.Replace(attrs.evolve(told, content=PREFIX + told.content)) if told.sender == "writer" else rt.Continue()


def script(request: llm.Complete) -> str:
    """What a model would write. It knows the topic from its conversation alone, so that a mix-up would be seen."""
    told = [entry.content for entry in request.messages if entry.role == "user"]
    topics = {topic for topic in TOPICS if any(topic in text for text in told)}
    if request.messages[0].content == CRITIC:
        return f"A post about {', '.join(topics)} needs example {len(told)}."
    return f"Draft {len(told)} about {', '.join(topics)}. Examples: {len(told) - 1}."


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, script, seconds=0.01, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def main() -> None:
    async with rt.ActorSystem("blog") as system:
        model = await choose(system)
        writer = rt.Agent.spec(model=model, instructions=WRITER, description="writes drafts")
        critic = rt.Agent.spec(model=model, instructions=CRITIC, hooks=[reflect], description="criticises drafts")
        blog = await system.spawn(Refining, {"writer": writer, "critic": critic}, name="blog")

        async def refine(topic: str, session: str) -> None:
            posts[topic] = (await blog.ask(rt.AgentMessage(f"A post about {topic}.", session=session))).content

        posts: dict[str, str] = {}
        async with trio.open_nursery() as nursery:
            for number, topic in enumerate(TOPICS):
                nursery.start_soon(refine, topic, str(number))
        for topic in TOPICS:
            print(f"{topic}: {posts[topic]}")

        for number, topic in enumerate(TOPICS):
            state = await blog.ask(rt.GetState(session=str(number)))
            said = {name: state[f"{name}.memory"] for name in ("writer", "critic")}
            # Four drafts and what each was an answer to; three critiques and their drafts.
            assert [len(items) for items in said.values()] == [8, 6]
            others = [other for other in TOPICS if other != topic]
            if "--live" not in sys.argv[1:]:
                assert not any(other in item["content"] for items in said.values() for item in items for other in others)
            if number == 0:
                for name, items in said.items():
                    print(f"\nwhat the {name} remembers of session {number}:")
                    for item in items:
                        print(f"  {item['sender']}: {item['content']}".replace("\n", "\n    "))


if __name__ == "__main__":
    rt.run(main)
