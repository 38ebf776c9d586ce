"""Floor 4: actors. `runtime/` is the core; `hosts/` are other places for actors to live; the other rooms hold the stock actors, which know each other by messages only."""
