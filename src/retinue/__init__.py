"""Retinue: concurrent LLM agents on the actor model.

`import retinue as rt` gives every public name below. The import is lazy (PEP 562): each name's module is loaded when the name is first
used, so that importing any part of the package, or printing the command line's help, loads neither an event loop nor an HTTP client.

To add a public name: one line in each of three lists (the imports for static tools and `__all__` below, `HOMES` in `_homes.py`); a test holds them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue._homes import HOMES as _HOMES

if TYPE_CHECKING:
    from retinue.actors.agents.agent import Agent
    from retinue.actors.agents.agent_tools import agent_tool
    from retinue.actors.agents.aggregators import Conversation, default_aggregator, few_shot, tool_aggregator
    from retinue.actors.agents.errors import (
        AgentError,
        BadInput,
        BadState,
        GuardrailBlocked,
        HandoffLimit,
        HookBlocked,
        MemberPaused,
        NoSuchMember,
        NoSuchRun,
        OutputInvalid,
        OutputRefused,
        RoutingFailed,
        RunCancelled,
        RunLimitReached,
        RunParked,
        TeamDiverged,
        TeamError,
        UnknownStateKey,
        VoteUndecided,
    )
    from retinue.actors.agents.events import ApprovalNeeded, HandedOff, Notice, ToolFinished, ToolStarted, UsageSoFar
    from retinue.actors.agents.handoffs import Handoff, HandOver
    from retinue.actors.agents.hooks import HookContext, PolicyHook, hook
    from retinue.actors.agents.message import (
        AgentEvent,
        AgentMessage,
        Cancel,
        ClearMemory,
        Describe,
        FromMember,
        GetMemory,
        GetState,
        LoadState,
        Memory,
        Resume,
        Run,
        RunEnd,
        RunLimits,
        Step,
        innermost,
    )
    from retinue.actors.agents.output import OutputType, output_type
    from retinue.actors.agents.parsers import Parsed, ParsedCall, Parser, StrParser
    from retinue.actors.agents.parsers_json import JSONParser
    from retinue.actors.agents.parsers_text import InterpreterParser, MixedToolParser, PluginParser, ToolParser
    from retinue.actors.agents.react import ReAct, ReActParser
    from retinue.actors.agents.specs import AgentSpec
    from retinue.actors.agents.teams.containers import AgentDict, AgentList
    from retinue.actors.agents.teams.debate import Debate
    from retinue.actors.agents.teams.fallback import Fallback
    from retinue.actors.agents.teams.group_chat import Chat, GroupChat
    from retinue.actors.agents.teams.guards import HandoffGuards
    from retinue.actors.agents.teams.map_reduce import MapReduce
    from retinue.actors.agents.teams.members import (
        AddMember,
        EditMember,
        GetMembers,
        Member,
        Members,
        PauseMember,
        RemoveMember,
        UnpauseMember,
    )
    from retinue.actors.agents.teams.parallel import Parallel
    from retinue.actors.agents.teams.round_robin import RoundRobin
    from retinue.actors.agents.teams.routing import ModelRouter, Rules
    from retinue.actors.agents.teams.selector import Selector
    from retinue.actors.agents.teams.sequential import Sequential
    from retinue.actors.agents.teams.supervisor import Supervisor
    from retinue.actors.agents.teams.swarm import Swarm
    from retinue.actors.agents.teams.team import Team
    from retinue.actors.agents.teams.team_run import TeamRun
    from retinue.actors.agents.teams.termination import (
        AllOf,
        AnyOf,
        HandedTo,
        MaxMessages,
        SaidBy,
        SecondsPassed,
        Talk,
        Termination,
        TextMention,
        TokensUsed,
        When,
    )
    from retinue.actors.agents.teams.tree_limits import TreeLimits
    from retinue.actors.approvals.messages import ApprovalEvent, ApprovalStatistics, Interrupted
    from retinue.actors.approvals.review import Review
    from retinue.actors.hosts.adopting import PykkaMessage
    from retinue.actors.llm.events import ReasoningDelta, TextDelta
    from retinue.actors.runtime.actor import Actor, handler
    from retinue.actors.runtime.carrying import CarriedApprovals
    from retinue.actors.runtime.coercing import TakesText
    from retinue.actors.runtime.context import Deferred
    from retinue.actors.runtime.deciding import Decision
    from retinue.actors.runtime.errors import (
        ActorStopped,
        AskCancelled,
        AskCycle,
        AskTimeout,
        NameTaken,
        Reject,
        StartTimeout,
        StreamClosed,
        SystemClosed,
        Unanswered,
        WrongEventLoop,
        WrongThread,
    )
    from retinue.actors.runtime.pools import Pool
    from retinue.actors.runtime.receipts import Receipt
    from retinue.actors.runtime.receptionist import ServiceKey
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.running import run
    from retinue.actors.runtime.streams import StreamReader
    from retinue.actors.runtime.supervision import Supervision
    from retinue.actors.runtime.system import ActorSystem
    from retinue.actors.runtime.timers import Timers
    from retinue.actors.runtime.topic_keys import Topic
    from retinue.actors.runtime.topic_notices import Lagged, Listing
    from retinue.actors.runtime.topic_reports import DeliveryReport, Published
    from retinue.actors.runtime.topic_subscriptions import Subscription
    from retinue.actors.runtime.tracing import TurnSpan
    from retinue.actors.runtime.virtual import Virtual
    from retinue.actors.runtime.virtual_refs import VirtualRef
    from retinue.actors.runtime.watch import StopReason, Terminated, Watch
    from retinue.actors.store.errors import StoreUnavailable
    from retinue.actors.store.schema import Schema
    from retinue.actors.store.store import Store
    from retinue.actors.store.work import Work
    from retinue.actors.tools.action_messages import ActionReturn, FunctionCall, GetActions
    from retinue.actors.tools.actions import ActionExecutor, action_processor
    from retinue.actors.tools.executor import spawn_executor
    from retinue.actors.tools.python import PythonKernel
    from retinue.actors.tracing.tracing import Tracing
    from retinue.capabilities.artifacts import ArtifactStore
    from retinue.capabilities.consent import Approval
    from retinue.capabilities.errors import BadArguments, BadExpression
    from retinue.capabilities.expressions import safe_expression
    from retinue.capabilities.loading import ToolLoader
    from retinue.capabilities.net import guarded_client
    from retinue.capabilities.policy import PolicyCall, Verdict, policy
    from retinue.capabilities.policy_file import policy_from_file
    from retinue.capabilities.registry import Capability, CapabilityRegistry
    from retinue.capabilities.registry_providers import CapabilityProviders
    from retinue.capabilities.registry_tools import RegisteredTool, ToolRegistry
    from retinue.capabilities.tool_checks import Finding, validate_tools
    from retinue.capabilities.tool_context import ToolContext
    from retinue.capabilities.tool_results import ToolResult
    from retinue.capabilities.toolkits import Toolkit, tool_api
    from retinue.capabilities.tools import Tool, tool
    from retinue.client.asynchronous import Client, RemoteRef
    from retinue.client.bearer import TokenFile
    from retinue.client.on_trio import connect
    from retinue.mailbox.errors import GatewayError, MailboxFull, RemoteError, Unhandled, WireError
    from retinue.mailbox.letters import DeadLetter
    from retinue.mailbox.messages import Message, Request, Stream, message
    from retinue.mailbox.queues import Mailbox
    from retinue.security.approvals import ApprovalRequest
    from retinue.security.argv import check_argv
    from retinue.security.audit import AuditLog
    from retinue.security.audit_chain import AuditEntry
    from retinue.security.audit_file import AuditFile
    from retinue.security.beneath import open_beneath
    from retinue.security.choices import Block, Continue, Replace
    from retinue.security.constraints import (
        Constraint,
        absent,
        any_of,
        at_least,
        at_most,
        between,
        each,
        host,
        known_from,
        max_length,
        one_of,
        within,
    )
    from retinue.security.context import SecurityContext
    from retinue.security.errors import (
        ApprovalError,
        ApprovalRequired,
        AuditBroken,
        AuditUnavailable,
        AuthorityError,
        BudgetExceeded,
        CanonicalError,
        ConstraintError,
        DefinitionError,
        Denied,
        Expired,
        ForgedContext,
        GuardRefused,
        KeyFileError,
        NoContext,
        PatternError,
        RetinueError,
        Revoked,
        TokenError,
    )
    from retinue.security.guardrail_templates import high_risk_parameter, output_redaction, privacy_input, sensitive_tool_confirmation
    from retinue.security.guardrails import Guarded, Guardrail, guardrail
    from retinue.security.keys import KeyFile, KeyRing
    from retinue.security.limits import Limits
    from retinue.security.redaction import redact
    from retinue.security.restrictions import (
        Permission,
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
    from retinue.security.seal import Sealer, attenuate
    from retinue.security.sources import Source
    from retinue.security.standing import StandingConsent

    __version__: str

__all__ = [
    "ActionExecutor",
    "ActionReturn",
    "Actor",
    "ActorStopped",
    "ActorSystem",
    "AddMember",
    "Agent",
    "AgentDict",
    "AgentError",
    "AgentEvent",
    "AgentList",
    "AgentMessage",
    "AgentSpec",
    "AllOf",
    "AnyOf",
    "Approval",
    "ApprovalError",
    "ApprovalEvent",
    "ApprovalNeeded",
    "ApprovalRequest",
    "ApprovalRequired",
    "ApprovalStatistics",
    "ArtifactStore",
    "AskCancelled",
    "AskCycle",
    "AskTimeout",
    "AuditBroken",
    "AuditEntry",
    "AuditFile",
    "AuditLog",
    "AuditUnavailable",
    "AuthorityError",
    "BadArguments",
    "BadExpression",
    "BadInput",
    "BadState",
    "Block",
    "BudgetExceeded",
    "Cancel",
    "CanonicalError",
    "Capability",
    "CapabilityProviders",
    "CapabilityRegistry",
    "CarriedApprovals",
    "Chat",
    "ClearMemory",
    "Client",
    "Constraint",
    "ConstraintError",
    "Continue",
    "Conversation",
    "DeadLetter",
    "Debate",
    "Decision",
    "Deferred",
    "DefinitionError",
    "DeliveryReport",
    "Denied",
    "Describe",
    "EditMember",
    "Expired",
    "Fallback",
    "Finding",
    "ForgedContext",
    "FromMember",
    "FunctionCall",
    "GatewayError",
    "GetActions",
    "GetMembers",
    "GetMemory",
    "GetState",
    "GroupChat",
    "GuardRefused",
    "Guarded",
    "Guardrail",
    "GuardrailBlocked",
    "HandOver",
    "HandedOff",
    "HandedTo",
    "Handoff",
    "HandoffGuards",
    "HandoffLimit",
    "HookBlocked",
    "HookContext",
    "InterpreterParser",
    "Interrupted",
    "JSONParser",
    "KeyFile",
    "KeyFileError",
    "KeyRing",
    "Lagged",
    "Limits",
    "Listing",
    "LoadState",
    "Mailbox",
    "MailboxFull",
    "MapReduce",
    "MaxMessages",
    "Member",
    "MemberPaused",
    "Members",
    "Memory",
    "Message",
    "MixedToolParser",
    "ModelRouter",
    "NameTaken",
    "NoContext",
    "NoSuchMember",
    "NoSuchRun",
    "Notice",
    "OutputInvalid",
    "OutputRefused",
    "OutputType",
    "Parallel",
    "Parsed",
    "ParsedCall",
    "Parser",
    "PatternError",
    "PauseMember",
    "Permission",
    "PluginParser",
    "PolicyCall",
    "PolicyHook",
    "Pool",
    "Published",
    "PykkaMessage",
    "PythonKernel",
    "ReAct",
    "ReActParser",
    "ReasoningDelta",
    "Receipt",
    "Ref",
    "RegisteredTool",
    "Reject",
    "RemoteError",
    "RemoteRef",
    "RemoveMember",
    "Replace",
    "Request",
    "Restriction",
    "Resume",
    "RetinueError",
    "Review",
    "Revoked",
    "RoundRobin",
    "RoutingFailed",
    "Rules",
    "Run",
    "RunCancelled",
    "RunEnd",
    "RunLimitReached",
    "RunLimits",
    "RunParked",
    "SaidBy",
    "Schema",
    "Sealer",
    "SecondsPassed",
    "SecurityContext",
    "Selector",
    "Sequential",
    "ServiceKey",
    "Source",
    "StandingConsent",
    "StartTimeout",
    "Step",
    "StopReason",
    "Store",
    "StoreUnavailable",
    "StrParser",
    "Stream",
    "StreamClosed",
    "StreamReader",
    "Subscription",
    "Supervision",
    "Supervisor",
    "Swarm",
    "SystemClosed",
    "TakesText",
    "Talk",
    "Team",
    "TeamDiverged",
    "TeamError",
    "TeamRun",
    "Terminated",
    "Termination",
    "TextDelta",
    "TextMention",
    "Timers",
    "TokenError",
    "TokenFile",
    "TokensUsed",
    "Tool",
    "ToolContext",
    "ToolFinished",
    "ToolLoader",
    "ToolParser",
    "ToolRegistry",
    "ToolResult",
    "ToolStarted",
    "Toolkit",
    "Topic",
    "Tracing",
    "TreeLimits",
    "TurnSpan",
    "Unanswered",
    "Unhandled",
    "UnknownStateKey",
    "UnpauseMember",
    "UsageSoFar",
    "Verdict",
    "Virtual",
    "VirtualRef",
    "VoteUndecided",
    "Watch",
    "When",
    "WireError",
    "Work",
    "WrongEventLoop",
    "WrongThread",
    "__version__",
    "absent",
    "action_processor",
    "agent_tool",
    "allow",
    "any_of",
    "at_least",
    "at_most",
    "attenuate",
    "between",
    "check_argv",
    "connect",
    "default_aggregator",
    "deny",
    "each",
    "expires",
    "few_shot",
    "guarded_client",
    "guardrail",
    "handler",
    "high_risk_parameter",
    "hook",
    "host",
    "innermost",
    "known_from",
    "label",
    "limit",
    "max_length",
    "max_risk",
    "message",
    "needs_approval",
    "one_of",
    "open_beneath",
    "output_redaction",
    "output_type",
    "policy",
    "policy_from_file",
    "privacy_input",
    "redact",
    "run",
    "safe_expression",
    "sensitive_tool_confirmation",
    "spawn_executor",
    "tool",
    "tool_aggregator",
    "tool_api",
    "unlabelled",
    "validate_tools",
    "where",
    "within",
]

_MODULES = ("aio", "llm", "sync", "testing")  # `rt.llm` works also where nobody has imported it


def __getattr__(name: str) -> object:
    """Load a public name's module when the name is first used, and keep the value, so that this runs once a name."""
    home = _HOMES.get(name)
    if home is not None:
        from importlib import import_module

        value: object = getattr(import_module(home), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("retinue")
    elif name in _MODULES:
        from importlib import import_module

        value = import_module(f"{__name__}.{name}")
    else:
        from difflib import get_close_matches

        near = [] if name.startswith("_") else get_close_matches(name, __all__, 1)
        meant = f". Did you mean: {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'retinue' has no attribute {name!r}{meant}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not, with what the module already holds."""
    return sorted({*globals(), *__all__})
