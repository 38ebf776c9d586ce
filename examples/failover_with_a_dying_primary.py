"""A model's server is killed in the middle of its answer, and the agent's answer comes whole from another one.

Shows: two endpoints behind one ref; a process that dies while it speaks; how the members stand afterwards. (A *stream* of which a piece was
seen is not begun anew elsewhere: it ends with `llm.ModelInterrupted`, which holds what was said.)
Run:   python examples/failover_with_a_dying_primary.py           (two servers of its own on the loopback interface)
       python examples/failover_with_a_dying_primary.py --live    (the second is the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and
                                                                   RETINUE_MODEL name; it may cost money)
"""

import json
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trio

import retinue as rt
from retinue import llm


def serve(dies: bool) -> None:
    """A process of its own: a server that answers word by word, or says one word and then hangs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for word in ("The ", "pages ", "do."):
                self.wfile.write(event({"content": word}))
                if dies:
                    print("speaking", flush=True)  # now it is killed
                    time.sleep(60)
            self.wfile.write(event({}, "stop") + b"data: [DONE]\n\n")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


class Server:
    """One of the two processes."""

    def __init__(self, kind: str) -> None:
        self.process = subprocess.Popen([sys.executable, __file__, kind], stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.line()}/v1"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        with self.process:  # waits for its end, and closes its pipe
            self.process.kill()


async def kill_in_the_middle(primary: Server) -> None:
    print("the primary is", await trio.to_thread.run_sync(primary.line), "and is killed")
    primary.kill()


async def main() -> None:
    primary, backup = Server("dying"), Server("healthy")
    try:
        async with rt.ActorSystem("court") as system, trio.open_nursery() as nursery:
            first = await system.spawn(llm.OpenAICompatible, model="m", base_url=primary.url, retries=0, name="primary")
            if "--live" in sys.argv[1:]:
                choice = llm.from_env(live=True)
                print(f"the backup is {choice}; this may cost money")
                second = await choice.spawn(system, name="backup", retries=0)
            else:
                second = await system.spawn(llm.OpenAICompatible, model="m", base_url=backup.url, retries=0, name="backup")
            model = await system.spawn(llm.Failover, [first, second], cooldown=30, name="model")  # 30 s
            agent = await system.spawn(rt.Agent, model=model, name="agent")

            nursery.start_soon(kill_in_the_middle, primary)
            for question in ("Who carries the queen's train?", "And in the rain?"):
                print((await agent.ask(question)).content)
            for member in await model.ask(llm.GetMembers()):
                print(f"{member.path}: {member.state}, asked {member.asked}, last error {member.error}")
    finally:
        primary.kill()
        backup.kill()


if __name__ == "__main__":
    if sys.argv[1:2] in (["dying"], ["healthy"]):
        serve(dies=sys.argv[1] == "dying")
    else:
        rt.run(main)
