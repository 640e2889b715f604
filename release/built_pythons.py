"""Pythons that no package of Debian has, to try wheels with: those for musl, and those without the
GIL. zig compiles them of Debian's sources of CPython, zlib and OpenSSL (pyarrow asks Python's ssl
where certificates are). They have no ctypes, sqlite3, bz2 or lzma."""

import os
import shutil
import subprocess
from pathlib import Path

import debian_pythons
from debian_pythons import SUITES

MACHINE = os.uname().machine
LIBRARIES = "bookworm"  # zlib and OpenSSL are those of this suite
# Has musl 1.2.5. skate's wheels run with 1.2.3 as well; numpy's of 2026 have packed relocations
# (DT_RELR), which musl knows from 1.2.4 on.
MUSL = "trixie"
# zig gives a program's own copy to data of the C library unless it is position independent, and
# checks for undefined behaviour unless told. Sizes of stacks are Alpine's: 1 MiB for a thread of
# Python, 128 KiB for one of C.
CFLAGS = "-fPIC -fno-sanitize=undefined -w -DTHREAD_STACK_SIZE=0x100000"
LINK = "-pie -Xlinker -export-dynamic -Wl,-z,stack-size=131072"
OPTIONS = [
    "--disable-test-modules",
    "--without-ensurepip",
    "--with-pkg-config=no",
    "--disable-ipv6",  # its check runs a program
    "ac_cv_file__dev_ptmx=yes",
    "ac_cv_file__dev_ptc=no",
]


def interpreter(at: Path, libc: str, machine: str, python: str, patchelf: str) -> Path | None:
    """A command that runs this Python (3.14t: the one without the GIL) with this C library (gnu or
    musl) here, built once below `at`; None where Debian has no source of it, or no apt is here."""
    version = python.removesuffix("t")
    target = f"{machine}-linux-{libc}"
    to = at / f"{target}-{python}"
    if not (to / "done").exists():
        if version not in SUITES or not shutil.which("apt-get"):
            return None
        shutil.rmtree(to, ignore_errors=True)
        try:
            debian_pythons.source(to / "source", SUITES[version], f"python{version}")
        except subprocess.CalledProcessError:  # an archive may lack what its index names
            shutil.rmtree(to)
            return None
        tools = _tools(target)
        libraries = _libraries(at / target, machine, libc, tools)
        # A Python of the same version for this machine runs what a build runs of itself.
        helper = debian_pythons.interpreter(at.parent / "debian", MACHINE, version, patchelf)
        source = to / "source" / f"python{version}"
        options = ["--disable-gil"] if python.endswith("t") else []
        _python(source, to, target, tools, libraries, [f"--with-build-python={helper}", *options])
        shutil.rmtree(to / "source")
        (to / "done").touch()
    program = to / f"bin/python{python}"
    if machine == MACHINE:
        return program
    debian = at.parent / "debian"
    # musl is named by its path in the program; glibc is that beside a Python of Debian.
    options = f"-L {debian_pythons.root(debian, machine, '3.13')}" if libc == "gnu" else ""
    return debian_pythons.emulated(program, debian_pythons.qemu(debian, machine), options)


def _tools(target: str) -> Path:
    """The folder of zig's commands for a target."""
    from wheels import zig_tools

    return zig_tools(target if target.endswith("musl") else f"{target}.2.28")


