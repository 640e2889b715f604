"""Runs programs written for Ray on skate, unmodified, and tells which pass: `./dev programs`.
programs.toml is the list.

    run.py [--ray-src DIR] [--raysort-src DIR] [--beside-ray] [--only PATTERN] [--out FILE.md]

Each program runs as `python -m skate run ...` in a folder of its own, with the CPUs of CPUS;
--beside-ray runs it by the installed Ray, too, for the seconds. What lies in a checkout (of Ray:
RAY_SRC; of exoshuffle/raysort: RAYSORT_SRC) is left out, and told, when there is none. Nothing of
them is kept here. The status is 1 when a program fails that should pass, or passes though the list
says why it cannot."""

import argparse
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_PATH = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
CPUS = 8  # of the machine that programs of the documents are written for, unless they say
SECONDS = 120  # a program that says nothing of its time


class Program:
    """One line of the table: what to run, and why it is expected to fail, if it is."""

    def __init__(self, name, command, entry, folder=None, reason=None, prepare=None):
        self.name, self.command, self.entry, self.folder = name, command, entry, folder
        self.reason, self.prepare = reason, prepare
        self.seconds = entry.get("seconds", SECONDS)

    def says_cpus(self):
        """Whether it asks init() or a Cluster for CPUs itself."""
        if self.prepare:
            return True
        with open(self.command[0]) as f:
            return "num_cpus=" in f.read()


def programs(table, ray_src, raysort_src):
    """([Program], [what is left out and why])"""
    out, left = [], []
    for entry in table["program"]:
        reasons = entry.get("fails", {})
        if "script" in entry:
            out.append(Program(entry["name"], [os.path.join(HERE, entry["script"])], entry))
        elif "ray" in entry and not ray_src:
            left.append(f"{entry['name']}: no checkout of Ray (RAY_SRC)")
        elif "ray" in entry:
            more = {"PYTHONPATH": os.path.join(ray_src, entry["path"])} if "path" in entry else {}
            entry = {**entry, "env": {**entry.get("env", {}), **more}}
            found = sorted(glob.glob(os.path.join(ray_src, entry["ray"])))
            if not found:
                left.append(f"{entry['name']}: {entry['ray']} is not in {ray_src}")
            for path in found:
                base = os.path.basename(path)
                if path.endswith(".rst"):
                    with open(path) as f:
                        if ".. testcode::" not in f.read():
                            continue
                    path = [os.path.join(HERE, "drivers", "rst.py"), path]
                else:
                    path = (
                        [os.path.join(HERE, entry["driver"]), path] if "driver" in entry else [path]
                    )
                for args in entry.get("args", [[]]):
                    name = " ".join(
                        [f"{entry['name']}: {base}" if len(found) > 1 else entry["name"], *args]
                    )
                    key = " ".join([base, *args])
                    out.append(
                        Program(
                            name, [*path, *args], entry, reason=reasons.get(key, reasons.get(base))
                        )
                    )
        elif "raysort" in entry and not raysort_src:
            left.append(f"{entry['name']}: no checkout of exoshuffle/raysort (RAYSORT_SRC)")
        elif "raysort" in entry:
            for config in entry["raysort"]:
                p = Program(
                    f"{entry['name']}: {config}",
                    ["raysort/main.py"],
                    entry,
                    reason=reasons.get(config),
                )
                p.prepare = lambda folder, config=config: raysort(raysort_src, folder, config)
                out.append(p)
    return out, left


