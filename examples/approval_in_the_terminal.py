"""A tool that needs a person: the run waits, the person at the terminal decides, and it goes on exactly there.

Shows: `approval=True`; a run that is parked, with all that it asks for; yes, no, and no with a reason, which the model is told; `Resume`.
Run:   python examples/approval_in_the_terminal.py           (a script stands in for the model)
       python examples/approval_in_the_terminal.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys

import retinue as rt
from retinue import llm
from retinue.sync import ActorSystem, Ref


@rt.tool(approval=True, risk="L2")
def send_email(to: str, text: str) -> str:
    """Sends an e-mail.

    Args:
        to: Recipient.
        text: What to say.
    """
    print(f"  (an e-mail goes out to {to}: {text})")
    return f"sent to {to}"


def report(request: llm.Complete) -> str:
    """The end of the script: say what became of the calls."""
    return "This is what happened: " + "; ".join(message.content for message in request.messages if message.role == "tool")


SCRIPT = [
    llm.tool_calls(
        ("send_email", {"to": "bob@corp.example", "text": "The meeting is at ten."}),
        ("send_email", {"to": "all@corp.example", "text": "The meeting is at ten."}),
    ),
    report,
]


def decide(system: ActorSystem, request: rt.ApprovalRequest) -> None:
    """Ask whoever sits at the terminal about one call."""
    print(f"{request.operation} needs your consent:", *request.shown()[-2:], sep="\n")
    print("yes, or anything else to refuse, which the model is told> ", end="", flush=True)
    said = sys.stdin.readline().strip()  # nothing where there is no terminal: nobody has consented
    print()
    if said == "yes":
        system.approvals.approve(request.id, reviewer="you")
    else:
        system.approvals.reject(request.id, reviewer="you", note=said)


def talk(system: ActorSystem, agent: Ref[rt.Agent], text: str) -> str:
    """Say something to the agent; ask the person as often as the run needs it."""
    message: rt.AgentMessage | rt.Resume = rt.AgentMessage(text)
    while True:
        try:
            return agent.ask(message).text
        except rt.ApprovalRequired as waiting:
            for request in waiting.requests:
                decide(system, request)
            message = rt.Resume(waiting)  # the session looks by itself for what was decided about its requests


def main() -> None:
    with ActorSystem("office") as system:
        model: llm.Choice | Ref[llm.Scripted]
        if "--live" in sys.argv[1:]:
            model = llm.from_env(live=True)
            print(f"asking {model}; this may cost money")
        else:
            model = system.spawn(llm.Scripted, SCRIPT, name="model")
        agent = system.spawn(rt.Agent, model=model, tools=[send_email], name="agent")
        print(talk(system, agent, "Tell Bob, and everybody, that the meeting is at ten."))


if __name__ == "__main__":
    main()
