"""The staging folder of a writer, how other writers of the same local folder see that it is alive,
and what a commit may replace and remove.

    <target>/.skate-<write id>/             files of one write until its commit
    <target>/.skate-<write id>/.lease       says that the write lives
    <target>/.skate-<write id>/.told-<id>   names that another write, of mode "overwrite", put into
                                            the target after this one began

The writer holds a lock (flock) on its lease, which goes with its process, and touches the file
every BEAT_S. Another writer, in whatever container or on whatever machine, removes a staging folder
whose lease nobody locks: at once on a file system of this machine, where all see one lock;
elsewhere, where two clients may each hold "the" lock, when the lease has not been touched for
LIMIT_S as well. Ages are differences of times that the file system itself gave; clocks of machines
play no part. A folder gets its name when its lease is held.

Names of files are unique, since each has the id of its write in it (write_id). Only names that the
user gives can meet, and a commit does not replace what is there: FileExistsError. What modes
do about others: "append" takes no notice of them. "error" and "ignore" look again when they commit
("ignore" not in a write that can be resumed). "overwrite" removes what was there when it began, and
what other writes of that mode have put there since (they tell it): of two, the one that commits
last has the folder; files that were appended meanwhile stay. Its own files are in their places
before anything goes. Commits of these three modes exclude each other and appends by a lock on the
folder; on a file system without locks on folders (NFS) nothing keeps two of them apart that commit
in the same instant.
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
# a file in that folder: the list of files that a write of mode "overwrite" found when it began
BEFORE = "before"
_OURS = ".skate-"  # files whose names begin so are skate's, not data
TOLD = ".told-"
# types of file systems on which a lock is seen by every process that can see the file
_SEEN_BY_ALL = set(
    "bcachefs btrfs exfat ext2 ext3 ext4 f2fs jfs nilfs2 ntfs3 overlay ramfs reiserfs tmpfs ubifs vfat xfs zfs".split()
)

# the files found: (name in the target, inode, time of the last change) of each
Before = list[tuple[str, int, int]]


class Stage:
    """The staging folder of one write into `target`, and its lease."""

    def __init__(self, target: str, write_id: str):
        self.target, self.id = target, write_id
        self.path = os.path.join(target, f"{_OURS}{write_id}")

    def make(self) -> None:
        """Makes the folder, and removes the folders of writers that are gone."""
        os.makedirs(self.target, exist_ok=True)
        new = f"{self.path}.new"
        # Under the lock: so a new folder that nobody holds belongs to a writer that is gone.
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
            # The lease is touched by its name: after the write's end the number of a descriptor may
            # belong to another file
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
        """Removes the folder. Tasks of a failed run may still be writing there: it is renamed
        first, so that nothing can be added to it."""
        gone = self.path + "x"
        try:
            os.rename(self.path, gone)
        except FileNotFoundError:  # the target was removed meanwhile
            gone = ""
        try:
            if gone:
                shutil.rmtree(gone)
        finally:
            self.over.set()
            os.close(self.fd)


def _lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool | None:
    """Tries to lock a file, without waiting. Returns whether this process has the lock now; None:
    its file system has no locks."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_gone(free: bool | None, seen: bool, age_s: float) -> bool:
    """Decides whether the writer of a staging folder is gone; pure.

    Args:
        free: Whether nobody holds the lock on its lease; None: the file system has no locks.
        seen: Whether a lock is seen by all who can see the folder.
        age_s: Seconds since the lease was touched, by the clock of the file system.
    """
    return free is not False and (free is True and seen or age_s >= LIMIT_S)


def _remove_if_dead(path: str, now: float) -> None:
    """Removes a staging folder if its writer is gone. A folder stays if that cannot be told, or if
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
    except OSError:  # the folder comes from a version of skate without leases, or is half removed
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
    except OSError:  # another writer has removed it
        pass
    finally:
        os.close(fd)


def seen_by_all(path: str) -> bool:
    """Whether a lock on a file is seen by everybody who can see the file, because the file system
    belongs to this machine's kernel."""
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
    """The names in the folder, without skate's own; empty if there is no folder."""
    try:
        return sorted(n for n in os.listdir(target) if not n.startswith(_OURS))
    except FileNotFoundError:
        return []


def files(target: str) -> Before:
    """All files in the folder and below it, and the folders that are empty."""
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
    """A context manager inside of which no other write commits into the folder. With mode "append":
    no write of another mode, so that such a write sees all files of an append or none."""
    kind = fcntl.LOCK_SH if how is SaveMode.APPEND else fcntl.LOCK_EX
    fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Poll, with an event that is never set: flock knows no deadline.
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
    existing file may be replaced. FileExistsError: there is a file that may not."""
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
    """Tells all other writes the names that this one, of mode "overwrite", is about to put into the
    target."""
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
        # the other write has just ended, and its folder is gone
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            pass


def told(folder: str) -> set[str]:
    """The names that other writes have told the write that stages in this folder."""
    out: set[str] = set()
    for n in os.listdir(folder):
        if n.startswith(TOLD):
            with open(os.path.join(folder, n)) as f:
                out.update(json.load(f))
    return out


def unchanged(target: str, before: Before) -> Callable[[str], bool]:
    """A function that says whether the file of a name is still the one in `before`."""
    known = {n: (inode, changed) for n, inode, changed in before}

    def same(name: str) -> bool:
        try:
            s = os.lstat(os.path.join(target, name))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return known.get(name) == (s.st_ino, s.st_mtime_ns)

    return same


def clear(target: str, goes: Callable[[str], bool], found: list[str]) -> None:
    """Removes those of the files `found` that are to go, and the folders that are empty then."""
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
        except OSError:  # other files are in it
            pass


def forget_job(target: str) -> None:
    """Removes the log of a resumable write, whose files are gone. A log that a running write uses
    stays."""
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
    """The names in a local target; None: mode "ignore" has found files. A folder that only has
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
    says which files may be replaced, then removes the files that were there before. folder: the
    staging folder, where other writes have told their names."""
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
