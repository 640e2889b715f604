"""The staging folder of a writer, how other writers of the same local folder see that the writer is
alive, and what a commit may replace and remove.

    <target>/.skate-<write id>/             files of one write until its commit
    <target>/.skate-<write id>/.lease       says that the write lives
    <target>/.skate-<write id>/.told-<id>   names that another write, of mode "overwrite", put into
                                            the target after this one began

The writer holds a lock (flock) on its lease, which ends with its process, and touches the file
every BEAT_S. Another writer, in whatever container or on whatever machine, removes a staging folder
whose lease is not locked: at once on a file system of this machine, where all processes see the
same lock; on other file systems, where two clients may each hold "the" lock, only if the lease has
also not been touched for LIMIT_S. Ages are differences of times that the file system itself gave,
so the clocks of machines do not matter. A folder gets its name only after its lease is locked.

Names of files are unique, since each contains the id of its write (write_id). Only names that the
user gives can collide, and then a commit does not replace the existing file: FileExistsError. The
modes treat other writers so: "append" ignores them. "error" and "ignore" check again when they
commit ("ignore" not in a write that can be resumed). "overwrite" removes what existed when it
began, and what other writes of that mode have added since (they leave a list, .told-<id>): of two
such writes, the one that commits last has the folder; files that were appended in the meantime
stay. Its own files are at their final paths before any file is removed. A lock on the folder keeps
commits of these three modes apart from each other and from appends; on a file system without locks
on folders (NFS) two that commit at the same instant are not kept apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from skate import _skate
from skate._deps import shutil
from skate.data.files.retry import taken
from skate.data.write.mode import SaveMode

BEAT_S, LIMIT_S = 15.0, 900.0
COMMIT_S = 600.0  # seconds to wait for the commits of other writes
LEASE = ".lease"
JOB = ".skate-job"  # the folder of a write that can be resumed (resume.py)
# a file in the folder JOB: the list of files that a write of mode "overwrite" found when it began
BEFORE = "before"
_OURS = ".skate-"  # files whose names begin with this are skate's, not data
TOLD = ".told-"
# types of file systems on which every process that can see a file sees its locks
_SEEN_BY_ALL = set(
    "bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs nilfs2 ntfs3 overlay ramfs reiserfs tmpfs ubifs vfat xfs zfs".split()
)

# the files found: (name in the target, inode, time of the last change)
Before = list[tuple[str, int, int]]


class Stage:
    """The staging folder of one write into `target`, and its lease."""

    def __init__(self, target: str, write_id: str):
        self.target, self.id = target, write_id
        self.path = os.path.join(target, f"{_OURS}{write_id}")

    def make(self) -> None:
        """Makes the folder, and removes the folders of dead writers."""
        os.makedirs(self.target, exist_ok=True)
        new = f"{self.path}.new"
        # Under the lock, since a new folder whose lease is not locked yet would look like that of a
        # dead writer.
        with alone(self.target, SaveMode.APPEND):
            os.mkdir(new)
            self.fd = os.open(
                os.path.join(new, LEASE), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
            )
            self.over = threading.Event()
            try:
                _lock(self.fd)
                os.rename(new, self.path)
            except BaseException:
                os.close(self.fd)
                raise
        threading.Thread(target=self._beat, name="skate-write-lease", daemon=True).start()
        self._tidy()

    def _beat(self) -> None:
        while not self.over.wait(BEAT_S):
            self._touch()

    def _touch(self) -> None:
        try:
            # The lease is touched by its name, because after the write's end the number of its
            # descriptor may belong to another file.
            os.utime(os.path.join(self.path, LEASE))
        except OSError:  # the target was removed; the next file of the write will report it
            pass

    def _tidy(self) -> None:
        self._touch()
        now = os.fstat(self.fd).st_mtime
        for name in os.listdir(self.target):
            if name.startswith(_OURS) and name != JOB and name != os.path.basename(self.path):
                _remove_if_dead(os.path.join(self.target, name), now)

    def end(self) -> None:
        """Removes the folder. Tasks of a failed run may still be writing into it, so it is renamed
        first, and they can add nothing to it."""
        gone = self.path + "x"
        try:
            os.rename(self.path, gone)
        except FileNotFoundError:  # the target was removed in the meantime
            gone = ""
        try:
            if gone:
                shutil.rmtree(gone)
        finally:
            self.over.set()
            os.close(self.fd)


def _lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool | None:
    """Tries to lock a file, without waiting. Returns whether this process now has the lock; None:
    the file system has no locks."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_gone(free: bool | None, seen: bool, age_s: float) -> bool:
    """Decides whether the writer of a staging folder has ended; pure.

    Args:
        free: Whether no process holds the lock on the folder's lease; None: the file system has no
            locks.
        seen: Whether every process that can see the folder sees the lock.
        age_s: Seconds since the lease was touched, by the clock of the file system.
    """
    return free is not False and (free is True and seen or age_s >= LIMIT_S)


