"""A customer service of agents: a conversation is handed from one to the next, and no money leaves the house without a person.

Shows: a swarm, in which one agent at a time has the conversation and keeps it; a refund that waits for yes or no at the terminal, two
handoffs deep; members that are narrowed to what they need, whatever a customer talks them into; a guard that ends a conversation which is
only handed about; the whole of it recorded, to be looked at afterwards.
Run:   python examples/customer_service_swarm.py [FOLDER]    (a script stands in for the models; the record goes to a new temporary folder)
       python examples/customer_service_swarm.py --yes       (nobody is asked: the refund is approved)
       python examples/customer_service_swarm.py --live      (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import retinue as rt
from retinue import llm
from retinue.sync import ActorSystem, Ref

ORDERS = {17: "order 17: a lamp, 20 euros, charged twice on 28 November"}

SCRIPTS = {  # what each member's model says, from request to request
    "triage": [
        llm.tool_calls(("transfer_to_billing", {"reason": "a return"})),
        llm.tool_calls(("transfer_to_billing", {"reason": "an order"})),
    ],
    "billing": [
        *[llm.tool_calls(("transfer_to_refunds", {"reason": "money back"}))] * 3,
        llm.tool_calls(("look_up", {"order": 17})),
        "For your lamp: 20 euros, twice.",
        llm.tool_calls(("refund", {"order": 17, "euros": 5_020})),  # it was talked into that, but this tool is not billing's to use
        llm.tool_calls(("transfer_to_refunds", {"reason": "charged twice"})),
    ],
    "refunds": [
        *[llm.tool_calls(("transfer_to_billing", {"reason": "was it ever paid?"}))] * 2,
        llm.tool_calls(("refund", {"order": 17, "euros": 20})),
        lambda request: f"About your 20 euros: {request.messages[-1].content}.",
    ],
}


def look_up(order: int) -> str:
    """Look an order up.

    Args:
        order: Its number.
    """
    return ORDERS.get(order, f"there is no order {order}")


@rt.tool(approval=True, risk="L2")
def refund(order: int, euros: int) -> str:
    """Give money back.

    Args:
        order: The number of the order.
        euros: How much, in euros.
    """
    return f"{euros} euros for order {order} are on their way"


def choose(system: ActorSystem) -> dict[str, Any]:
    """The model of each member: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return {name: system.spawn(llm.Scripted, script, name=f"model-of-{name}") for name, script in SCRIPTS.items()}
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return dict.fromkeys(SCRIPTS, choice)


def open_desk(system: ActorSystem) -> Ref[rt.Swarm]:
    """The swarm: its members' names and descriptions are all that is declared of who can hand over to whom."""
    models, tools = choose(system), [look_up, refund]  # all are given the same tools, and may use what they are granted
    return system.spawn(
        rt.Swarm,
        {
            "triage": rt.Agent.spec(
                model=models["triage"], instructions="Find out what it is about, and hand over.", description="Knows who does what."
            ),
            "billing": rt.Agent.spec(
                model=models["billing"], tools=tools, description="Knows all about orders.", grant=["model.complete", "tool.look_up"]
            ),
            "refunds": rt.Agent.spec(
                model=models["refunds"], tools=tools, description="Gives money back.", grant=["model.complete", "tool.refund"]
            ),
        },
        start="triage",
        guards=rt.HandoffGuards(window=6, seconds=600),  # of six members in a row three are different; a run ends within ten minutes
        name="desk",
    )


def decide(system: ActorSystem, request: rt.ApprovalRequest) -> None:
    """Ask whoever sits at the terminal about one refund."""
    print(f"  {request.operation} needs a person:", *(line.strip() for line in request.shown()[-2:]))
    if "--yes" in sys.argv[1:]:
        said = "yes"
    else:
        print("  yes, or anything else to refuse, which the model is told> ", end="", flush=True)
        said = sys.stdin.readline().strip()  # nothing where there is no terminal: nobody has consented
        print()
    if said == "yes":
        system.approvals.approve(request.id, reviewer="carol")
    else:
        system.approvals.reject(request.id, reviewer="carol", note=said)


def talk(system: ActorSystem, desk: Ref[rt.Swarm], customer: str, text: str) -> None:
    """Tell what becomes of one message of a customer's."""
    print(f"{customer}: {text}")
    mine = system.authority.mint(customer, ["model.complete", "tool.*"])
    message: rt.AgentMessage | rt.Resume = rt.AgentMessage(text)
    while True:
        try:
            with desk.stream(message, context=mine) as events:
                for told in events:
                    show(told)
            return
        except rt.ApprovalRequired as waiting:
            for request in waiting.requests:
                decide(system, request)
            message = rt.Resume(waiting)  # goes on with the member that waited; nobody is asked twice
        except rt.HandoffLimit as guard:
            print(f"  stopped by the guard {guard.limit!r}: {' > '.join(guard.way)}")
            return


def show(told: rt.AgentEvent) -> None:
    """Print what somebody does; what each member says comes in an envelope with its name."""
    path, event = rt.innermost(told)
    match event:
        case rt.HandedOff(source, target, reason):
            print(f"  [{source} hands over to {target}: {reason}]")
        case rt.ToolFinished(_, name, ok, text) if not name.startswith("transfer_to_"):
            print(f"  [{'/'.join(path)} {'uses' if ok else 'may not use' if 'not permitted' in text else 'cannot use'} {name}: {text}]")
        case rt.RunEnd(message) if not path:  # the swarm's own end
            print(f"{message.sender}: {message.content}")


def main() -> None:
    given = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    folder = Path(given[0] if given else tempfile.mkdtemp(prefix="retinue-desk-"))
    with ActorSystem("shop", data_dir=folder, tracing=rt.Tracing(contents=True)) as system:
        desk = open_desk(system)
        talk(system, desk, "bob", "I want to return a lamp that I never bought.")
        talk(system, desk, "ada", "What did you charge me for order 17?")
        talk(system, desk, "ada", "Twice?! I want 20 euros back, and 5000 for my trouble.")  # billing has the conversation still
    print(f"the last of that as a tree: retinue show last --data-dir {folder}")


if __name__ == "__main__":
    main()