def raysort(source, folder, config):
    """A copy of raysort with its C++ part built, and with our gensort and valsort; what the
    environment has to say. It empties the machine's file cache by sudo, which is no test's
    business: `sudo` does nothing there."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(
        build, cwd=os.path.join(folder, "raysort", "sortlib"), check=True, capture_output=True
    )
    tools = os.path.join(folder, "raysort", "bin", "gensort", "64")
    os.makedirs(tools)
    for name in ("gensort", "valsort"):
        with open(os.path.join(HERE, "gensort.py")) as f:
            text = f.read().replace("#!/usr/bin/env python3", f"#!{sys.executable}", 1)
        with open(os.path.join(tools, name), "w") as f:
            f.write(text)
        os.chmod(os.path.join(tools, name), 0o755)
    os.symlink(shutil.which("true"), os.path.join(tools, "sudo"))
    path = os.pathsep.join([tools, os.environ["PATH"]])
    return {
        "PATH": path,
        "CONFIG": config,
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "PYTHONPATH": folder,
        "USER": "skate",
        "S3_BUCKET": "none",
        "TMPFS_PATH": folder,
    }


def run(program, engine, env, keep):
    """(seconds, what its output ends with when it failed, blocks of a document) of one program."""
    folder = tempfile.mkdtemp(prefix="program-", dir=keep)
    env = {
        **os.environ,
        **env,
        "SKATE_NUM_CPUS": str(CPUS),
        "TMPDIR": folder,
        **program.entry.get("env", {}),
    }
    paths = [PYTHON_PATH] if engine == "skate" else []
    try:
        if program.prepare:
            env.update(program.prepare(folder))
        paths += [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
        env["PYTHONPATH"] = os.pathsep.join(paths)
        if engine == "ray":
            env.update(
                RAY_DISABLE_DASHBOARD="1", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_TMPDIR="/tmp"
            )
            env.pop("TMPDIR")  # its sockets want a short path
            if not program.says_cpus():  # else this would win
                env["RAY_OVERRIDE_RESOURCES"] = f'{{"CPU": {CPUS}}}'
        command = [
            sys.executable,
            *(["-m", "skate", "run"] if engine == "skate" else []),
            *program.command,
        ]
        start, timeout = time.monotonic(), False
        with open(os.path.join(keep, "output"), "w+") as f:
            p = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=f,
                start_new_session=True,
            )
            try:
                p.wait(program.seconds)
            except subprocess.TimeoutExpired:
                timeout = True
                os.killpg(p.pid, 9)
                p.wait()
            seconds = time.monotonic() - start
            f.seek(0)
            text = f.read()
    finally:
        if engine == "ray":
            stop_ray()
        shutil.rmtree(folder, ignore_errors=True)
    blocks = re.findall(r"^blocks (\d+) of (\d+)$", text, re.M)
    said = f"no end within {program.seconds} s\n" if timeout else ""
    return (
        seconds,
        said + text[-3000:] if timeout or p.returncode else None,
        blocks[-1] if blocks else None,
    )


def stop_ray():
    """What a Ray that was killed has left."""
    ray = shutil.which("ray", path=os.path.dirname(sys.executable))
    if ray:
        subprocess.run([ray, "stop", "--force"], capture_output=True, timeout=60)


def cell(result):
    seconds, error, blocks = result
    if blocks and error is not None:
        return f"{seconds:.1f} ({blocks[0]} of {blocks[1]} blocks)"
    if error is not None:
        return f"> {seconds:.0f}" if error.startswith("no end within") else "fails"
    return f"{seconds:.1f}"


def last(error):
    """What a failure says, in one line."""
    lines = [
        line.strip()
        for line in error.splitlines()
        if re.match(r"\s*[\w.]*(Error|Exception|Exit)\w*\b.*:|no end within", line)
    ]
    return (lines or error.strip().splitlines() or ["no output"])[-1][:160].replace("|", "\\|")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ray-src", default=os.environ.get("RAY_SRC"))
    parser.add_argument("--raysort-src", default=os.environ.get("RAYSORT_SRC"))
    parser.add_argument("--beside-ray", action="store_true", help="the same by the installed Ray")
    parser.add_argument("--only", default="*", help="names that fit this pattern")
    parser.add_argument("--out", help="file for the table")
    parser.add_argument(
        "--packages", action="store_true", help="only prints what pip has to install"
    )
    args = parser.parse_args()
    with open(os.path.join(HERE, "programs.toml"), "rb") as f:
        table = tomllib.load(f)
    if args.packages:
        print(
            "\n".join(
                sorted(
                    {p for e in table["program"] for p in e.get("pip", [])}
                    | ({"ray[default]"} if args.beside_ray else set())
                )
            )
        )
        return 0
    found, left = programs(
        table, *(os.path.abspath(p) if p else None for p in (args.ray_src, args.raysort_src))
    )
    found = [p for p in found if fnmatch.fnmatch(p.name, args.only)]
    env = {}
    if any(p.entry.get("s3") for p in found):
        sys.path.insert(0, HERE)
        import store

        env = store.start()
    rows, wrong = ["| program | passes | s | s on Ray |", "|---|---|---|---|"], 0
    with tempfile.TemporaryDirectory(prefix="skate-programs-") as keep:
        for p in found:
            there = env if p.entry.get("s3") else {}
            here = run(p, "skate", there, keep)
            beside = run(p, "ray", there, keep) if args.beside_ray else None
            error = here[1]
            unexpected = (error is None) == (p.reason is not None)
            wrong += unexpected
            said = "yes" if error is None else f"no: {p.reason or last(error)}"
            if p.reason and error is not None:
                print(f"(as expected: {last(error)})")
            rows.append(f"| {p.name} | {said} | {cell(here)} | {cell(beside) if beside else ''} |")
            print(rows[-1], "   <-- not as expected" if unexpected else "", flush=True)
            if unexpected and error is not None:
                print("\n".join("    " + line for line in error.splitlines()[-30:]), flush=True)
            if args.out:
                with open(args.out, "w") as f:
                    f.write("\n".join(rows) + "\n")
    for text in left:
        print(f"left out: {text}")
    print(f"{len(found)} programs, {wrong} not as expected")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
