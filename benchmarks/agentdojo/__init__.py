"""AgentDojo's tasks and injections, replayed without a model through the gate and through actors: what is refused, and what it costs in questions."""
