"""Run pyright on the installed package, with the settings of pyproject.toml, and fail too when it saw no file.

Pyright leaves out whatever lies in a virtual environment, unless a configuration without an `exclude` for it names the folder, by a
relative path: so this writes such a configuration beside the package.
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
with tempfile.TemporaryDirectory(dir=package.parent) as folder:
    settings |= {"include": [f"../{package.name}"], "exclude": ["**/__pycache__"]}
    Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", folder, "--outputjson"]
    output = subprocess.run(command, check=False, stdout=subprocess.PIPE).stdout
report = json.loads(output)
for finding in report["generalDiagnostics"]:
    where = finding["range"]["start"] if "range" in finding else {"line": 0, "character": 0}
    place = f"{finding['file']}:{where['line'] + 1}:{where['character'] + 1}"
    print(f"{place}: {finding['severity']}: {finding['message']} [{finding.get('rule', 'syntax')}]")
summary = report["summary"]
print(f"pyright {report['version']}: {summary['filesAnalyzed']} files, {summary['errorCount']} errors, {summary['warningCount']} warnings")
sys.exit(summary["errorCount"] > 0 or summary["warningCount"] > 0 or summary["filesAnalyzed"] < 2)
