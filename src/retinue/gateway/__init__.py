"""The gateway: a running system for scripts in other processes, over HTTP."""
