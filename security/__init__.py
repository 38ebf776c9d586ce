"""Floor 1: who may do what. Operations, permissions, security contexts, and the root of the error tree; knows nothing of actors."""

from __future__ import annotations

from retinue.security.authority import Authority, AuthorityStatistics
from retinue.security.context import Principal, SecurityContext
from retinue.security.errors import (
    ApprovalRequired,
    AuthorityError,
    ConstraintError,
    DefinitionError,
    Denied,
    Expired,
    ForgedContext,
    NoContext,
    PatternError,
    RetinueError,
    Revoked,
)
from retinue.security.layers import Layer
from retinue.security.limits import Limits
from retinue.security.operations import Pattern, check_operation
from retinue.security.permission_data import restrictions_from_data
from retinue.security.permissions import PermissionSet
from retinue.security.restrictions import (
    Restriction,
    allow,
    deny,
    expires,
    label,
    limit,
    max_risk,
    needs_approval,
    unlabelled,
    where,
)
from retinue.security.rules import Rule

__all__ = [
    "ApprovalRequired",
    "Authority",
    "AuthorityError",
    "AuthorityStatistics",
    "ConstraintError",
    "DefinitionError",
    "Denied",
    "Expired",
    "ForgedContext",
    "Layer",
    "Limits",
    "NoContext",
    "Pattern",
    "PatternError",
    "PermissionSet",
    "Principal",
    "Restriction",
    "RetinueError",
    "Revoked",
    "Rule",
    "SecurityContext",
    "allow",
    "check_operation",
    "deny",
    "expires",
    "label",
    "limit",
    "max_risk",
    "needs_approval",
    "restrictions_from_data",
    "unlabelled",
    "where",
]
