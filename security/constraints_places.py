"""Constraints on places: paths within folders, and URLs of permitted hosts. What a place is, `paths` and `hosts` say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import ClassVar, Final, Self, final

import attrs

from retinue.security.constraints_base import MAX_ITEMS, Constraint, Parse
from retinue.security.constraints_scalars import list_text, shown, type_name
from retinue.security.errors import ConstraintError, GuardRefused
from retinue.security.hosts import DEFAULT_PORTS, HostPattern, split_url
from retinue.security.paths import check_folder, check_path, lies_within
from retinue.security.sources import Source

__all__ = ["DEFAULT_PORT_LIST", "DEFAULT_SCHEMES", "Host", "Within"]

DEFAULT_SCHEMES = ("https",)
"""The schemes of `host()`."""

DEFAULT_PORT_LIST = (443,)
"""The ports of `host()`."""


_PATHS: Final = frozenset({PurePosixPath, PosixPath, PureWindowsPath, WindowsPath})
"""Those very classes; what was derived from them may say anything. A Windows path's text holds backslashes, which no folder has."""


def _listed(values: object, what: str, example: str) -> tuple[object, ...]:
    if type(values) is not tuple or not values:
        raise ConstraintError(f"{what} may not be an empty list. Write, for example, {example}.")
    if len(values) > MAX_ITEMS:
        raise ConstraintError(f"{what} has {len(values)} entries, more than {MAX_ITEMS}. Use fewer.")
    return values


def _folders(values: object) -> tuple[str, ...]:
    folders = set()
    for folder in _listed(values, "within()", "within('reports/')"):
        try:
            parts = check_folder(folder)  # type: ignore[arg-type]
        except GuardRefused as error:
            raise ConstraintError(f"within() takes folders: {error}") from None
        folders.add("/".join((*parts, "")) if parts[0] != "/" else "/".join(("", *parts[1:], "")))
    return tuple(sorted(folders))


@final
@attrs.frozen(repr=False, cache_hash=True)
class Within(Constraint):
    """`within`: a path beneath one of the folders."""

    kind: ClassVar[str] = "within"
    keys: ClassVar[frozenset[str]] = frozenset({"folders"})

    folders: tuple[str, ...] = attrs.field(converter=_folders)  # each with its closing slash
    _parts: tuple[tuple[str, ...], ...] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # attrs' own way to set what is derived on a frozen class.
        object.__setattr__(self, "_parts", tuple(map(check_folder, self.folders)))

    def _holds(self, value: object, _sources: Mapping[str, Source], /) -> bool:
        if type(value) in _PATHS:  # its text says all of it: a path has no state of its own
            value = str(value)
        if type(value) is not str:
            return False
        segments = check_path(value)
        for folder in self._parts:  # noqa: SIM110 - a generator would cost more than the comparison
            if lies_within(segments, folder):
                return True
        return False

    def _text(self) -> str:
        return f"within({list_text(map(shown, self.folders))})"

    def _fields(self) -> dict[str, object]:
        return {"folders": list(self.folders)}

    @classmethod
    def _read(cls, data: Mapping[str, object], _parse: Parse, /) -> Self:
        folders = data["folders"]
        if type(folders) is not list:
            raise ConstraintError(f"the folders of within are a list, not this {type_name(folders)}.")
        return cls(tuple(folders))


def _names(values: object) -> tuple[str, ...]:
    names = set()
    for name in _listed(values, "host()", "host('api.example.com')"):
        try:
            names.add(HostPattern(name).text)
        except GuardRefused as error:
            raise ConstraintError(f"host() takes names of hosts: {error}") from None
    return tuple(sorted(names))


def _schemes(values: object) -> tuple[str, ...]:
    schemes = set()
    for scheme in _listed(values, "the list of schemes of host()", "schemes=('https',)"):
        if type(scheme) is not str or scheme not in DEFAULT_PORTS:
            raise ConstraintError(
                f"a scheme of host() is one of {', '.join(sorted(DEFAULT_PORTS))}, in lower case. Write, for example, schemes=('https',)."
            )
        schemes.add(scheme)
    return tuple(sorted(schemes))


def _ports(values: object) -> tuple[int, ...]:
    ports = set()
    for port in _listed(values, "the list of ports of host()", "ports=(443,)"):
        if type(port) is not int or not 1 <= port <= 65535:
            raise ConstraintError("a port of host() is a whole number from 1 to 65535. Write, for example, ports=(443,).")
        ports.add(port)
    return tuple(sorted(ports))


@final
@attrs.frozen(repr=False, cache_hash=True)
class Host(Constraint):
    """`host`: a URL whose host, scheme and port are all among those listed."""

    kind: ClassVar[str] = "host"
    keys: ClassVar[frozenset[str]] = frozenset({"names", "schemes", "ports"})

    names: tuple[str, ...] = attrs.field(converter=_names)
    schemes: tuple[str, ...] = attrs.field(default=DEFAULT_SCHEMES, converter=_schemes)
    ports: tuple[int, ...] = attrs.field(default=DEFAULT_PORT_LIST, converter=_ports)
    _patterns: tuple[HostPattern, ...] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # attrs' own way to set what is derived on a frozen class.
        object.__setattr__(self, "_patterns", tuple(map(HostPattern, self.names)))

    def _holds(self, value: object, _sources: Mapping[str, Source], /) -> bool:
        if type(value) is not str:
            return False
        url = split_url(value)
        return url.scheme in self.schemes and url.port in self.ports and any(pattern.matches(url.host) for pattern in self._patterns)

    def _text(self) -> str:
        parts = [list_text(map(shown, self.names))]
        if self.schemes != DEFAULT_SCHEMES:
            parts.append(f"schemes={self.schemes!r}")
        if self.ports != DEFAULT_PORT_LIST:
            # Written out by hand: one port makes a tuple too, and a long list is cut.
            parts.append(f"ports=({list_text(map(str, self.ports))}{',' if len(self.ports) == 1 else ''})")
        return f"host({', '.join(parts)})"

    def _fields(self) -> dict[str, object]:
        return {"names": list(self.names), "schemes": list(self.schemes), "ports": list(self.ports)}

    @classmethod
    def _read(cls, data: Mapping[str, object], _parse: Parse, /) -> Self:
        names, schemes, ports = data["names"], data["schemes"], data["ports"]
        if type(names) is not list or type(schemes) is not list or type(ports) is not list:
            raise ConstraintError("the names, schemes and ports of host are lists.")
        return cls(tuple(names), tuple(schemes), tuple(ports))
