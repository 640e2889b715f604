"""cloudsort: the output is the sorted input, whatever its shape, the options, and the processes
that are killed."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import rounds

BIN = Path(__file__).resolve().parents[3] / "build" / "dev" / "bin"
SIZE, KEY = 100, 10


def run(*args, code=0, **more):
    done = subprocess.run(
        [BIN / args[0], *map(str, args[1:])], capture_output=True, timeout=120, **more
    )
    assert done.returncode == code, done.stderr
    return done.stderr.decode() if code else done.stdout.decode()


def cut(data):
    return [data[i : i + SIZE] for i in range(0, len(data), SIZE)]


def twin(*paths):
    """The expected output, by a stable sort: equal keys stay in the order of the input."""
    return b"".join(sorted((r for p in paths for r in cut(p.read_bytes())), key=lambda r: r[:KEY]))


def parts(out):
    return sorted(p for p in out.iterdir() if p.name.startswith("part-"))


def output(out):
    # no file of the run is left
    assert all(p.name.startswith("part-") for p in out.iterdir()), list(out.iterdir())
    return b"".join(p.read_bytes() for p in parts(out))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Files with random keys, printable keys, few different keys, no record, and one record; and
    the expected output of each."""
    at = tmp_path_factory.mktemp("records")
    files = [at / n for n in ("random", "printable", "few", "none", "one")]
    run("gensort", 40_000, files[0])
    run("gensort", "-a", "-b7", 20_001, files[1])
    rows = cut(files[0].read_bytes())[:10_000]
    files[2].write_bytes(b"".join(b"%010d" % (i % 3) + r[KEY:] for i, r in enumerate(rows)))
    run("gensort", 0, files[3])
    run("gensort", 1, files[4])
    return files, twin(*files)


