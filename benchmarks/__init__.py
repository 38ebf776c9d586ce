"""How fast it is: `python -m benchmarks runtime`, run from the repository's root."""
