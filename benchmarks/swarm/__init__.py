"""Swarms: a hundred agents that hand conversations over beside peers, what tracing costs, many sessions at once. `python -m benchmarks swarm`."""