OPTIONS = [
    "",
    "-m 500k -p 200k",
    "-m 500k -p 100k -f 3",
    "-m 200k -p 50k -f 5 -t 3",
    "-m 1m -p 1m -f 2 -s 8m",
    "-m 300k -p 100k -s 2m",
    "-f 1 -t 1",
    "-f 100 -m 100k -p 3m",
    "-p 1g",
    "-u -m 500k -p 200k -f 3",
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_output_is_the_input_in_order(tmp_path, records, options):
    files, want = records
    told = run("cloudsort", *options.split(), tmp_path / "out", *files)
    assert output(tmp_path / "out") == want
    assert told.startswith("70002 records, 0.007 GB in ")
    assert "0 GET, 0 PUT" in told


def cached(path):
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        try:
            return os.preadv(f.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False
        except OSError:
            pytest.skip("this file system does not tell what is cached")


def test_files_past_the_page_cache(tmp_path, records):
    """Input and output do not stay in the page cache."""
    files = [tmp_path / "in"]
    shutil.copy(records[0][0], files[0])
    if not cached(files[0]):
        pytest.skip("nothing is cached here")
    run("cloudsort", tmp_path / "kept", *files)
    assert cached(files[0]) and all(cached(p) for p in parts(tmp_path / "kept"))
    run("cloudsort", "-u", tmp_path / "out", *files)
    assert not cached(files[0])  # every file system accepts this advice
    assert output(tmp_path / "out") == output(tmp_path / "kept")


def test_nothing_to_sort(tmp_path, records):
    run("cloudsort", tmp_path / "out", records[0][3])
    assert output(tmp_path / "out") == b""


def test_valsort_agrees(tmp_path):
    sent = (
        subprocess.run(
            [BIN / "gensort", "-c", "300000", tmp_path / "in"], capture_output=True, check=True
        )
        .stderr.decode()
        .strip()
    )
    run("cloudsort", "-m", "4m", tmp_path / "out", tmp_path / "in")
    with open(tmp_path / "sums", "wb") as sums:
        for p in parts(tmp_path / "out"):
            run("valsort", "-o", tmp_path / "sum", p)
            sums.write((tmp_path / "sum").read_bytes())
    told = subprocess.run(
        [BIN / "valsort", "-s", tmp_path / "sums"], capture_output=True, check=True
    ).stderr.decode()
    assert (
        told
        == f"Records: 300000\nChecksum: {sent}\nDuplicate keys: 0\nSUCCESS - all records are in order\n"
    )


def workers(p):
    """The processes that run tasks: children of the fork server, which is the only child of the
    controller."""
    try:
        return [w for server in psutil.Process(p.pid).children() for w in server.children()]
    except psutil.NoSuchProcess:
        return []


@rounds.campaign(seconds=300)
def test_workers_are_killed(tmp_path, records):
    """Workers are killed at any time: in a map, in a merge, in a reduce."""
    files, want = records
    chance = random.Random(rounds.seed())
    kills = 0
    for i in range(rounds.rounds(8)):
        options = ("-m 100k -p 100k", "-m 100k -p 50k -f 8", "-m 100k -p 50k -f 8 -s 3m")[i % 3]
        out = tmp_path / str(i)
        p = subprocess.Popen(
            [BIN / "cloudsort", *options.split(), "-t", "3", out, *files],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        budget = 30
        while p.poll() is None and budget:
            for w in workers(p):
                if chance.random() < 0.2:
                    try:
                        w.kill()
                    except psutil.NoSuchProcess:
                        continue
                    budget -= 1
                    kills += 1
        assert p.wait(100) == 0, p.stderr.read()
        assert output(out) == want
    print(f"{kills} kills")
    assert kills > 10


@rounds.campaign(seconds=300)
def test_the_controller_is_killed_and_the_same_command_goes_on(tmp_path, records):
    files, want = records
    chance = random.Random(rounds.seed())
    out, journal = tmp_path / "out", tmp_path / "out" / ".cloudsort"
    command = [
        BIN / "cloudsort",
        "-m",
        "100k",
        "-p",
        "30k",
        *chance.choice(([], ["-f", "8"])),
        out,
        *files,
    ]
    found, kills = {}, 0
    for _ in range(40):
        p = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        wanted = len(found) + chance.randrange(60)
        while p.poll() is None and (
            not journal.exists() or journal.read_bytes().count(b"\ndone ") < wanted
        ):
            # polls, because the test waits for the journal of another process
            time.sleep(0.001)
        p.send_signal(signal.SIGKILL)
        kills += p.wait(100) == -signal.SIGKILL
        for path, was in found.items():
            assert path.stat().st_mtime_ns == was, "a part that was finished is made again"
        if p.returncode == 0 and kills:
            break
        # the program ended before this process, which has to get a CPU, saw it working
        if p.returncode == 0:
            shutil.rmtree(out)
            continue
        assert p.returncode == -signal.SIGKILL, p.stderr.read()
        done = [
            int(line.split()[1])
            for line in journal.read_text().splitlines()
            if line.startswith("done ")
        ]
        found = {out / f"part-{i:05}": (out / f"part-{i:05}").stat().st_mtime_ns for i in done}
    else:
        subprocess.run(command, check=True, capture_output=True, timeout=100)
    assert output(out) == want
    assert kills


def test_a_journal_of_another_job(tmp_path, records):
    files, want = records
    out, journal = tmp_path / "out", tmp_path / "out" / ".cloudsort"
    run("cloudsort", "-p", "1m", out, *files)
    assert "the output of another run" in run("cloudsort", out, *files, code=1)
    journal.write_text("cloudsort 1 0123456789abcdef 7\ndone 3 100\n")
    assert "the journal of another job" in run("cloudsort", "-p", "1m", out, *files, code=1)
    assert journal.exists()
    journal.write_text("cloudsort 1 01")  # the record is torn, so no task counts as finished
    run("cloudsort", "-p", "1m", out, *files)
    assert output(out) == want
    assert not journal.exists()


def test_a_part_that_was_lost_is_made_again(tmp_path, records):
    files, want = records
    out = tmp_path / "out"
    command = [BIN / "cloudsort", "-p", "1m", out, *files]
    (out / "part-00003").mkdir(parents=True)  # the rename to this name fails
    (out / ".cloudsort").write_text("")
    assert "part-00003: Is a directory" in run(*["cloudsort", *command[1:]], code=1)
    assert not [p for p in out.iterdir() if p.name.endswith(".tmp")]
    (out / "part-00003").rmdir()
    finished = parts(out)
    if finished:
        finished[0].unlink()
    (out / ".part-00001.77.tmp").write_bytes(b"of one that was killed")
    run("cloudsort", *command[1:])
    assert output(out) == want


def test_bad_input(tmp_path, records):
    files, _ = records
    cut_off = tmp_path / "cut"
    cut_off.write_bytes(files[0].read_bytes()[:-1])
    out = tmp_path / "out"
    assert "3999999 bytes are no whole records of 100: is it truncated?" in run(
        "cloudsort", out, files[0], cut_off, code=1
    )
    assert "No such file" in run("cloudsort", out, tmp_path / "nothing", code=1)
    assert "not a regular file" in run("cloudsort", out, tmp_path, code=1)
    assert not out.exists()
    assert "Not a directory" in run("cloudsort", cut_off, files[0], code=1)
    assert "no number" in run("cloudsort", "-m", "12x", out, files[0], code=1)
    assert "usage" in run("cloudsort", out, code=2)


@pytest.mark.parametrize("options", ["", "-m 100k -p 100k -f 4 -s 2m"])
def test_a_full_disk_is_one_message(tmp_path, records, options):
    files, want = records
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        told = run("cloudsort", *options.split(), "-d", tmp_path, disk / "out", *files, code=1)
        assert "No space left on device" in told and told.count("\n") == 1
        assert all(
            p.name.startswith("part-") or p.name == ".cloudsort" for p in (disk / "out").iterdir()
        )
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        # now there is room, and the job continues
        run("cloudsort", *options.split(), "-d", tmp_path, disk / "out", *files)
        assert output(disk / "out") == want
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_two_controllers_of_one_job(tmp_path, records):
    """The second controller waits for the first one, and ends with a message if the first one is
    still running after 10 s."""
    import fcntl

    files, want = records
    out = tmp_path / "out"
    out.mkdir()
    with open(out / ".cloudsort", "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        p = subprocess.Popen([BIN / "cloudsort", out, *files], stdout=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(0.5)
    assert p.wait(100) == 0
    assert output(out) == want
    assert os.listdir(out)


def test_the_cost_model_gives_the_published_figure(tmp_path):
    """100 TB on 40 workers: $97 (Exoshuffle-CloudSort, 2022)."""
    lib = Path(__file__).resolve().parents[3] / "src" / "app" / "lib"
    (tmp_path / "main.c").write_text(
        '#include "cost.h"\nint main(void) { cost_print(&(struct cost_run){40, 5378, 1870, 100e12, 6e6, 1e6}); return 0; }\n'
    )
    subprocess.run(
        ["cc", "-I", lib, tmp_path / "main.c", lib / "cost.c", "-o", tmp_path / "main"],
        check=True,
        timeout=60,
    )
    told = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert 96.5 < float(told.split("$")[1].split()[0]) < 97.5
    assert told.startswith("on 40 x i4i.4xlarge and S3: $")
