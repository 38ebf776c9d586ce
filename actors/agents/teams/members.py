"""Who is in a team: members by name, and the messages by which they are looked at and changed while the team works."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import attrs

from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.specs import AgentSpec, can_be_sent
from retinue.actors.runtime.ref import Ref
from retinue.mailbox.messages import Request, message
from retinue.security.errors import DefinitionError
from retinue.security.spelling import names_the_nearest

__all__ = [
    "MAX_MEMBERS",
    "AddMember",
    "EditMember",
    "GetMembers",
    "Member",
    "Members",
    "PauseMember",
    "RemoveMember",
    "UnpauseMember",
    "checked_name",
    "checked_single",
    "near",
    "read_members",
]

MAX_NAME: Final = 64
"""Characters of a member's name."""

MAX_MEMBERS: Final = 1_000

TIMEOUT: Final = 60.0
"""Seconds that a change of the members may take: a new one starts in that time."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_@:+-]*")


@names_the_nearest
@attrs.frozen
class Member:
    """A member of a team. Given in `members=`, it says what a ref is good for: `rt.Member("refunds", ref, "gives money back")`.

    Attributes:
        name: Its name in the team.
        ref: Whom the team asks; in `members=` also an `AgentSpec`, which the team spawns.
        description: What it is good for.
        paused: Whether it gets no new work.
    """

    name: str
    ref: Any
    description: str = ""
    paused: bool = False

    def __attrs_post_init__(self) -> None:
        checked_name(self.name)
        if not isinstance(self.description, str):
            raise DefinitionError(f"Member({self.name!r}, description=…) is a {type(self.description).__name__}: give a text")

    def __with_refs__(self, unwrap: Any) -> Member:
        """For the twins of a system."""
        ref = unwrap(self.ref)
        return self if ref is self.ref else attrs.evolve(self, ref=ref)


Given: TypeAlias = "Ref[Any] | AgentSpec | Member"

Members: TypeAlias = "Mapping[str, Given] | Iterable[Given | tuple[str, Given]]"
"""What `members=` takes: refs and specs by name; or a list of them, then their names are "0", "1" …, where they are not given as `(name, member)` or as a `Member`."""


def checked_name(name: object, what: str = "a member") -> str:
    """A member's name. Raises DefinitionError for what is none."""
    if not isinstance(name, str):
        raise DefinitionError(f"the name of {what} is a {type(name).__name__}: give a str")
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        why = ", and no dot: key paths such as 'writer.memory' are made of names" if "." in name else ""
        raise DefinitionError(
            f"{name[:100]!r} is no name of {what}: 1 to {MAX_NAME} letters, digits and _ @ : + - are, a letter, a digit or _ first{why}"
        )
    return name


