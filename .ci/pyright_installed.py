"""Run pyright on the installed package, with the settings of pyproject.toml.

Pyright leaves out whatever lies in a virtual environment unless a configuration names it, so this writes one that does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import retinue

settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
package = Path(next(iter(retinue.__path__)))
with tempfile.TemporaryDirectory() as folder:
    settings |= {"include": [str(package)], "exclude": ["**/__pycache__"]}
    Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", folder]
    sys.exit(subprocess.run(command, check=False).returncode)
