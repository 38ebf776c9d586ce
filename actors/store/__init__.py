"""The store: one actor that owns one SQLite file. `store` is the actor, `work` what it is asked to do, `database` the file without an actor."""
