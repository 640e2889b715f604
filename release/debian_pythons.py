"""Pythons of Debian that this machine does not have: headers to build for, and interpreters to try
wheels with, unpacked into a folder and not installed. apt runs with a configuration of its own, so
the machine's packages and sources stay as they are."""

import os
import shutil
import subprocess
from pathlib import Path

SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}  # 3.12 was in no release
ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _apt(at: Path, suite: str, arch: str, *args: str) -> None:
    """Runs apt-get on the packages of this suite and machine alone, as if none were installed."""
    for folder in "lists/partial", "cache/archives/partial":
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "status").touch()
    (at / "sources.list").write_text(
        f"deb [signed-by={KEYS} arch={arch}] http://deb.debian.org/debian {suite} main\n"
    )
    (at / "apt.conf").write_text(
        f'Dir::Etc::SourceList "{at}/sources.list"; Dir::Etc::SourceParts "/dev/null";\n'
        f'Dir::State "{at}"; Dir::State::Status "{at}/status"; Dir::Cache "{at}/cache";\n'
        f'APT::Architecture "{arch}"; APT::Architectures {{ "{arch}"; }};\n'
        'Acquire::Languages "none"; APT::Sandbox::User "root";\n'
    )
    subprocess.run(
        ["apt-get", "-q", "-y", "--no-install-recommends", *args],
        env={**os.environ, "APT_CONFIG": f"{at}/apt.conf", "LC_ALL": "C"},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def root(at: Path, machine: str, version: str) -> Path | None:
    """A folder with Debian's Python of this version for this machine, its headers and all that it
    depends on, made once below `at`; None where Debian has no such Python, or no apt is here."""
    suite, arch = SUITES.get(version), ARCHES[machine]
    if not suite or not shutil.which("apt-get"):
        return None
    to = at / f"{suite}-{arch}"
    if not (to / "done").exists():
        shutil.rmtree(to, ignore_errors=True)
        apt = to / "apt"
        names = [f"python{version}", f"libpython{version}-dev", "libstdc++6"]
        _apt(apt, suite, arch, "update")
        _apt(apt, suite, arch, "--download-only", "install", *names)
        for package in sorted((apt / "cache/archives").glob("*.deb")):
            if not package.name.startswith(("libc6-dev_", "linux-libc-dev_", "tzdata_")):
                subprocess.run(["dpkg-deb", "-x", package, to / "root"], check=True)
        if not (to / "root/lib").exists():  # the base system's links to usr are in no package
            (to / "root/lib").symlink_to("usr/lib")
        shutil.rmtree(apt)
        (to / "done").touch()
    return to / "root"


def headers(at: Path, machine: str, version: str) -> list[Path]:
    """The folders of headers of this Python for a machine; empty: Debian has none."""
    there = root(at, machine, version)
    return [there / f"usr/include/python{version}", there / "usr/include"] if there else []


def interpreter(at: Path, machine: str, version: str, patchelf: str) -> Path | None:
    """A command that runs this Python here: on another machine's processor under qemu. It starts
    itself again by the path that it knows as sys.executable, as skate's workers do."""
    there = root(at, machine, version)
    if not there:
        return None
    program = there / f"usr/bin/python{version}"
    if machine != os.uname().machine:
        command = there / f"usr/bin/emulated-python{version}"
        command.write_text(
            f'#!/bin/sh\nexec qemu-{machine}-static -0 "$0" -L {there} {program} "$@"\n'
        )
        command.chmod(0o755)
        return command
    marker = program.with_name(program.name + ".patched")
    if not marker.exists():  # its own C library: that of this machine may be older
        library = there / f"usr/lib/{machine}-linux-gnu"
        loader = next(library.glob("ld-linux-*.so.*"))
        path = f"{library}:{there}/lib/{machine}-linux-gnu"
        subprocess.run([patchelf, "--set-interpreter", loader, program], check=True)
        subprocess.run([patchelf, "--force-rpath", "--set-rpath", path, program], check=True)
        marker.touch()
    return program
