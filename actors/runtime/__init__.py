"""The actor core. A newcomer's way through it, in the order in which a message goes:

`ref` and `asking` (ask, tell, send: the envelope is made) → `cell` (the mailbox takes it) → `scheduler` (a worker gives the cell a turn) → `kernel.admit` (the gate) →
`stepping` (the handler runs) → `outcomes` (answer, failure or cancellation) → `asks` (the reply slot).

Beside that way: `current` (whose turn it is), `lifecycle` and `supervision` (birth, restart, end), `cycles` (rings of askers), `streams`, `context` (`self.ctx`),
`tasks`, `watch`, `names`, `portal` (other threads), `deadlines`, `statistics`, `events`, `watchdog`, `running` (Ctrl-C), `system` (the public face).
"""
