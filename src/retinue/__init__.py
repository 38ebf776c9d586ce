"""Retinue: concurrent LLM agents on the actor model.

`import retinue as rt` gives every public name below. The import is lazy (PEP 562): each name's module is loaded when the name is first
used, so that importing any part of the package, or printing the command line's help, loads neither an event loop nor an HTTP client.

To add a public name: one line in each of the three lists below (`_HOMES`, the imports for static tools, `__all__`); a test holds them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.actors.agents.agent import Agent
    from retinue.actors.agents.aggregators import Conversation, default_aggregator, few_shot, tool_aggregator
    from retinue.actors.agents.errors import (
        AgentError,
        BadInput,
        BadState,
        GuardrailBlocked,
        HookBlocked,
        NoSuchRun,
        OutputInvalid,
        OutputRefused,
        RunCancelled,
        RunLimitReached,
        RunParked,
        UnknownStateKey,
    )
    from retinue.actors.agents.events import ApprovalNeeded, Notice, ToolFinished, ToolStarted, UsageSoFar
    from retinue.actors.agents.hooks import HookContext, PolicyHook, hook
    from retinue.actors.agents.message import (
        AgentEvent,
        AgentMessage,
        Cancel,
        ClearMemory,
        GetMemory,
        GetState,
        LoadState,
        Memory,
        Resume,
        Run,
        RunEnd,
        RunLimits,
        Step,
    )
    from retinue.actors.agents.output import OutputType, output_type
    from retinue.actors.agents.parsers import Parsed, ParsedCall, Parser, StrParser
    from retinue.actors.agents.parsers_json import JSONParser
    from retinue.actors.agents.parsers_text import InterpreterParser, MixedToolParser, PluginParser, ToolParser
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
    "Agent",
    "AgentError",
    "AgentEvent",
    "AgentMessage",
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
    "ClearMemory",
    "Client",
    "Constraint",
    "ConstraintError",
    "Continue",
    "Conversation",
    "DeadLetter",
    "Decision",
    "Deferred",
    "DefinitionError",
    "DeliveryReport",
    "Denied",
    "Expired",
    "Finding",
    "ForgedContext",
    "FunctionCall",
    "GatewayError",
    "GetActions",
    "GetMemory",
    "GetState",
    "GuardRefused",
    "Guarded",
    "Guardrail",
    "GuardrailBlocked",
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
    "Memory",
    "Message",
    "MixedToolParser",
    "NameTaken",
    "NoContext",
    "NoSuchRun",
    "Notice",
    "OutputInvalid",
    "OutputRefused",
    "OutputType",
    "Parsed",
    "ParsedCall",
    "Parser",
    "PatternError",
    "Permission",
    "PluginParser",
    "PolicyCall",
    "PolicyHook",
    "Pool",
    "Published",
    "PykkaMessage",
    "PythonKernel",
    "ReasoningDelta",
    "Receipt",
    "Ref",
    "RegisteredTool",
    "Reject",
    "RemoteError",
    "RemoteRef",
    "Replace",
    "Request",
    "Restriction",
    "Resume",
    "RetinueError",
    "Review",
    "Revoked",
    "Run",
    "RunCancelled",
    "RunEnd",
    "RunLimitReached",
    "RunLimits",
    "RunParked",
    "Schema",
    "Sealer",
    "SecurityContext",
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
    "SystemClosed",
    "TakesText",
    "Terminated",
    "TextDelta",
    "Timers",
    "TokenError",
    "TokenFile",
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
    "Unanswered",
    "Unhandled",
    "UnknownStateKey",
    "UsageSoFar",
    "Verdict",
    "Virtual",
    "VirtualRef",
    "Watch",
    "WireError",
    "Work",
    "WrongEventLoop",
    "WrongThread",
    "__version__",
    "absent",
    "action_processor",
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

# Where each public name lives. Read by `__getattr__` alone.
_HOMES = {
    "ActionExecutor": "retinue.actors.tools.actions",
    "ActionReturn": "retinue.actors.tools.action_messages",
    "Actor": "retinue.actors.runtime.actor",
    "ActorStopped": "retinue.actors.runtime.errors",
    "ActorSystem": "retinue.actors.runtime.system",
    "Agent": "retinue.actors.agents.agent",
    "AgentError": "retinue.actors.agents.errors",
    "AgentEvent": "retinue.actors.agents.message",
    "AgentMessage": "retinue.actors.agents.message",
    "Approval": "retinue.capabilities.consent",
    "ApprovalError": "retinue.security.errors",
    "ApprovalEvent": "retinue.actors.approvals.messages",
    "ApprovalNeeded": "retinue.actors.agents.events",
    "ApprovalRequest": "retinue.security.approvals",
    "ApprovalRequired": "retinue.security.errors",
    "ApprovalStatistics": "retinue.actors.approvals.messages",
    "ArtifactStore": "retinue.capabilities.artifacts",
    "AskCancelled": "retinue.actors.runtime.errors",
    "AskCycle": "retinue.actors.runtime.errors",
    "AskTimeout": "retinue.actors.runtime.errors",
    "AuditBroken": "retinue.security.errors",
    "AuditEntry": "retinue.security.audit_chain",
    "AuditFile": "retinue.security.audit_file",
    "AuditLog": "retinue.security.audit",
    "AuditUnavailable": "retinue.security.errors",
    "AuthorityError": "retinue.security.errors",
    "BadArguments": "retinue.capabilities.errors",
    "BadExpression": "retinue.capabilities.errors",
    "BadInput": "retinue.actors.agents.errors",
    "BadState": "retinue.actors.agents.errors",
    "Block": "retinue.security.choices",
    "BudgetExceeded": "retinue.security.errors",
    "Cancel": "retinue.actors.agents.message",
    "CanonicalError": "retinue.security.errors",
    "Capability": "retinue.capabilities.registry",
    "CapabilityProviders": "retinue.capabilities.registry_providers",
    "CapabilityRegistry": "retinue.capabilities.registry",
    "CarriedApprovals": "retinue.actors.runtime.carrying",
    "ClearMemory": "retinue.actors.agents.message",
    "Client": "retinue.client.asynchronous",
    "Constraint": "retinue.security.constraints",
    "ConstraintError": "retinue.security.errors",
    "Continue": "retinue.security.choices",
    "Conversation": "retinue.actors.agents.aggregators",
    "DeadLetter": "retinue.mailbox.letters",
    "Decision": "retinue.actors.runtime.deciding",
    "Deferred": "retinue.actors.runtime.context",
    "DefinitionError": "retinue.security.errors",
    "DeliveryReport": "retinue.actors.runtime.topic_reports",
    "Denied": "retinue.security.errors",
    "Expired": "retinue.security.errors",
    "Finding": "retinue.capabilities.tool_checks",
    "ForgedContext": "retinue.security.errors",
    "FunctionCall": "retinue.actors.tools.action_messages",
    "GatewayError": "retinue.mailbox.errors",
    "GetActions": "retinue.actors.tools.action_messages",
    "GetMemory": "retinue.actors.agents.message",
    "GetState": "retinue.actors.agents.message",
    "GuardRefused": "retinue.security.errors",
    "Guarded": "retinue.security.guardrails",
    "Guardrail": "retinue.security.guardrails",
    "GuardrailBlocked": "retinue.actors.agents.errors",
    "HookBlocked": "retinue.actors.agents.errors",
    "HookContext": "retinue.actors.agents.hooks",
    "InterpreterParser": "retinue.actors.agents.parsers_text",
    "Interrupted": "retinue.actors.approvals.messages",
    "JSONParser": "retinue.actors.agents.parsers_json",
    "KeyFile": "retinue.security.keys",
    "KeyFileError": "retinue.security.errors",
    "KeyRing": "retinue.security.keys",
    "Lagged": "retinue.actors.runtime.topic_notices",
    "Limits": "retinue.security.limits",
    "Listing": "retinue.actors.runtime.topic_notices",
    "LoadState": "retinue.actors.agents.message",
    "Mailbox": "retinue.mailbox.queues",
    "MailboxFull": "retinue.mailbox.errors",
    "Memory": "retinue.actors.agents.message",
    "Message": "retinue.mailbox.messages",
    "MixedToolParser": "retinue.actors.agents.parsers_text",
    "NameTaken": "retinue.actors.runtime.errors",
    "NoContext": "retinue.security.errors",
    "NoSuchRun": "retinue.actors.agents.errors",
    "Notice": "retinue.actors.agents.events",
    "OutputInvalid": "retinue.actors.agents.errors",
    "OutputRefused": "retinue.actors.agents.errors",
    "OutputType": "retinue.actors.agents.output",
    "Parsed": "retinue.actors.agents.parsers",
    "ParsedCall": "retinue.actors.agents.parsers",
    "Parser": "retinue.actors.agents.parsers",
    "PatternError": "retinue.security.errors",
    "Permission": "retinue.security.restrictions",
    "PluginParser": "retinue.actors.agents.parsers_text",
    "PolicyCall": "retinue.capabilities.policy",
    "PolicyHook": "retinue.actors.agents.hooks",
    "Pool": "retinue.actors.runtime.pools",
    "Published": "retinue.actors.runtime.topic_reports",
    "PykkaMessage": "retinue.actors.hosts.adopting",
    "PythonKernel": "retinue.actors.tools.python",
    "ReasoningDelta": "retinue.actors.llm.events",
    "Receipt": "retinue.actors.runtime.receipts",
    "Ref": "retinue.actors.runtime.ref",
    "RegisteredTool": "retinue.capabilities.registry_tools",
    "Reject": "retinue.actors.runtime.errors",
    "RemoteError": "retinue.mailbox.errors",
    "RemoteRef": "retinue.client.asynchronous",
    "Replace": "retinue.security.choices",
    "Request": "retinue.mailbox.messages",
    "Restriction": "retinue.security.restrictions",
    "Resume": "retinue.actors.agents.message",
    "RetinueError": "retinue.security.errors",
    "Review": "retinue.actors.approvals.review",
    "Revoked": "retinue.security.errors",
    "Run": "retinue.actors.agents.message",
    "RunCancelled": "retinue.actors.agents.errors",
    "RunEnd": "retinue.actors.agents.message",
    "RunLimitReached": "retinue.actors.agents.errors",
    "RunLimits": "retinue.actors.agents.message",
    "RunParked": "retinue.actors.agents.errors",
    "Schema": "retinue.actors.store.schema",
    "Sealer": "retinue.security.seal",
    "SecurityContext": "retinue.security.context",
    "ServiceKey": "retinue.actors.runtime.receptionist",
    "Source": "retinue.security.sources",
    "StandingConsent": "retinue.security.standing",
    "StartTimeout": "retinue.actors.runtime.errors",
    "Step": "retinue.actors.agents.message",
    "StopReason": "retinue.actors.runtime.watch",
    "Store": "retinue.actors.store.store",
    "StoreUnavailable": "retinue.actors.store.errors",
    "StrParser": "retinue.actors.agents.parsers",
    "Stream": "retinue.mailbox.messages",
    "StreamClosed": "retinue.actors.runtime.errors",
    "StreamReader": "retinue.actors.runtime.streams",
    "Subscription": "retinue.actors.runtime.topic_subscriptions",
    "Supervision": "retinue.actors.runtime.supervision",
    "SystemClosed": "retinue.actors.runtime.errors",
    "TakesText": "retinue.actors.runtime.coercing",
    "Terminated": "retinue.actors.runtime.watch",
    "TextDelta": "retinue.actors.llm.events",
    "Timers": "retinue.actors.runtime.timers",
    "TokenError": "retinue.security.errors",
    "TokenFile": "retinue.client.bearer",
    "Tool": "retinue.capabilities.tools",
    "ToolContext": "retinue.capabilities.tool_context",
    "ToolFinished": "retinue.actors.agents.events",
    "ToolLoader": "retinue.capabilities.loading",
    "ToolParser": "retinue.actors.agents.parsers_text",
    "ToolRegistry": "retinue.capabilities.registry_tools",
    "ToolResult": "retinue.capabilities.tool_results",
    "ToolStarted": "retinue.actors.agents.events",
    "Toolkit": "retinue.capabilities.toolkits",
    "Topic": "retinue.actors.runtime.topic_keys",
    "Unanswered": "retinue.actors.runtime.errors",
    "Unhandled": "retinue.mailbox.errors",
    "UnknownStateKey": "retinue.actors.agents.errors",
    "UsageSoFar": "retinue.actors.agents.events",
    "Verdict": "retinue.capabilities.policy",
    "Virtual": "retinue.actors.runtime.virtual",
    "VirtualRef": "retinue.actors.runtime.virtual_refs",
    "Watch": "retinue.actors.runtime.watch",
    "WireError": "retinue.mailbox.errors",
    "Work": "retinue.actors.store.work",
    "WrongEventLoop": "retinue.actors.runtime.errors",
    "WrongThread": "retinue.actors.runtime.errors",
    "absent": "retinue.security.constraints",
    "action_processor": "retinue.actors.tools.actions",
    "allow": "retinue.security.restrictions",
    "any_of": "retinue.security.constraints",
    "at_least": "retinue.security.constraints",
    "at_most": "retinue.security.constraints",
    "attenuate": "retinue.security.seal",
    "between": "retinue.security.constraints",
    "check_argv": "retinue.security.argv",
    "connect": "retinue.client.on_trio",
    "default_aggregator": "retinue.actors.agents.aggregators",
    "deny": "retinue.security.restrictions",
    "each": "retinue.security.constraints",
    "expires": "retinue.security.restrictions",
    "few_shot": "retinue.actors.agents.aggregators",
    "guarded_client": "retinue.capabilities.net",
    "guardrail": "retinue.security.guardrails",
    "handler": "retinue.actors.runtime.actor",
    "high_risk_parameter": "retinue.security.guardrail_templates",
    "hook": "retinue.actors.agents.hooks",
    "host": "retinue.security.constraints",
    "known_from": "retinue.security.constraints",
    "label": "retinue.security.restrictions",
    "limit": "retinue.security.restrictions",
    "max_length": "retinue.security.constraints",
    "max_risk": "retinue.security.restrictions",
    "message": "retinue.mailbox.messages",
    "needs_approval": "retinue.security.restrictions",
    "one_of": "retinue.security.constraints",
    "open_beneath": "retinue.security.beneath",
    "output_redaction": "retinue.security.guardrail_templates",
    "output_type": "retinue.actors.agents.output",
    "policy": "retinue.capabilities.policy",
    "policy_from_file": "retinue.capabilities.policy_file",
    "privacy_input": "retinue.security.guardrail_templates",
    "redact": "retinue.security.redaction",
    "run": "retinue.actors.runtime.running",
    "safe_expression": "retinue.capabilities.expressions",
    "sensitive_tool_confirmation": "retinue.security.guardrail_templates",
    "spawn_executor": "retinue.actors.tools.executor",
    "tool": "retinue.capabilities.tools",
    "tool_aggregator": "retinue.actors.agents.aggregators",
    "tool_api": "retinue.capabilities.toolkits",
    "unlabelled": "retinue.security.restrictions",
    "validate_tools": "retinue.capabilities.tool_checks",
    "where": "retinue.security.restrictions",
    "within": "retinue.security.constraints",
}


def __getattr__(name: str) -> object:
    """Load a public name's module when the name is first used, and keep the value, so that this runs once a name."""
    home = _HOMES.get(name)
    if home is not None:
        from importlib import import_module

        value: object = getattr(import_module(home), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("retinue")
    else:
        raise AttributeError(f"module 'retinue' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not, with what the module already holds."""
    return sorted({*globals(), *__all__})
