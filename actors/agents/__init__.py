"""Agents: an actor that answers with a model and tools, one child a session. See `retinue.actors.agents.agent`."""
