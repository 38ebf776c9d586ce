"""`python -m retinue`: the command line, as the command `retinue`."""

from __future__ import annotations

from retinue.cli import main

if __name__ == "__main__":
    main()
