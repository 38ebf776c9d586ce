"""Tool executors: the actors that run tools. See `retinue.actors.tools.executor`."""
