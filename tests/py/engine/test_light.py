"""A running engine opens no ports, makes no names in file systems, and uses little memory."""

import os

import skate
from procs import family


def listening():
    """The addresses at which this process and those that it has started listen."""
    inodes = set()
    for pid in family(os.getpid()):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as f:
            for row in f.readlines()[1:]:
                col = row.split()
                if col[3] == "0A" and col[9] in inodes:
                    found.add(col[1])
    return found


def test_no_port_and_no_name(tmp_path):
    skate.shutdown()
    # other tests of this process may have servers
    before, ports = set(os.listdir("/dev/shm")), listening()
    skate.init(num_cpus=2)
    try:
        assert skate.get([skate.remote(lambda x: x).remote(i) for i in range(50)]) == list(
            range(50)
        )
        assert listening() <= ports
        assert set(os.listdir("/dev/shm")) <= before
    finally:
        skate.shutdown()


def test_workers_end_with_the_engine():
    skate.shutdown()
    # multiprocessing's resource tracker, if test_guest.py ran in this process
    others = family(os.getpid())
    skate.init(num_cpus=2)
    skate.get([skate.remote(os.getpid).remote() for _ in range(20)])
    before = family(os.getpid())
    assert len(before) >= len(others) + 2  # the fork server and a worker
    skate.shutdown()
    assert family(os.getpid()) == others
