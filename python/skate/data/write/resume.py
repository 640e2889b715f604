"""Writes that can be resumed: if the driver is killed, the same program is started again and does
only what is missing.

    <target>/.skate-job/log            what is done (src/base/log/joblog.h): a head with the
                                       fingerprint of the job, a record for each unit of the input,
                                       the end
    <target>/.skate-job/run-<random>/  files that one run has staged; a record names the run it is
                                       of

Units of the input (row groups, ranges of bytes, files: the pieces that become tasks) have the same
numbers whenever the same program reads the same input. Such a run does not mix units: no task works
on rows of two units, and blocks leave in the order of units (exec.h, keep_units). So when the
report of a later unit arrives, all earlier units are complete. A complete unit is recorded in the
log with its files, and the next run leaves it out. When all units are complete, COMMIT is logged;
the files move to their final names, which have the job's id, the unit and a number; then DONE is
logged. The id is in the log, so it is the same in each run.

If the target is not local (RemoteJob), the log is in a local folder that the user names. Since a
rename would be a copy there, each file is written at its final path, complete or not at all; files
with such names that a killed run has left are removed at the end.

Invariant: a file moves to its final (local) path only after COMMIT, and once. Whichever process is
killed at whatever point, the next run ends with the files of an undisturbed run. Only units that
were complete while an earlier, slow unit was not are done again. The workers sync the files that
they write; the log is synced at most 20 times a second, and at COMMIT and DONE.

With mode "overwrite" a list of the files that existed when the job began is stored
(<target>/.skate-job/before, or beside a log in another folder), and only these files are removed.
stage.py says what holds if there are other writers.

Refused: a log of another job that has not ended (the error names the part that differs); sources
without lasting units; plans that are no chain.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from typing import Any

from skate import _skate
from skate._deps import futures, hashlib, shutil
from skate.data.files.retry import retried
from skate.data.plan.node import Node
from skate.data.plan.optimise import optimised
from skate.data.run import execute
from skate.data.run.blocks import fetch
from skate.data.run.request import RunRequest
from skate.data.write import fingerprint, stage
from skate.data.write.mode import SaveMode, write_id
from skate.data.write.reports import Reports
from skate.data.write.unify_file_schemas import again, misfits, of_file

SYNC_S = 0.05
_HEAD, _UNIT, _COMMIT, _DONE = 1, 2, 3, 4
# the name of a staged file; groups: the partition values before the number, and the ending
_STAGED = re.compile(r"(.*_|)\d{6,}_\d{6}(\..*|)")
LOOKS = 16  # the number of files whose schemas are read concurrently

# (staged name relative to the folder of the job, final name relative to the target, rows, bytes)
File = tuple[str, str, int, int]

log = logging.getLogger("ray.data")


class Job:
    """One resumable write into a local folder."""

    def __init__(
        self,
        request: RunRequest,
        target: str,
        how: SaveMode,
        params: dict[str, Any],
        log_path: str | None,
    ):
        self.target, self.how = target, how
        self.folder = os.path.join(target, stage.JOB)
        self.units = self._units(optimised(request.node, "raise")[0])
        self.parts = fingerprint.fingerprint(request, params)
        self.path = log_path or os.path.join(self.folder, "log")
        self.files: dict[int, list[File]] = {}
        self.prefix = ""
        # whether the user names the files (filename_provider)
        self.names = params["names"] is not None
        self.committed = self.over = False
        self.log: Any = None
        self.synced = 0.0
        # the schemas of all files; None unless this run wrote all of them
        self.schemas: list[bytes] | None = None

    def _units(self, node: Node) -> int:
        while True:
            if (
                node.blocks is not None
                or node.operator.first_rows
                or node.operator.blocking
                or len(node.inputs) > 1
            ):
                raise ValueError(
                    f"resume: {node.label} is not possible in a write that can be resumed: that takes one source that reads files or ranges, and operators over its rows"
                )
            if not node.inputs:
                return len(node.options.get("units") or ())
            node = node.inputs[0]

    # ---- Starting: what an earlier run has done.

    def open(self) -> bool:
        """Reads the log and decides what to do. False: there is nothing to do."""
        if not os.path.exists(self.path) and self._look() is None:
            return False
        self._make_folders()
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.log = _skate.JobLog(self.path)
        if self.log.cut():
            log.warning(
                "resume: %d bytes at the end of %s were torn or damaged, and what they said is done again",
                self.log.cut(),
                self.path,
            )
        records = self.log.records()
        if records and not self._same(records):
            self.log.clear()
            records = []
        if not records:
            self._begin()
            return True
        _, units, _, self.prefix, _ = records[0]
        for r in records[1:]:
            if r[0] == _UNIT and r[1] < units:
                self.files[r[1]] = [tuple(f) for f in r[2]]
            self.committed = self.committed or r[0] == _COMMIT
            self.over = r[0] == _DONE
        self._check_files()
        if self.over and len(self.files) == self.units:
            log.warning(
                "resume: the write into %s has ended before; nothing is done again. Remove %s to start it anew",
                self.target,
                self.folder,
            )
            return False
        log.info(
            "resume: %d of %d units of the input are done already (%s)",
            len(self.files),
            self.units,
            self.path,
        )
        self.over = False
        return True

    def _look(self) -> list[str] | None:
        """Lists the names in the target; None: mode "ignore" has found files. ValueError: mode
        "error" has found files."""
        return stage.look(self.target, self.how)

    def _make_folders(self) -> None:
        os.makedirs(self.folder, exist_ok=True)

    def _same(self, records: list[Any]) -> bool:
        """Compares the log with this job. True: the log is of this job. False: it is of another
        job, which has ended. ValueError: it is of another job, which has not ended."""
        _, units, mode, _, parts = records[0]
        mine = [*self.parts, ("mode", self.how.value.encode())]
        theirs = [*[tuple(p) for p in parts], ("mode", mode.encode())]
        if theirs == mine and units == self.units:
            return True
        if records[-1][0] == _DONE:
            return False
        what = f"it has {len(theirs) - 1} parts, and this one {len(mine) - 1}"
        for i, (a, b) in enumerate(zip(theirs, mine, strict=False)):
            if a[0] != b[0]:
                what = f"its part {i + 1} is {a[0]!r}, and here {b[0]!r}"
                break
            if a[1] != b[1]:
                what = f"{a[0]!r} is different (its function, arguments or input)"
                break
        raise ValueError(
            f"resume: {self.path} is of another job, which has not ended: {what}. End that job with the program and the input that began it, or remove {self.path} "
            "to start anew"
        )

    def _begin(self) -> None:
        self.prefix = f"{write_id()}_"
        if self.how is SaveMode.OVERWRITE:
            self._keep_before()
        self.log.head(self.units, self.how.value, self.prefix, self.parts)
        self.log.sync()

    def _keep_before(self) -> None:
        with stage.alone(self.target):
            self._keep(os.path.join(self.folder, stage.BEFORE), stage.files(self.target))

    @staticmethod
    def _keep(path: str, what: Any) -> None:
        with open(path + ".part", "w") as f:
            json.dump(what, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(path + ".part", path)

    def _check_files(self) -> None:
        """Drops the records of units whose files are missing or differ from the record."""
        for unit, files in list(self.files.items()):
            if not all(self._size(f) == f[3] for f in files):
                log.warning(
                    "resume: files of unit %d are not as the log has them, and are written again",
                    unit,
                )
                del self.files[unit]

    def _size(self, f: File) -> int:
        for path in (
            os.path.join(self.folder, f[0]),
            *([os.path.join(self.target, f[1])] if self.committed else []),
        ):
            try:
                return os.path.getsize(path)
            except (FileNotFoundError, NotADirectoryError):
                pass
        return -1

    # ---- Running the missing part.

    def write(
        self, request: RunRequest, label: str, params: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Runs the missing part; records each unit in the log when it is complete."""
        run, where = self._stage()
        uuid = self.prefix.removesuffix("_")  # the id is the same in each run of the job
        node = Node("write", label, {**params, "uuid": uuid, **where}, (request.node,), **options)
        skip = bytes(u in self.files for u in range(self.units))
        at, held = -1, []
        heard = Reports(request.facts.known_schema())
        blocks = execute.run(request.over(node, skip))
        try:
            for block in blocks:
                if block[4] != at:
                    self._whole(run, at, held, block[4])
                    at, held = block[4], []
                held += heard.files(fetch(block[:4]))
        finally:
            blocks.close()
        if not held and not any(self.files.values()) and self.units - 1 not in self.files:
            at, held = self.units - 1, heard.without_rows(node.params)
        self._whole(run, at, held, self.units)
        self.log.sync()
        self.schemas = None if any(skip) else heard.written

    def level(self, label: str, params: dict[str, Any]) -> None:
        """Brings all files to one schema (unify_file_schemas.py): files with another schema are
        written again beside the old ones, and then recorded in the log."""
        files = [(u, i) for u in sorted(self.files) for i in range(len(self.files[u]))]
        if self.schemas is None:
            # In a remote store each read of a schema costs a round trip.
            with futures.ThreadPoolExecutor(LOOKS) as pool:
                self.schemas = list(
                    pool.map(lambda f: of_file(params, self._at(self.files[f[0]][f[1]])), files)
                )
        other, text = misfits(label, [self.files[u][i][1] for u, i in files], self.schemas)
        if not other:
            return
        run, where = self._stage()
        changed = [(u, i, self.files[u][i]) for u, i in (files[k] for k in other)]
        names = [
            f[0].removeprefix(f[0].partition("/")[0] + "/") if run else f[0] for _, _, f in changed
        ]
        sizes = again(
            {**params, **where},
            [(self._at(f), n) for (_, _, f), n in zip(changed, names, strict=True)],
            text,
        )
        for (u, i, f), name, size in zip(changed, names, sizes, strict=True):
            self.files[u][i] = (f"{run}/{name}" if run else name, f[1], f[2], size)
        for u in dict.fromkeys(u for u, _, _ in changed):
            self._record(u)
        self.log.sync()

    def _at(self, f: File) -> str:
        """The present path of a file: staged, or final if the commit has already moved it."""
        staged = os.path.join(self.folder, f[0])
        return staged if os.path.exists(staged) else os.path.join(self.target, f[1])

    def _record(self, unit: int) -> None:
        self.log.unit(
            unit, [(os.fsencode(a), os.fsencode(b), n, size) for a, b, n, size in self.files[unit]]
        )

    def _stage(self) -> tuple[str, dict[str, Any]]:
        """Returns (name of this run's staging folder, parameters of the writer)."""
        run = f"run-{os.urandom(6).hex()}"
        stage = os.path.join(self.folder, run)
        os.mkdir(stage)
        return run, {"folder": stage, "prefix": "", "sync": True}

    def _whole(self, run: str, unit: int, reports: list[tuple[str, int, int]], upto: int) -> None:
        """Records that `unit` is complete, and so are the earlier units before `upto` without
        files."""
        for u in range(max(unit, 0), upto):
            if u in self.files:
                continue
            self.files[u] = (
                [self._file(run, u, i, r) for i, r in enumerate(reports)] if u == unit else []
            )
            self._record(u)
        if time.monotonic() - self.synced >= SYNC_S:
            self.log.sync()
            self.synced = time.monotonic()

    def _file(self, run: str, unit: int, i: int, report: tuple[str, int, int]) -> File:
        staged, rows, size = report
        if self.names:
            return f"{run}/{staged}", staged, rows, size
        folder, slash, name = staged.rpartition("/")
        values, ext = _STAGED.fullmatch(name).groups()  # type: ignore[union-attr]
        return (
            f"{run}/{staged}",
            f"{folder}{slash}{values}{self.prefix}{unit:06d}_{i:06d}{ext}",
            rows,
            size,
        )

    # ---- Ending: the commit and the clean-up.

    def commit(self) -> None:
        """Moves all files to their final paths; may be called again safely."""
        files = self._all_files()
        self.log.commit()
        self.log.sync()
        self.committed = True
        names = [f[1] for f in files]
        with stage.alone(self.target, self.how):
            if self.how is SaveMode.OVERWRITE:
                with open(os.path.join(self.folder, stage.BEFORE)) as f:
                    before = json.load(f)
                stage.overwrite(
                    self.target,
                    self.prefix,
                    self.folder,
                    before,
                    names,
                    lambda goes: self._place(files, goes),
                )
            else:
                others = (
                    sorted({n for n, _, _ in stage.files(self.target)} - set(names))
                    if self.how is SaveMode.ERROR
                    else []
                )
                if others:
                    raise stage.meanwhile(self.target, others)
                self._place(files, lambda name: False)
            self.log.done()
            self.log.sync()

    def _place(self, files: list[File], mine: Any) -> None:
        """Moves files that are not at their final paths yet. mine: says which existing files may be
        replaced, besides those with the job's id."""
        mine_by_name, folders = self.prefix.removesuffix("_"), {self.target}
        for staged, final, _, size in files:
            to = os.path.join(self.target, final)
            moved = stage.move(
                os.path.join(self.folder, staged),
                to,
                final,
                lambda name: mine_by_name in name or mine(name),
            )
            if not moved and not (os.path.exists(to) and os.path.getsize(to) == size):
                raise FileNotFoundError(
                    2,
                    "write: a file that the log has is in neither place; run again to write it anew",
                    to,
                )
            while to not in folders:  # the folder's parents may be new, too
                to = os.path.dirname(to)
                folders.add(to)
        for f in sorted(folders):
            _skate.job_sync_dir(f)

    def _all_files(self) -> list[File]:
        files = [f for u in sorted(self.files) for f in self.files[u]]
        stage.check_twice([f[1] for f in files])
        return files

    def tidy(self) -> None:
        """Removes the staged files of all runs. Tasks of a killed run may still be writing into a
        folder, so it is renamed first, and they can add nothing to it."""
        for n in os.listdir(self.folder):
            if n == stage.BEFORE or n.startswith(stage.TOLD):
                os.unlink(os.path.join(self.folder, n))
            if n.startswith("run-"):
                gone = os.path.join(self.folder, "x" + n)
                os.rename(os.path.join(self.folder, n), gone)
                n = "x" + n
            if n.startswith("xrun-"):
                shutil.rmtree(os.path.join(self.folder, n))

    def forget(self) -> None:
        """Removes the log: the job has ended and will not be resumed."""
        os.unlink(self.path)
        if not os.listdir(self.folder):
            os.rmdir(self.folder)

    def close(self) -> None:
        if self.log is not None:
            self.log.close()


