"""Hand-made mutants of what guards authority, and of what keeps each message in one place: each weakens one thing, and some test must notice."""
