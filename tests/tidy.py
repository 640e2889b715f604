"""clang-tidy over src/ (`./dev lint`). A file that is as it was when it was last clean, with all
that it includes, is not looked at again.

The checks, and why some are off, are in .clang-tidy; a finding that is no fault is told so where it
is, by NOLINT with the check's name and the reason.
Arguments: sources; none: all that the dev build compiles. All of them take five minutes of a core,
a change of one a few seconds.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
CLEAN = ROOT / "build" / "tidy"  # a file a source: the hash of what was clean


def commands():
    """source -> its words on the compiler's command line and the folder where it runs."""
    found = {}
    for row in json.loads((BUILD / "compile_commands.json").read_text()):
        source = Path(row["directory"], row["file"]).resolve()
        if source.is_relative_to(ROOT / "src"):
            found[str(source.relative_to(ROOT))] = (shlex.split(row["command"]), row["directory"])
    return found


def stamp(words, folder, common):
    """Hash of the source and of what it includes of ours."""
    words = [w for i, w in enumerate(words) if w not in ("-c", "-o") and words[i - 1] != "-o"]
    rule = subprocess.run(
        [*words, "-MM"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    h = hashlib.sha256(common)
    for name in sorted(
        {str(Path(folder, n).resolve()) for n in rule.split(":", 1)[1].replace("\\\n", " ").split()}
    ):
        h.update(Path(name).read_bytes())
    return h.hexdigest()


def look(tool, source, words, folder, common):
    """What clang-tidy has to say about it; empty: nothing."""
    kept, now = CLEAN / source.replace("/", "."), stamp(words, folder, common)
    if kept.exists() and kept.read_text() == now:
        return ""
    run = subprocess.run(
        [tool, "-p", BUILD, "--quiet", ROOT / source], capture_output=True, text=True
    )
    if run.returncode == 0 and not run.stdout.strip():
        kept.write_text(now)
        return ""
    return run.stdout or run.stderr


def main():
    tool = Path(sys.executable).with_name("clang-tidy")
    version = subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes()
    CLEAN.mkdir(parents=True, exist_ok=True)
    known = commands()
    wanted = [str(Path(a).resolve().relative_to(ROOT)) for a in sys.argv[1:]] or sorted(known)
    if unknown := [w for w in wanted if w not in known]:
        raise SystemExit(f"not among the sources under src/ of build/dev: {' '.join(unknown)}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda source: look(tool, source, *known[source], common), wanted))
    print("\n".join(filter(None, said)), end="")
    bad = sum(map(bool, said))
    if bad:
        print(f"clang-tidy has findings in {bad} of {len(wanted)} files", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
