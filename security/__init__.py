"""Floor 1: who may do what. Operations, permissions, security contexts, and the root of the error tree; knows nothing of actors."""

from __future__ import annotations

from retinue.security.authority import Authority, AuthorityStatistics
from retinue.security.context import Principal, SecurityContext
from retinue.security.errors import (
    ApprovalRequired,
    AuthorityError,
    DefinitionError,
    Denied,
    ForgedContext,
    NoContext,
    PatternError,
    RetinueError,
)
from retinue.security.operations import Pattern, check_operation
from retinue.security.permissions import Layer, PermissionSet, Restriction, allow, deny

__all__ = [
    "ApprovalRequired",
    "Authority",
    "AuthorityError",
    "AuthorityStatistics",
    "DefinitionError",
    "Denied",
    "ForgedContext",
    "Layer",
    "NoContext",
    "Pattern",
    "PatternError",
    "PermissionSet",
    "Principal",
    "Restriction",
    "RetinueError",
    "SecurityContext",
    "allow",
    "check_operation",
    "deny",
]
