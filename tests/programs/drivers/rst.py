"""Runs the `testcode` blocks of documents, in their order, in one process. A block that fails is
told, and the next one runs.

    rst.py FILE.rst

The last line says how many of them ran; the status is 1 when one failed."""

import os
import re
import sys
import textwrap
import traceback


def blocks(text):
    """(line, code) of each block that is not marked to be left out."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        found = re.match(r"( *)\.\. testcode::", line)
        if not found:
            continue
        end = at + 1
        while end < len(lines) and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > len(found[1])
        ):
            end += 1
        body = textwrap.dedent("\n".join(lines[at + 1 : end])).split("\n")
        options = []
        while body and (not body[0].strip() or body[0].startswith(":")):
            options.append(body.pop(0))
        if not any("skipif: True" in o for o in options):
            yield at + 1, "\n".join(body)


def main(path):
    good, n, failed = 0, 0, []
    space = {"__name__": "__main__"}
    with open(path) as f:
        text = f.read()
    vars(sys.modules["__main__"]).setdefault("__file__", path)
    for line, code in blocks(text):
        n += 1
        try:
            exec(compile(code, f"{os.path.basename(path)}:{line}", "exec"), space)
            good += 1
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            print(f"--- block {n}, line {line}", file=sys.stderr)
            traceback.print_exc()
            failed.append(
                f"block {n}, line {line}: {type(e).__name__}: {str(e).strip().splitlines()[-1:]}"[
                    :200
                ]
            )
    print("\n".join(failed))
    print(f"blocks {good} of {n}")
    return int(good < n)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
