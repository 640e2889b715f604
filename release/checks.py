"""./dev release: what has to hold before a version goes out, and the artefacts with their checksums.

    ./dev release               checks, tests, builds dist/ and SHA256SUMS; changes nothing
    ./dev release --fast        the checks that read files only
    ./dev release --go          the same as without an option, and then the tag vX.Y.Z
    ./dev release --bump X.Y.Z  writes a version into each file that has it, and dates the changelog

The version is in pyproject.toml; the other files that have it are in PLACES below.
"""

import argparse
import datetime
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from email.utils import format_datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PLACES = {  # file: what stands around the version there
    "pyproject.toml": r'(?m)^version = "([^"]+)"$',
    "src/skate.h": r'(?m)^#define SKATE_VERSION "([^"]+)"$',
    "CITATION.cff": r"(?m)^version: (\S+)$",
    "debian/changelog": r"\Askate \(([^)]+)\)",
}
NUMBERS = ("MAJOR", "MINOR", "PATCH")  # SKATE_VERSION_... of skate.h
STEPS = ("lint", "test", "docs", "wheels", "wheels try")  # of ./dev, in this order


def versions(root: Path) -> dict[str, str]:
    """The version that each file names."""
    found = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern, (root / name).read_text())
        found[name] = match[1] if match else "no version"
    header = (root / "src/skate.h").read_text()
    parts = [re.search(rf"#define SKATE_VERSION_{n} (\d+)", header) for n in NUMBERS]
    found["SKATE_VERSION_MAJOR ... of src/skate.h"] = ".".join(p[1] if p else "?" for p in parts)
    return found


def faults(root: Path) -> Iterator[str]:
    """What is in the way of a release, as far as files tell."""
    version = versions(root)["pyproject.toml"]
    for name, other in versions(root).items():
        if other != version:
            yield f"{name} says {other}, pyproject.toml {version}: ./dev release --bump {version}"
    changes = (root / "CHANGELOG.md").read_text()
    if not re.search(rf"(?m)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes):
        yield f"CHANGELOG.md has no dated section for {version}: ./dev release --bump {version}"
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for name, url in project["urls"].items():
        if ".invalid" in url:
            yield f"project.urls has no address yet: {name} = {url}"
    for name in "SECURITY.md", "CODE_OF_CONDUCT.md":
        if ".invalid" in (root / name).read_text():
            yield f"{name} names an address that is none (.invalid)"
    changed, tag = _git(root, "status", "--porcelain"), _git(root, "tag", "-l", f"v{version}")
    if changed is None or tag is None:
        yield "git cannot tell what is committed and tagged here"
    if changed:
        yield "the tree has changes that are not committed"
    if tag:
        yield f"the tag v{version} is there already: a version is released once"


def _git(root: Path, *args: str) -> str | None:
    """What git prints; None if it fails."""
    run = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True)
    return None if run.returncode else run.stdout


def bump(root: Path, version: str) -> None:
    """Writes the version into all its places. What stood under Unreleased gets its number."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"release: {version!r} is no version: three numbers, as 0.2.0")
    now = datetime.datetime.now(datetime.UTC)
    for name, pattern in PLACES.items():
        text = (root / name).read_text()
        match = re.search(pattern, text)
        assert match, f"{name} has no version"
        if name == "debian/changelog" and match[1] != version:
            who = "The skate developers <developers@skate.invalid>"
            entry = f"skate ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
            text = f"{entry} -- {who}  {format_datetime(now)}\n\n{text}"
        else:
            text = text[: match.start(1)] + version + text[match.end(1) :]
        if name == "src/skate.h":
            for number, word in zip(version.split("."), NUMBERS, strict=True):
                text = re.sub(rf"(#define SKATE_VERSION_{word} )\d+", rf"\g<1>{number}", text)
        (root / name).write_text(text)
    changes = (root / "CHANGELOG.md").read_text()
    dated = f"## [{version}] - {now:%Y-%m-%d}"
    if not re.search(rf"(?m)^## \[{re.escape(version)}\]", changes):
        changes = changes.replace("## [Unreleased]\n", f"## [Unreleased]\n\n{dated}\n", 1)
        (root / "CHANGELOG.md").write_text(changes)
    print(f"release: {version} is in {', '.join(PLACES)} and CHANGELOG.md; look, and commit")


def checksums() -> Path:
    """dist/SHA256SUMS, as sha256sum writes it and `sha256sum -c` reads it."""
    files = sorted(p for p in DIST.rglob("*") if p.is_file() and p.name != "SHA256SUMS")
    lines = [
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(DIST)}\n" for p in files
    ]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    return DIST / "SHA256SUMS"


def main() -> None:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="./dev release", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--fast", action="store_true")
    which.add_argument("--go", action="store_true")
    which.add_argument("--bump", metavar="X.Y.Z")
    args = parser.parse_args()
    if args.bump:
        bump(ROOT, args.bump)
        return
    found = list(faults(ROOT))
    for fault in found:
        print(f"release: {fault}")
    if args.go and found:
        sys.exit("release: nothing is built and no tag is set before these are gone")
    for step in STEPS if not args.fast else ():
        print(f"release: ./dev {step}", flush=True)
        if subprocess.run([ROOT / "dev", *step.split()], cwd=ROOT).returncode:
            sys.exit(f"release: ./dev {step} failed")
    version = versions(ROOT)["pyproject.toml"]
    if not args.fast:
        print(f"release: the artefacts are in dist/, their checksums in {checksums()}")
    if args.go:
        notes = f"skate {version}; see CHANGELOG.md"
        subprocess.run(["git", "tag", "-a", f"v{version}", "-m", notes], cwd=ROOT, check=True)
        print(
            f"release: tagged v{version}; push the tag and upload dist/ (twine upload dist/skate*)"
        )
    else:
        print(f"release: a dry run; --go would set the tag v{version}")
    sys.exit(len(found) > 0)


if __name__ == "__main__":
    main()
