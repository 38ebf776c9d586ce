"""Teams: actors that are addressed as one agent and set several to work. Each pattern is a module of its own."""
