"""Agents: turns a second beside peers, many sessions against a server, and what a streamed token costs. `python -m benchmarks agents`."""