class RemoteJob(Job):
    """One resumable write into a folder of another file system. target: a job._Remote."""

    def __init__(
        self,
        request: RunRequest,
        target: Any,
        how: SaveMode,
        params: dict[str, Any],
        log_path: str,
    ):
        super().__init__(request, target.path, how, params, log_path)
        self.remote, self.fs = target, target.fs

    def _look(self) -> list[str] | None:
        """Lists the names in the target; None: mode "ignore" has found files. ValueError: mode
        "error" has found files."""
        return self.remote.begin(self.how)

    def _make_folders(self) -> None:
        retried(lambda: self.fs.create_dir(self.target, recursive=True), f"make {self.target}")

    def _keep_before(self) -> None:
        self._keep(self.path + ".before", self.remote.files())

    def _check_files(self) -> None:
        self.sizes = {n: size for n, (size, _) in self.remote.files().items()}
        super()._check_files()

    def _size(self, f: File) -> int:
        return self.sizes.get(f[1], -1)

    def _at(self, f: File) -> str:
        return f"{self.target}/{f[1]}"

    def _stage(self) -> tuple[str, dict[str, Any]]:
        return "", {"folder": self.target, "prefix": self.prefix, "by_unit": True}

    def _file(self, run: str, unit: int, i: int, report: tuple[str, int, int]) -> File:
        return report[0], *report

    def commit(self) -> None:
        """Removes files that are not of this job; the job's files are at their final paths already.
        May be called again safely."""
        mine = {f[1]: f[3] for f in self._all_files()}
        self.log.commit()
        self.log.sync()
        there = self.remote.files()
        wrong = next((n for n, size in mine.items() if n not in there or there[n][0] != size), None)
        if wrong is not None:
            raise FileNotFoundError(
                2,
                "write: a file that the log has is not there, or not as it was written; run again to write it anew",
                f"{self.target}/{wrong}",
            )
        if self.how is SaveMode.ERROR:
            others = sorted(n for n in there if n not in mine and self.prefix not in n)
            if others and not self.names:
                raise stage.meanwhile(self.target, others)
        if self.how is SaveMode.OVERWRITE:
            with open(self.path + ".before") as f:
                self.remote.clear({n: tuple(v) for n, v in json.load(f).items()}, set(mine))
        left = re.compile(rf"(?:^|_){re.escape(self.prefix)}\d{{6,}}_\d{{6}}[_.]")
        self.remote.remove(
            [
                n
                for n in there
                if n not in mine and not self.names and left.search(n.rsplit("/", 1)[-1])
            ]
        )
        self.log.done()
        self.log.sync()

    def tidy(self) -> None:
        if os.path.exists(self.path + ".before"):
            os.unlink(self.path + ".before")

    def forget(self) -> None:
        os.unlink(self.path)


def digest(*parts: bytes) -> bytes:
    """A digest of 16 bytes over all parts."""
    h = hashlib.blake2b(digest_size=16)
    for p in parts:
        h.update(len(p).to_bytes(8, "little"))
        h.update(p)
    return h.digest()
