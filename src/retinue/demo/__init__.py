"""The swarm that `retinue demo` shows: a researcher, a writer and a critic, actors that talk to a model actor."""