def _libraries(to: Path, machine: str, libc: str, tools: Path) -> Path:
    """A folder with what the Pythons of a platform are linked with and run with, built once: zlib,
    also as libz.so.1, which Pillow's wheels for musl take from the system, OpenSSL, and musl."""
    if (to / "done").exists():
        return to
    shutil.rmtree(to, ignore_errors=True)
    debian_pythons.source(to, LIBRARIES, "zlib", "openssl")
    for folder in "lib", "include":
        (to / folder).mkdir()
    zlib, openssl = to / "zlib", to / "openssl"
    # zlib's own configure would ask this machine's C library.
    files = sorted(zlib.glob("*.c"))
    for file in files:
        _run(zlib, tools / "cc", "-O2", "-fPIC", "-DHAVE_UNISTD_H", "-c", file.name)
    objects = [f.with_suffix(".o").name for f in files]
    _run(zlib, tools / "ar", "rcs", to / "lib/libz.a", *objects)
    _run(zlib, tools / "cc", "-shared", "-Wl,-soname,libz.so.1", *objects, "-o", "libz.so.1")
    shutil.copy(zlib / "libz.so.1", to / "lib")
    for header in "zlib.h", "zconf.h":
        shutil.copy(zlib / header, to / "include")

    without = [f"no-{what}" for what in ("asm", "shared", "module", "engine", "dso", "tests")]
    words = [f"CC={tools}/cc", f"AR={tools}/ar", f"RANLIB={tools}/ranlib", "CFLAGS=-O1 -fPIC -w"]
    _run(openssl, "./Configure", f"linux-{machine}", *without, *words)
    _run(openssl, "make", f"-j{os.cpu_count()}", "build_libs")
    for library in "libssl.a", "libcrypto.a":
        shutil.copy(openssl / library, to / "lib")
    shutil.copytree(openssl / "include/openssl", to / "include/openssl")
    for source in zlib, openssl:
        shutil.rmtree(source)

    if libc == "musl":
        debian_pythons.package(to / "musl", MUSL, machine, "musl")
        shutil.copy(next((to / "musl").rglob("libc.so")), to / "lib/ld-musl.so")
    (to / "done").touch()
    return to


def _python(
    source: Path, to: Path, target: str, tools: Path, libraries: Path, options: list[str]
) -> None:
    """Compiles CPython and installs it in `to`. It is made as for another machine always, so that
    nothing that was just compiled has to run; 3.11 takes the C library from --build."""
    words = [f"CC={tools}/cc", f"AR={tools}/ar", f"RANLIB={tools}/ranlib"]
    words.append(f"READELF={shutil.which('readelf')}")  # 3.11 wants it by a path
    link = f"{LINK} -Wl,-rpath,{libraries}/lib"
    if target.endswith("musl"):
        link += f" -Wl,--dynamic-linker={libraries}/lib/ld-musl.so"
        # configure knows musl by a name of musl's stdarg.h, and zig has a stdarg.h of its own.
        words.append(f"CPP={tools}/cc -E -D__DEFINED_va_list")
    setup = source / "setup.py"  # of 3.11: asks the compiler for its headers; zig names others
    if setup.exists():
        setup.write_text(setup.read_text().replace("self.add_cross_compiling_paths()", "pass"))
    build = source / "build"
    build.mkdir()
    _run(
        build, source / "configure", f"--prefix={to}", f"--host={target}",
        f"--build={MACHINE}-pc-{target.partition('-')[2]}", *OPTIONS, *options, *words,
        f"CFLAGS={CFLAGS}", "LDFLAGS=-dynamic", f"CPPFLAGS=-I{libraries}/include",
        f"ZLIB_LIBS=-L{libraries}/lib -lz", f"ZLIB_CFLAGS=-I{libraries}/include",
        f"--with-openssl={libraries}",
    )  # fmt: skip
    _run(build, "make", f"-j{os.cpu_count()}", f"LINKFORSHARED={link}")
    _run(build, "make", f"LINKFORSHARED={link}", "altinstall")


def _run(at: Path, *words: str | Path) -> None:
    """Runs a command; if it fails, its last lines are in the message."""
    ran = subprocess.run(list(map(str, words)), cwd=at, capture_output=True, text=True)
    if ran.returncode:
        said = "\n".join(f"{ran.stdout}{ran.stderr}".splitlines()[-30:])
        raise RuntimeError(f"{words[0]} in {at} failed with {ran.returncode}:\n{said}")
