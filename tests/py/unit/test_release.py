"""What is published says the truth: versions, metadata, workflows, templates; wheels and their
installation are tried by `./dev wheels` and `./dev wheels try`."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import skate
import yaml

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "release"))
import built_pythons  # noqa: E402
import checks  # noqa: E402
import debian_pythons  # noqa: E402
import try_wheels  # noqa: E402
import wheels  # noqa: E402

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def flat(group: str) -> list[str]:
    """The requirements of a dependency group with those that it includes."""
    found = []
    for r in PYPROJECT["dependency-groups"][group]:
        found += flat(r["include-group"]) if isinstance(r, dict) else [r]
    return found


def tree(to: Path) -> Path:
    """A copy of the files that have the version, and of those that a release looks at."""
    names = "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"
    for name in (*checks.PLACES, *names):
        (to / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    return to


def test_all_places_have_one_version():
    assert set(checks.versions(ROOT).values()) == {PYPROJECT["project"]["version"]}
    assert skate._skate.__version__ == PYPROJECT["project"]["version"]


@pytest.mark.parametrize("place", [*checks.PLACES])
def test_a_release_sees_a_place_with_another_version(tmp_path, place):
    at = tree(tmp_path)
    text = (at / place).read_text()
    version = PYPROJECT["project"]["version"]
    (at / place).write_text(text.replace(version, "0.0.7", 1))
    assert any("0.0.7" in fault for fault in checks.faults(at))


def test_bump_changes_every_place_and_dates_the_changelog(tmp_path):
    at = tree(tmp_path)
    checks.bump(at, "3.20.1")
    assert set(checks.versions(at).values()) == {"3.20.1"}
    changes = (at / "CHANGELOG.md").read_text()
    assert re.search(r"## \[Unreleased\]\n\n## \[3\.20\.1\] - \d{4}-\d\d-\d\d\n\n\S", changes)
    assert not [f for f in checks.faults(at) if "3.20.1" in f]
    with pytest.raises(SystemExit, match="'3.20' is no version"):
        checks.bump(at, "3.20")


def test_checksums_are_those_of_sha256sum(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "DIST", tmp_path)
    (tmp_path / "debug").mkdir()
    (tmp_path / "debug/b").write_bytes(b"abc")
    (tmp_path / "a").write_bytes(b"")
    assert checks.checksums().read_text() == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n"
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  debug/b\n"
    )


def test_extras_are_for_users():
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    assert set(extras) == {"pandas", "torch", "ray", "s3", "page", "images", "videos", "all"}
    named = re.fullmatch(r"skate\[(.+)\]", extras["all"][0])
    assert named and set(named[1].split(",")) == set(extras) - {"all", "ray"}
    users = {r for e in extras.values() for r in e} | set(project["dependencies"])
    makers = set(flat("lint")) | set(flat("unit")) | set(flat("docs")) | set(flat("wheels"))
    assert not users & makers


def test_a_package_has_one_range_in_extras_and_groups():
    ranges: dict[str, set[str]] = {}
    everything = [r for g in PYPROJECT["dependency-groups"] for r in flat(g)]
    for extra in PYPROJECT["project"]["optional-dependencies"].values():
        everything += extra
    for r in everything:
        ranges.setdefault(re.split(r"[<>=\[]", r)[0], set()).add(r)
    twice = {name: r for name, r in ranges.items() if len(r) > 1 and name != "skate"}
    assert not twice


def commands_of_dev() -> set[str]:
    line = re.search(r'(?m)^([\w| -]+)\) "cmd_\$cmd"', (ROOT / "dev").read_text())
    assert line
    return set(line[1].replace(" ", "").split("|"))


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_call_dev_only(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).exists()
            continue
        words = job.get("strategy", {}).get("matrix", {}).get("command", [])
        runs = [step["run"] for step in job["steps"] if "run" in step]
        assert runs and job["timeout-minutes"]
        for run in runs:
            assert re.fullmatch(r"\./dev [^;&|`\n]+", run)
            named = words if "matrix.command" in run else [run.removeprefix("./dev ")]
            assert named and {n.split()[0] for n in named} <= commands_of_dev()


def test_there_is_a_workflow_for_each_gate():
    assert {p.stem for p in WORKFLOWS} == {"lint", "tests", "wheels", "docs", "nightly"}


def test_templates_and_citation_parse():
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.stem != "config":
            assert form["name"] and form["description"] and form["body"]
            assert all(part["attributes"]["label"] for part in form["body"])
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0" and cited["message"] and cited["authors"]
    for reference in cited["references"]:
        assert reference["type"] and reference["title"] and reference["authors"]
    names = {i["value"] for r in cited["references"] for i in r.get("identifiers", ())}
    assert {"arXiv:2501.12407", "arXiv:2203.05072"} <= names


def wheel(at: Path, *more: str, metadata: str = "Name: skate\n") -> Path:
    """A wheel with these files beside those that each has."""
    path = at / "skate-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("skate-1.0.dist-info/METADATA", metadata)
        for name in more:
            z.writestr(name, "x")
    return path


def test_a_wheel_with_what_is_for_makers_is_refused(tmp_path):
    must = "skate-1.0.dist-info/sboms/skate.cdx.json", f"skate-1.0.data/data/{wheels.MAN}"
    assert list(wheels.faults(wheel(tmp_path, *must, "skate/api.py"))) == []
    assert list(wheels.faults(wheel(tmp_path))) == ["has no SBOM", "has no manual page"]
    readme = wheel(tmp_path, *must, "skate/data/README.md")
    assert list(wheels.faults(readme)) == ["has skate/data/README.md"]
    makers = wheel(tmp_path, *must, metadata="Name: skate\nRequires-Dist: pytest>=8\n")
    assert list(wheels.faults(makers)) == ["asks for pytest, which is for makers"]


def test_a_wheel_may_be_for_older_systems_than_its_tag_and_not_for_newer():
    assert wheels.covers("manylinux_2_28_x86_64", "manylinux_2_17_x86_64")
    assert not wheels.covers("manylinux_2_28_x86_64", "manylinux_2_34_x86_64")
    assert not wheels.covers("manylinux_2_28_aarch64", "manylinux_2_17_x86_64")
    assert not wheels.covers("musllinux_1_2_x86_64", "manylinux_2_17_x86_64")


def test_names_of_wheels():
    target = wheels.Target("3.14t", "musllinux_1_2_aarch64")
    assert target.tag == "cp314-cp314t-musllinux_1_2_aarch64"
    assert target.suffix == ".cpython-314t-aarch64-linux-musl.so"


def test_the_oldest_packages_are_the_lower_bounds_or_the_first_with_wheels():
    assert "numpy==1.26.*" in try_wheels.requirements("3.11", "oldest")
    assert "cloudpickle==3.1.1.*" in try_wheels.requirements("3.14", "oldest")
    assert "numpy==2.3.2.*" in try_wheels.requirements("3.14t", "oldest")
    assert "pyarrow>=20,<40" in try_wheels.requirements("3.11", "newest")


def test_a_python_is_built_once_where_there_is_a_source_of_it(tmp_path, monkeypatch):
    def missing(to, suite, *names):
        to.mkdir(parents=True)
        raise subprocess.CalledProcessError(100, "apt-get")

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(debian_pythons, "source", missing)
    assert built_pythons.interpreter(tmp_path, "musl", "x86_64", "3.13", "patchelf") is None
    assert built_pythons.interpreter(tmp_path, "musl", "x86_64", "3.12", "patchelf") is None
    assert list(tmp_path.iterdir()) == []

    there = tmp_path / f"{built_pythons.MACHINE}-linux-gnu-3.13t"
    there.mkdir()
    (there / "done").touch()
    program = built_pythons.interpreter(tmp_path, "gnu", built_pythons.MACHINE, "3.13t", "patchelf")
    assert program == there / "bin/python3.13t"


def test_a_program_of_another_machine_knows_the_command_that_runs_it(tmp_path):
    runner, program = tmp_path / "qemu", tmp_path / "python3.13"
    runner.write_text('#!/bin/sh\necho "$@"\n')
    runner.chmod(0o755)
    command = debian_pythons.emulated(program, runner, "-L /root")
    ran = subprocess.run([command, "-c", "1"], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["-0", str(command), "-L", "/root", str(program), "-c", "1"]
