"""The finder of snippets, on a page made for it."""

from __future__ import annotations

from pathlib import Path

from snippets import commands, snippets

PAGE = """
# A page

```python
print(1)
```
```text
1
```

<!-- not run: needs a key -->
```python
print(2)
```

```python
print(3)
```

Some words.

```text
not its output
```

```console
$ retinue version  # a remark
retinue 1
more
$ retinue --help
```

1. In a list:

   ```sh
   # a remark
   pip install . && retinue demo
   ```

```json
{}
```
"""


def test_programs_are_found_with_their_lines_and_output() -> None:
    found = [snippet for snippet in snippets(Path("page.md"), PAGE) if snippet.language == "python"]
    assert [(snippet.line, snippet.code, snippet.output) for snippet in found] == [(4, "print(1)\n", "1\n"), (16, "print(3)\n", None)]


def test_commands_are_found_with_their_output() -> None:
    console, shell = (snippet for snippet in snippets(Path("page.md"), PAGE) if snippet.language != "python")
    assert commands(console) == [("retinue version", "retinue 1\nmore\n"), ("retinue --help", "")]
    assert commands(shell) == [("pip install . && retinue demo", "")]
