"""Ask and tell over HTTP: what reaches an actor, what comes back, and what becomes of it when the client leaves."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import trio

import retinue as rt
from gateway_shop import Greet, Price, Private, call, error_of, open_shop
from retinue.gateway import Gateway


async def test_an_ask_is_answered_under_the_token_and_nothing_wider(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        answer = await shop.ask("Price", item="tea")
        assert (answer.status_code, answer.json()) == (200, {"reply": 3})
        assert (await shop.ask("Greet", name="Eve")).json() == {"reply": "Eve, as ada"}
        refused = await shop.ask("Private")
        error = error_of(refused)
        assert (
            refused.status_code == 403
            and error["type"] == "Denied"
            and error["operation"] == "shop.owner"
            and error["path"] == "/user/shop"
        )
        assert shop.begun == [Price("tea"), Greet("Eve")]
        assert [entry.operation for entry in await shop.system.audit.entries(allowed=False)] == ["shop.owner"]


async def test_a_root_that_is_narrowed_bounds_every_token(tmp_path: Path) -> None:
    async with open_shop(tmp_path, permissions=("shop.**",), system={"permissions": ["shop.read"]}) as shop:
        assert (await shop.ask("Price", item="tea")).status_code == 200
        assert (await shop.ask("Private")).status_code == 403
        assert Private() not in shop.begun


async def test_an_error_that_the_handler_declares_brings_its_text_and_any_other_its_name_alone(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        declared = error_of(await shop.ask("Price", item="milk"))
        assert (declared["type"], declared["raised"], declared["message"]) == ("RemoteError", "SoldOut", "milk comes on Monday")
        other = error_of(await shop.ask("Price", item="sesame"))
        assert other["raised"] == "KeyError" and "sesame" not in other["message"]


NO_MESSAGES = [
    ({}, 422, "WireError"),
    ({"to": "/user/shop"}, 422, "WireError"),
    ({"to": 7, "message": {}}, 422, "WireError"),
    (call("Price"), 422, "WireError"),
    (call("Price", item=3), 422, "WireError"),
    (call("Price", item="tea", more_of="it"), 422, "WireError"),
    (call("Price", more={"extra": 1}, item="tea"), 422, "WireError"),
    (call("Price", more={"timeout": "soon"}, item="tea"), 422, "WireError"),
    (call("Price", more={"timeout": -1}, item="tea"), 422, "WireError"),
    (call("Price", more={"approvals": "one"}, item="tea"), 422, "WireError"),
    (call("Price", more={"approvals": ["x"] * 17}, item="tea"), 422, "WireError"),
    (call("Price", more={"detached": 1}, item="tea"), 422, "WireError"),
    (call("Unheard"), 404, "WireError"),
    (call("Price", "/user/nobody", item="tea"), 404, "GatewayError"),
    (call("Price", "/user", item="tea"), 404, "GatewayError"),
    (call("Price", "/system/approvals", item="tea"), 404, "GatewayError"),
    (call("Price", "/user/shop/", item="tea"), 404, "GatewayError"),
    (call("Price", "/user//shop", item="tea"), 404, "GatewayError"),
    (call("Price", "shop", item="tea"), 404, "GatewayError"),
    (call("Count", to=1), 404, "Unhandled"),
    ({"to": "/user/shop", "message": {"type": "retinue.actors.runtime.watch:Terminated", "body": {}}}, 404, "WireError"),
    ({"to": "/user/shop", "message": ["shop/Price@1"]}, 400, "WireError"),
]


async def test_what_is_no_message_for_the_actor_is_refused_before_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        for body, status, kind in NO_MESSAGES:
            answer = await shop.client.post("/v1/ask", json=body)
            assert (answer.status_code, error_of(answer)["type"]) == (status, kind), body
        assert shop.begun == [] and shop.system.statistics().sent == 0


async def test_an_answer_that_the_wire_cannot_say_is_an_error_that_tells_that_the_request_was_handled(tmp_path: Path) -> None:
    async with open_shop(tmp_path, max_reply=1000, max_body=1000) as shop:
        error = error_of(await shop.ask("Lie"))
        assert error["status"] == 500 and "has handled Lie" in error["message"] and "no number" not in error["message"]
        assert (await shop.ask("Large", size=900)).status_code == 200
        assert "has handled Large" in error_of(await shop.ask("Large", size=1100))["message"]


async def test_a_time_out_is_the_clients_else_the_messages_and_never_longer_than_the_gateways(tmp_path: Path) -> None:
    async with open_shop(tmp_path, request_timeout=0.5) as shop:
        for more, seconds in (({"timeout": 0.05}, 0.05), ({}, 0.2), ({"timeout": 60}, 0.5)):
            begun = trio.current_time()
            error = error_of(await shop.ask("Slow", more=more, seconds=30.0))
            assert (error["status"], error["type"], error["begun"]) == (504, "AskTimeout", True)
            assert seconds <= trio.current_time() - begun < seconds + 15


async def test_a_client_that_leaves_ends_what_it_asked_for_unless_it_is_detached(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        for detached, end in ((False, "cancelled"), (True, "slept")):
            shop.begun.clear()
            shop.done.clear()
            async with httpx.AsyncClient(base_url=shop.url, headers=shop.client.headers) as leaver:
                with trio.move_on_after(5) as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(
                            lambda more={"detached": detached, "timeout": 20}: leaver.post(
                                "/v1/ask", json=call("Slow", more=more, seconds=0.5)
                            )
                        )
                        await shop.until(lambda: shop.begun)
                        nursery.cancel_scope.cancel()
                assert not scope.cancelled_caught
            await shop.until(lambda end=end: shop.done == [end])


async def test_a_tell_is_accepted_or_told_why_not(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        for more in ({}, {"wait": 1}):
            answer = await shop.client.post("/v1/tell", json=call("Note", more=more, text="hello"))
            assert (answer.status_code, answer.json()) == (202, {"accepted": True, "reason": None})
        await shop.until(lambda: len(shop.begun) == 2)
        full = await shop.system.spawn(Full, name="full", mailbox=rt.Mailbox(1))
        full.tell(Greet())
        await shop.until(lambda: shop.system.actors()[-1].state != "ready")
        assert (await shop.client.post("/v1/tell", json=call("Greet", "/user/full"))).status_code == 202
        answer = await shop.client.post("/v1/tell", json=call("Greet", "/user/full"))
        assert (answer.status_code, answer.json()) == (409, {"accepted": False, "reason": "mailbox_full"})
        waited = await shop.client.post("/v1/tell", json=call("Greet", "/user/full", more={"wait": 0.1}))
        assert (waited.status_code, error_of(waited)["type"]) == (409, "MailboxFull")
        await full.stop(grace=0)


class Full(rt.Actor):
    @rt.handler
    async def greet(self, message: Greet) -> str:
        await trio.sleep_forever()
        return ""


async def test_a_token_for_nothing_reaches_not_even_what_asks_for_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        seal = shop.sealer.seal
        nothing = {
            "no pattern": rt.attenuate(shop.token, []),
            "everything denied": rt.attenuate(shop.token, rt.deny("**")),
            "its own denied": rt.attenuate(shop.token, rt.deny("shop.*")),
            "another's": rt.attenuate(shop.token, "mail.send"),
            "little by little": rt.attenuate(rt.attenuate(shop.token, ["shop.read"]), rt.deny("*.read")),
            "minted so": shop.mint("bob"),
            "sealed so": seal(shop.system.authority.mint("bob", ["shop.*"]).narrow("mail.*")),
        }
        for name, token in nothing.items():
            headers = {"Authorization": f"Bearer {token}"}
            for path in ("/v1/ask", "/v1/tell", "/v1/stream"):
                answer = await shop.client.post(path, json=call("Greet"), headers=headers)
                assert (answer.status_code, error_of(answer)["type"]) == (403, "Denied"), (name, path)
            for path in ("/v1/watch?path=/user/shop", "/v1/openapi.json", "/v1/actors", "/v1/approvals"):
                answer = await shop.client.get(path, headers=headers)
                assert answer.status_code == 403, (name, path)
        assert shop.begun == []
        something = {
            "any of its own": rt.attenuate(shop.token, "shop.read"),
            "what only a person lets pass": rt.attenuate(shop.token, rt.needs_approval("**")),
            "what nobody asks for": shop.mint("bob", "mail.send"),
        }
        for name, token in something.items():
            answer = await shop.client.post("/v1/ask", json=call("Greet"), headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 200, name
        assert shop.begun == [Greet()] * len(something)


async def test_open_handlers_can_be_kept_from_the_gateway(tmp_path: Path) -> None:
    async with open_shop(tmp_path, open_handlers=False) as shop:
        assert error_of(await shop.ask("Greet"))["type"] == "Denied"
        assert (await shop.ask("Price", item="tea")).status_code == 200
        assert shop.begun == [Price("tea")]


async def test_a_revoked_token_is_refused_from_the_next_request_on(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        assert (await shop.ask("Price", item="tea")).status_code == 200
        shop.sealer.revoke_token(shop.token)
        error = error_of(await shop.ask("Price", item="tea"))
        assert (error["status"], error["type"], error["reason"]) == (401, "TokenError", "revoked")
        assert len(shop.begun) == 1


async def test_an_actor_that_has_stopped_is_not_found_and_a_system_that_has_closed_takes_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        ref = shop.system.registry.get("/user/shop")
        assert ref is not None
        await ref.stop()
        assert (await shop.ask("Price", item="tea")).status_code == 404
        await shop.system.stop(grace=0)
        assert (await shop.ask("Price", item="tea")).status_code in (401, 404, 503)


async def test_a_gateway_is_not_made_in_a_handler_nor_with_what_it_cannot_use(tmp_path: Path) -> None:
    caught: list[BaseException] = []

    class Maker(rt.Actor):
        @rt.handler
        def make(self, message: Greet) -> str:
            try:
                Gateway(system)
            except rt.RetinueError as error:
                caught.append(error)
            return ""

    async with rt.ActorSystem(data_dir=tmp_path) as system:
        await (await system.spawn(Maker)).ask(Greet())
        assert [type(error) for error in caught] == [rt.Denied]
        for wrong in (
            {"hosts": "localhost"},
            {"hosts": ["a b"]},
            {"origins": ["localhost"]},
            {"rate": 0},
            {"max_body": 1.5},
            {"heartbeat": "15"},
            {"nonsense": 1},
        ):
            with pytest.raises(rt.DefinitionError):
                Gateway(system, **wrong)
        for bind in ("127.0.0.1", "127.0.0.1:x", ":80", "127.0.0.1:70000", "http://127.0.0.1:80"):
            with pytest.raises(rt.DefinitionError, match="host:port"):
                await Gateway(system).serve(bind)
    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match="keys"):
            Gateway(system)
