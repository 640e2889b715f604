"""What Debian has and this machine does not: Pythons, their headers to build for and interpreters to
try wheels with, unpacked into a folder and not installed; other packages; sources. apt runs with a
configuration of its own, so the machine's packages and sources stay as they are."""

import os
import shutil
import subprocess
from pathlib import Path

SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}  # 3.12 was in no release
ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def _apt(at: Path, suite: str, arch: str, *args: str, kind: str = "deb") -> None:
    """Runs apt-get on the packages of this suite and machine alone, as if none were installed;
    kind deb-src: on its sources."""
    for folder in "lists/partial", "cache/archives/partial":
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "status").touch()
    (at / "sources.list").write_text(
        f"{kind} [signed-by={KEYS} arch={arch}] http://deb.debian.org/debian {suite} main\n"
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
        cwd=at,
    )


def source(to: Path, suite: str, *names: str) -> None:
    """Unpacks the sources of these packages, without Debian's changes, each into a folder of its
    name below `to`. The archive may lack a source that its index names: CalledProcessError."""
    apt = to / "apt"
    _apt(apt, suite, "amd64", "update", kind="deb-src")
    for name in names:
        _apt(apt, suite, "amd64", "--download-only", "--tar-only", "source", name, kind="deb-src")
        tar = next(p for p in apt.glob(f"{name}_*.orig.tar.*") if p.suffix != ".asc")
        (to / name).mkdir()
        subprocess.run(["tar", "-xf", tar, "-C", to / name, "--strip-components=1"], check=True)
    shutil.rmtree(apt)


def package(to: Path, suite: str, machine: str, name: str, member: str = ".") -> None:
    """Unpacks one package for a machine below `to`, or one file of it, without what it depends
    on."""
    apt = to / "apt"
    _apt(apt, suite, ARCHES[machine], "update")
    _apt(apt, suite, ARCHES[machine], "download", name)
    deb = next(apt.glob(f"{name}_*.deb"))
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as tar:
        subprocess.run(["tar", "-x", "-C", to, member], stdin=tar.stdout, check=True)
    shutil.rmtree(apt)


def qemu(at: Path, machine: str) -> Path:
    """The command that runs programs of another machine here. It is not that of bookworm, qemu 7.2,
    which says of all signals that its program handles them (`skate stack` asks that)."""
    program = at / f"qemu/usr/bin/qemu-{machine}"
    if not program.exists():
        package(at / "qemu", "trixie", os.uname().machine, "qemu-user", f"./usr/bin/{program.name}")
    return program


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
        return emulated(program, qemu(at, machine), f"-L {there}")
    marker = program.with_name(program.name + ".patched")
    if not marker.exists():  # its own C library: that of this machine may be older
        libraries = [there / f"{lib}/{machine}-linux-gnu" for lib in ("usr/lib", "lib")]
        loader = next(at for lib in libraries for at in lib.glob("ld-linux-*.so.*"))
        path = ":".join(map(str, libraries))
        subprocess.run([patchelf, "--set-interpreter", loader, program], check=True)
        subprocess.run([patchelf, "--force-rpath", "--set-rpath", path, program], check=True)
        marker.touch()
    return program


def emulated(program: Path, runner: Path, options: str = "") -> Path:
    """A command beside a program of another machine that runs it under qemu, the runner."""
    command = program.with_name(f"emulated-{program.name}")
    command.write_text(f'#!/bin/sh\nexec {runner} -0 "$0" {options} {program} "$@"\n')
    command.chmod(0o755)
    return command