def _remove_if_dead(path: str, now: float) -> None:
    """Removes a staging folder if its writer has ended. The folder stays if this is unknown, or if
    it cannot be removed. now: the time by the clock of the file system."""
    if not os.path.isdir(path):
        return
    born = not path.endswith(".new")
    try:
        fd = (
            os.open(os.path.join(path, LEASE), os.O_RDWR | os.O_CLOEXEC)
            if born
            else os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        )
        leased = True
    except OSError:  # the folder is of a version of skate without leases, or partly removed
        try:
            fd, leased = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
        except OSError:
            return
    try:
        free = _lock(fd) if leased else None
        changed = os.fstat(fd).st_mtime if born else os.stat(path).st_mtime
        if not is_gone(free, free is True and seen_by_all(path), now - changed):
            return
        if not path.endswith("x"):
            os.rename(path, path + "x")  # tasks of a killed run may still be writing into it
            path += "x"
        shutil.rmtree(path, ignore_errors=True)
    except OSError:  # another writer has removed the folder
        pass
    finally:
        os.close(fd)


def seen_by_all(path: str) -> bool:
    """Whether every process that can see a file sees a lock on it, because the file system belongs
    to this machine's kernel."""
    at, kind, longest = os.path.realpath(path), "", -1
    try:
        with open("/proc/self/mountinfo") as f:
            for line in f:
                fields, _, rest = line.partition(" - ")
                mount = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields.split()[4])
                if len(mount) >= longest and (
                    at == mount or at.startswith(mount.rstrip("/") + "/")
                ):
                    kind, longest = rest.split()[0], len(mount)
    except OSError:
        return False
    return kind in _SEEN_BY_ALL


# ---- Files in the target folder.


def names(target: str) -> list[str]:
    """The names in the folder, without skate's own; empty if the folder does not exist."""
    try:
        return sorted(n for n in os.listdir(target) if not n.startswith(_OURS))
    except FileNotFoundError:
        return []


def files(target: str) -> Before:
    """All files in the folder and below it, and the empty folders."""
    out = []
    for at, folders, found in os.walk(target):
        inside = os.path.relpath(at, target)
        if inside == ".":
            folders[:] = [f for f in folders if not f.startswith(_OURS)]
        links = [f for f in folders if os.path.islink(os.path.join(at, f))]
        empty = ["."] if not found and not folders and inside != "." else []
        for n in [*found, *links, *empty]:
            try:
                s = os.lstat(os.path.join(at, n))
            except FileNotFoundError:
                continue
            out.append((os.path.normpath(os.path.join(inside, n)), s.st_ino, s.st_mtime_ns))
    return out


@contextmanager
def alone(target: str, how: SaveMode = SaveMode.OVERWRITE) -> Iterator[None]:
    """A context manager: in its block no other write commits into the folder. With mode "append",
    only writes of other modes are kept out, so that these see all files of an append or none."""
    kind = fcntl.LOCK_SH if how is SaveMode.APPEND else fcntl.LOCK_EX
    fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Poll, with an event that is never set: flock has no timeout.
        pause, until = threading.Event(), time.monotonic() + COMMIT_S
        while _lock(fd, kind) is False:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"write: for {COMMIT_S:.0f} s another process has been committing a write into {target} (it holds a lock on that folder); end it and run again"
                )
            pause.wait(0.02)
        yield
    finally:
        os.close(fd)


def place(target: str, moves: list[tuple[str, str]], mine: Callable[[str], bool]) -> None:
    """Moves staged files to their names in the target, all of them or none. mine: whether an
    existing file may be replaced. FileExistsError: a file exists that may not be replaced."""
    done = []
    try:
        for staged, name in moves:
            to = os.path.join(target, name)
            if not move(staged, to, name, mine):
                raise FileNotFoundError(
                    2,
                    "write: a file that was staged is gone: somebody removed it, or the staging folder",
                    staged,
                )
            done.append(to)
    except BaseException:
        for to in done:
            os.unlink(to)
        raise


def move(staged: str, to: str, name: str, mine: Callable[[str], bool]) -> bool:
    """Moves one file, and makes the folders that it needs. False: the staged file does not
    exist."""
    replace = False
    while True:
        try:
            if _skate.job_move(staged, to, replace):
                return True
        except FileExistsError:
            if not mine(name):
                raise taken(to) from None
            replace = True
            continue
        if not os.path.lexists(staged):
            return False
        # the folder is new, or another write has just removed it because it was empty
        os.makedirs(os.path.dirname(to), exist_ok=True)


