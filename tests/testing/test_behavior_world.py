"""`BehaviorTest`: regions of virtual actors and services in the world around the actor."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import retinue as rt
import retinue.testing as rtt
from behavior_actors import Bank, Do, Note, Order, Pay, Puppet, played


class Lobby(rt.Actor):
    def __init__(self, sessions: rt.Virtual[Bank]) -> None:
        self.sessions = sessions

    @rt.handler
    async def do(self, message: Do) -> Any:
        value = message.what(self.sessions)
        return await value if hasattr(value, "__await__") else value


# -- regions -----------------------------------------------------------------------------------------------------------------------------------------------


def test_a_region_is_a_constructors_argument() -> None:
    test = rtt.BehaviorTest(Lobby, rtt.StandInRegion("sessions", Bank, active=["eve"]))
    region = test.region("sessions")
    assert test.actor.sessions is region
    assert isinstance(region, rt.Virtual)
    assert copy.deepcopy(region) is region
    ada = region["ada"]
    assert isinstance(ada, rt.VirtualRef)
    assert ada is region.ref("ada")
    assert (ada.key, ada.path, region.path, region["ö/"].path) == (
        "ada",
        "/user/sessions/ada",
        "/user/sessions",
        "/user/sessions/=C3=B6=2F",
    )
    assert (region.alive, ada.alive, ada.active, region.active()) == (True, True, False, ("eve",))
    test.answer(Pay, "paid")
    assert test.ask(Do(lambda sessions: sessions["ada"].ask(Pay(3)))) == "paid"
    assert test.effects[0] == rtt.Asked(ada, Pay(3))
    assert (ada.active, region.active()) == (True, ("eve", "ada"))
    test.tell(Do(lambda sessions: sessions["eve"].tell(Pay(4))))
    assert test.effects == [rtt.Told(region["eve"], Pay(4))]
    assert region.active() == ("ada", "eve")
    with pytest.raises(rt.Unhandled):
        test.tell(Do(lambda sessions: sessions["eve"].tell(Note("x"))))
    for wrong in ("", "x" * 513, 7):
        with pytest.raises(rt.DefinitionError, match="key of a virtual actor"):
            region[wrong]  # type: ignore[index]
    with pytest.raises(rt.DefinitionError, match="give several keys"):
        rtt.StandInRegion("sessions", active="ada")  # type: ignore[arg-type]


def test_a_key_that_is_passivated_or_stopped_is_active_no_longer_and_its_ref_goes_on() -> None:
    test = rtt.BehaviorTest(Lobby, rtt.StandInRegion("sessions", active=("ada", "bob")))
    region = test.region("sessions")
    assert test.ask(Do(lambda sessions: sessions.passivate("ada"))) is True
    assert test.effects[0] == rtt.Passivated(region["ada"])
    assert test.ask(Do(lambda sessions: sessions.passivate("ada"))) is False
    test.tell(Do(lambda sessions: sessions["bob"].stop()))
    assert test.effects == [rtt.Stopped(region["bob"])]
    assert region.active() == ()
    assert test.tell(Do(lambda sessions: sessions["bob"].tell(Note("again")))) == [rtt.Told(region["bob"], Note("again"))]
    guest = test.authority.mint("guest", ["nothing"])
    for deed in (lambda sessions: sessions.passivate("bob"), lambda sessions: sessions.stop()):
        with pytest.raises(rt.Denied, match=r"actor\.stop"):
            test.tell(Do(deed), context=guest)
    assert region.active() == ("bob",)


def test_a_region_that_is_stopped_takes_no_messages() -> None:
    test = rtt.BehaviorTest(Lobby, rtt.StandInRegion("sessions"))
    region = test.region("sessions")
    before = region["ada"]
    test.tell(Do(lambda sessions: sessions.stop()))
    assert [type(effect) for effect in test.effects] == [rtt.Stopped]
    assert not region.alive
    for ref in (before, region["new"]):
        assert not ref.alive
        assert not test.ask(Do(lambda _, ref=ref: bool(ref.tell(Note("x")))))
        with pytest.raises(rt.ActorStopped):
            test.tell(Do(lambda _, ref=ref: ref.ask(Order("tea"))))
    assert "stopped" in repr(region)


def test_a_region_that_the_actor_spawns_is_a_region() -> None:
    async def spawn(actor: Puppet) -> Any:
        return await actor.ctx.spawn_virtual(Bank, name="tills", idle=60, capacity=7)

    region, effects, test = played(spawn)
    assert effects == [rtt.Spawned(Bank)]
    assert effects[0].region is region  # type: ignore[attr-defined]
    assert (region.path, region.idle, region.capacity, region.active()) == (f"{test.own_ref.path}/tills", 60.0, 7, ())
    assert region["ada"].path == f"{region.path}/ada"
    guest = test.authority.mint("guest", ["nothing"])
    assert test.ask(Do(lambda _: region.passivate("ada")), context=guest) is False  # its own
    test.tell(Do(lambda _: region.stop()), context=guest)
    assert not region["ada"].alive
    for wrong, match in (({"idle": 0}, "idle"), ({"capacity": 0}, "capacity")):
        with pytest.raises(rt.DefinitionError, match=match):
            test.ask(Do(lambda actor, wrong=wrong: actor.ctx.spawn_virtual(Bank, **wrong)))


def test_a_virtual_actor_has_its_key_in_its_path() -> None:
    path, _, test = played(lambda actor: actor.ctx.ref.path, key="ada", name="sessions")
    assert path == test.own_ref.path == "/user/sessions/ada"
    ref: Any = test.own_ref
    assert (ref.key, ref.active, ref.alive) == ("ada", True, True)
    assert played(lambda actor: actor.ctx.ref.path, key="a/b")[0] == "/user/Puppet-1/a=2Fb"
    assert test.tell(Do(lambda actor: actor.ctx.ref.tell(Note("self")))) == [rtt.Told(ref, Note("self"))]
    test.tell(Do(lambda actor: actor.ctx.stop()))
    assert not test.running


# -- services ----------------------------------------------------------------------------------------------------------------------------------------------


def test_services_have_the_stand_ins_that_the_test_registers() -> None:
    tills = rt.ServiceKey("tills", Bank)
    test = rtt.BehaviorTest(Puppet)
    one, two = test.ref("one", Bank), test.ref("two", Bank)
    find = Do(lambda actor: actor.ctx.receptionist.find(tills))
    assert test.ask(find) == ()
    test.register(tills, one, "two")
    assert test.ask(find) == (one, two)
    assert test.ask(find, context=test.authority.mint("guest", ["nothing"])) == ()
    assert test.unregister(tills, one)
    assert not test.unregister(tills, one)
    assert test.ask(find) == (two,)
    test.terminate(two)
    assert test.ask(find) == ()
    with pytest.raises(rt.RetinueError, match="Bank"):
        test.register(tills, test.ref("anybody"))


def test_who_follows_a_service_handles_its_listings() -> None:
    tills = rt.ServiceKey("tills", Bank)

    class Follower(rt.Actor):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def on_start(self) -> None:
            self.ctx.receptionist.subscribe(tills)

        @rt.handler
        def note(self, message: Note) -> None: ...

        @rt.handler
        def listing(self, message: rt.Listing) -> None:
            self.seen.append(message.refs)

    test = rtt.BehaviorTest(Follower)
    test.tell(Note("begin"))
    till = test.ref("till", Bank)
    test.register(tills, till)
    test.unregister(tills, till)
    assert test.actor.seen == [(), (till,), ()]
    test.register(tills, till)
    test.terminate(till)
    assert test.actor.seen[3:] == [(till,), ()]
    assert test.history == []
