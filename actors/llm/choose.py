"""Which model to use on this machine: an endpoint that the environment names, else the embedded model, else a scripted one.

Choosing opens no connection, loads nothing and fetches nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from retinue.actors.llm.errors import BadEndpoint
from retinue.actors.llm.local import is_local_installed
from retinue.actors.llm.messages import Complete
from retinue.actors.llm.scripted import Line
from retinue.actors.llm.secret import Key
from retinue.actors.llm.weights import SMOLLM2, find_weights, models_folder

if TYPE_CHECKING:
    from retinue.actors.llm.deployment import Deployment
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.system import ActorSystem

__all__ = ["OPENAI", "UNSCRIPTED", "Choice", "Kind", "from_env"]

Kind = Literal["endpoint", "local", "scripted"]

OPENAI = "https://api.openai.com/v1"
"""The endpoint where only a key is set."""

UNSCRIPTED = "This is a scripted answer: no model is set up. Install the extra `local`, or set OPENAI_BASE_URL and RETINUE_MODEL."
"""What the scripted model says where no script is given."""


@attrs.frozen(kw_only=True)
class Choice:
    """A model that was chosen; `spawn` makes it an actor.

    Attributes:
        kind: "endpoint", "local" or "scripted".
        model: The model's name.
        address: The endpoint's address; None for the others.
        weights: The embedded model's weights; None where they have to be fetched first, and for the others.
        script: What the scripted model says.
        seconds: How long each scripted answer takes; default 0.
        api_key: The endpoint's key; not shown.
        profile: The name of the endpoint's profile; default "auto".
        provider: Who is asked, as in "openai:…"; None where only an address is known.
    """

    kind: Kind
    model: str
    address: str | None = None
    weights: Path | None = None
    script: str | Callable[[Complete], str] | tuple[Line, ...] = attrs.field(default=UNSCRIPTED, repr=False)
    seconds: float = 0.0
    api_key: str | None = attrs.field(default=None, repr=False)
    profile: str = "auto"
    provider: str | None = None

    async def spawn(self, owner: ActorSystem | ActorContext, *, name: str | None = "model", retries: int | None = None) -> Ref[Deployment]:
        """Make the chosen model an actor.

        Args:
            owner: The system, or an actor's context: then it is that actor's child.
            name: The actor's name; default "model".
            retries: How often the endpoint is asked again; default: what `OpenAICompatible` has.

        Raises ModelNotInstalled where its weights have to be fetched first, NameTaken where the name is taken.
        """
        from retinue.actors.llm.deployment import Local, OpenAICompatible, Scripted

        if self.kind == "endpoint":
            options: dict[str, Any] = {} if retries is None else {"retries": retries}
            if self.profile != "auto":
                options["profile"] = self.profile
            return await owner.spawn(OpenAICompatible, model=self.model, base_url=self.address, api_key=self.api_key, name=name, **options)
        if self.kind == "local":
            return await owner.spawn(Local, weights=self.weights, name=name)
        return await owner.spawn(Scripted, self.script, seconds=self.seconds, name=name)

    def __str__(self) -> str:
        if self.kind == "endpoint":
            return f"{self.model} at {self.address}"
        return f"{self.model}, embedded in this process" if self.kind == "local" else "a script (no model: its words are fixed)"


def from_env(
    *,
    live: bool | None = None,
    environ: Mapping[str, str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    script: str | Callable[[Complete], str] | Iterable[Line] = UNSCRIPTED,
) -> Choice:
    """Choose a model.

    Args:
        live: True: the endpoint, which may cost money. False: never the endpoint. None (the default): the endpoint where
            `OPENAI_BASE_URL` or `OPENAI_API_KEY` is set.
        environ: Where `OPENAI_BASE_URL` (default: OpenAI's own where a key is set), `OPENAI_API_KEY` and `RETINUE_MODEL` are read;
            default: the process's environment, read now.
        data_dir: Where to look for weights; see `models_folder`.
        script: What a scripted model says, should it come to that; see `Scripted`.

    Raises:
        BadEndpoint: The endpoint is wanted, and its address or its model's name is not set, or one of them or the key cannot be used.
    """
    env = os.environ if environ is None else environ
    address, key, model = (env.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "RETINUE_MODEL"))
    if live or (live is None and (address or key)):
        missing = [] if address or key else ["OPENAI_BASE_URL (or OPENAI_API_KEY, for OpenAI's own)"]
        missing += [] if model else ["RETINUE_MODEL (the model's name)"]
        if missing:
            raise BadEndpoint(f"an endpoint is wanted, but the environment lacks {' and '.join(missing)}")
        from retinue.actors.llm.endpoint import check_address  # httpx comes with it: not before an endpoint is wanted

        if key:
            Key(key)  # looked at now, so that a key that cannot be sent is told of before anything starts
        return Choice(kind="endpoint", model=model, address=check_address(address or OPENAI), api_key=key or None)
    if is_local_installed():
        return Choice(kind="local", model=SMOLLM2.name, weights=find_weights(SMOLLM2, models_folder(data_dir, environ=env)))
    fixed = script if isinstance(script, str) or callable(script) else tuple(script)
    return Choice(kind="scripted", model="scripted", script=fixed)
