"""Hand-made mutants of what guards authority: each weakens one thing, and some test must notice."""
