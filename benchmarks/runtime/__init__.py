"""The actor core beside its peers: pykka, AutoGen-core, a bare trio task with memory channels, and a pure-Python floor."""