def read_members(given: Any, kind: str) -> tuple[Member, ...]:
    """The members that a team is made with, in their order; those that it is to spawn have a spec for their ref.

    Args:
        given: See `Members`.
        kind: The team's class, for texts.

    Raises:
        DefinitionError: It is none of what can be a member, or two have the same name.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DefinitionError(
            f'{kind}(members=…) is a {type(given).__name__}: give them by name, {{"writer": writer, "critic": critic}}, or as a list'
        )
    if isinstance(given, set | frozenset):
        raise DefinitionError(
            f"{kind}(members=…) is a {type(given).__name__}, which has no order: give a list, [writer, critic], or a dict by name"
        )
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, Mapping):
        pairs.extend(given.items())
    else:
        for number, one in enumerate(given):
            if isinstance(one, Member):
                pairs.append((one.name, one))
            elif isinstance(one, tuple) and len(one) == 2:
                pairs.append((one[0], one[1]))
            else:
                pairs.append((str(number), one))
    if len(pairs) > MAX_MEMBERS:
        raise DefinitionError(f"{kind}(members=…) are {len(pairs):,}: a team has {MAX_MEMBERS:,} at most")
    found: dict[str, Member] = {}
    for name, one in pairs:
        checked_name(name, f"a member of {kind}")
        if name in found:
            raise DefinitionError(f"{kind}(members=…): two are named {name!r}. Names tell members apart: give one another")
        found[name] = member_of(name, one, kind)
    return tuple(found.values())


def member_of(name: str, given: object, kind: str, description: str = "") -> Member:
    """One member. Raises DefinitionError for what cannot be one."""
    if isinstance(given, Member):
        if given.name != name:
            raise DefinitionError(
                f"{kind}(members=…): {name!r} is given a Member of the name {given.name!r}: leave one of the names out, or write the same"
            )
        member_of(name, given.ref, kind)
        return given
    if isinstance(given, AgentSpec):
        return Member(name, given, description or given.description)
    if isinstance(given, Ref):
        if not can_be_sent(given, AgentMessage):
            raise DefinitionError(
                f"{kind}(members=…): {name!r} is the ref of {given.path} ({given._cell.spec.cls.__qualname__}), which takes no rt.AgentMessage: give an agent's or a team's, or "
                "let that actor have a handler for it"
            )
        return Member(name, given, description)
    if isinstance(given, type):
        fix = f"{given.__name__}.spec(…)" if hasattr(given, "spec") else "a class with a spec, rt.Agent.spec(…)"
        raise DefinitionError(f"{kind}(members=…): {name!r} is the class {given.__name__}: give {fix}, or the ref that spawn returned")
    raise DefinitionError(
        f"{kind}(members=…): {name!r} is a {type(given).__name__}: give a ref that spawn returned, or a spec, rt.Agent.spec(model=…), for the team to spawn"
    )


def checked_single(given: object, kind: str, option: str) -> None:
    """Looks at what one option gives as a member. Raises DefinitionError, for what can be none, in words of that option."""
    try:
        member_of(option, given, kind)
    except DefinitionError as error:
        text = str(error).replace(f"{kind}(members=…): {option!r} is", f"{kind}({option}=…) is", 1)
        raise DefinitionError(text) from None


def near(name: object, known: Iterable[str]) -> str:
    """What to say of a name that there is not: the nearest, or all."""
    names = list(known)
    found = get_close_matches(str(name)[:MAX_NAME], names, n=1)
    if found:
        return f"; did you mean {found[0]!r}?"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"; there is {', '.join(map(repr, names[:20]))}{more}" if names else "; there are none"


@names_the_nearest
@message(timeout=TIMEOUT)
class AddMember(Request[None]):
    """A new member, the last in order. Needs `agents.manage`, as the other changes do.

    Attributes:
        name: Its name, which none has yet.
        member: A ref, or a spec, which the team spawns: then it works within the authority of whoever adds it.
        description: What it is good for; default: the spec's.
    """

    name: str
    member: Any
    description: str = ""


@names_the_nearest
@message(timeout=TIMEOUT)
class EditMember(Request[None]):
    """Changes a member. What it is doing goes on as it was; the next that it is asked finds it changed, with the same memory.

    Attributes:
        name: The member.
        description: Its new description; None: as it was.
        options: Options of its spec that change, `{"instructions": "…"}`; only for agents that the team has spawned. None: as they were.
    """

    name: str
    description: str | None = None
    options: Mapping[str, Any] | None = None


@message(name="retinue/PauseMember@1", timeout=TIMEOUT)
class PauseMember(Request[None]):
    """The member gets no new work; what it is doing goes on. Paused already, it stays so."""

    name: str


@message(name="retinue/UnpauseMember@1", timeout=TIMEOUT)
class UnpauseMember(Request[None]):
    """The member gets work again."""

    name: str


@message(name="retinue/RemoveMember@1", timeout=TIMEOUT)
class RemoveMember(Request[None]):
    """The member is one no more; what it is doing goes on. One that the team has spawned is stopped after that, and its memory is gone with it."""

    name: str


@message
class GetMembers(Request[tuple[Member, ...]]):
    """Who is in the team, in order."""