def tell(target: str, write_id: str, placed: list[str]) -> None:
    """Leaves in the folders of all other writes a list of the names that this write, of mode
    "overwrite", is about to put into the target."""
    for n in os.listdir(target):
        at = os.path.join(target, n)
        if (
            not n.startswith(_OURS)
            or n == f"{_OURS}{write_id}"
            or n == JOB
            and not os.path.exists(os.path.join(at, BEFORE))
        ):
            continue
        try:
            with open(os.path.join(at, f".{write_id}"), "w") as f:
                json.dump(placed, f)
            os.rename(os.path.join(at, f".{write_id}"), os.path.join(at, f"{TOLD}{write_id}"))
        # the other write has just ended and removed its folder
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            pass


def told(folder: str) -> set[str]:
    """The names that other writes have listed for the write that stages in this folder."""
    out: set[str] = set()
    for n in os.listdir(folder):
        if n.startswith(TOLD):
            with open(os.path.join(folder, n)) as f:
                out.update(json.load(f))
    return out


def unchanged(target: str, before: Before) -> Callable[[str], bool]:
    """Returns a function that says whether the file with a name is the same as in `before`."""
    known = {n: (inode, changed) for n, inode, changed in before}

    def same(name: str) -> bool:
        try:
            s = os.lstat(os.path.join(target, name))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return known.get(name) == (s.st_ino, s.st_mtime_ns)

    return same


def clear(target: str, goes: Callable[[str], bool], found: list[str]) -> None:
    """Removes those of the files `found` for which goes() is true, and the folders that this leaves
    empty."""
    folders = set()
    for name in found:
        if goes(name):
            try:
                os.unlink(os.path.join(target, name))
            except IsADirectoryError:
                folders.add(name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            while name := os.path.dirname(name):
                folders.add(name)
    for name in sorted(folders, reverse=True):
        try:
            os.rmdir(os.path.join(target, name))
        except OSError:  # the folder has other files
            pass


def forget_job(target: str) -> None:
    """Removes the log of a resumable write whose files are gone, unless a running write uses the
    log."""
    at = os.path.join(target, JOB)
    try:
        fd = os.open(os.path.join(at, "log"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _lock(fd) is not False:
            shutil.rmtree(at)
    finally:
        os.close(fd)


# ---- The modes of a write.


def look(path: str, how: SaveMode) -> list[str] | None:
    """The names in a local target; None: mode "ignore" has found files. A folder that has only
    staging folders of other writes counts as missing."""
    if os.path.exists(path) and not os.path.isdir(path):
        raise NotADirectoryError(20, "write: the target is a file, not a folder", path)
    old = names(path)
    if os.path.isdir(path) and (old or not os.listdir(path)):
        if how is SaveMode.ERROR:
            raise ValueError(
                f"write: {path} exists already, and mode is 'error'; choose another folder, or mode 'append' or 'overwrite'"
            )
        if how is SaveMode.IGNORE:
            return None
    return old


def meanwhile(path: str, others: list[str]) -> ValueError:
    """The error of mode "error" if another write has filled the folder before this one."""
    return ValueError(
        f"write: while this one ran, another write put files into {path} ({', '.join(map(repr, others[:3]))}{', ...' if len(others) > 3 else ''}), and mode is 'error': those stay, and no "
        "file of this write is in its place; choose another folder, or mode 'append' or 'overwrite'"
    )


def overwrite(
    path: str,
    write_id: str,
    folder: str,
    before: Before,
    new: list[str],
    put: Callable[[Callable[[str], bool]], None],
) -> None:
    """Commits a write of mode "overwrite" into a local target: calls put() with a function that
    says which files may be replaced, then removes the files that existed before. folder: the
    staging folder, where other writes have left lists of their names."""
    same, also = unchanged(path, before), told(folder)

    def goes(name: str) -> bool:
        return name in also or same(name)

    tell(path, write_id, new)
    found = [n for n in dict.fromkeys([*(n for n, _, _ in before), *also]) if goes(n)]
    put(goes)
    mine = set(new)
    clear(path, lambda n: n not in mine, found)


def check_twice(given: list[str]) -> list[str]:
    """Returns `given`; ValueError if two files of a write have the same name."""
    twice = next(
        (a for a, b in zip(sorted(given), sorted(given)[1:], strict=False) if a == b), None
    )
    if twice is not None:
        raise ValueError(
            f"write: filename_provider gives the name {twice!r} to more than one file; let it follow from task_index"
        )
    return given
