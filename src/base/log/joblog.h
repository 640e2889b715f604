/* joblog.h - the log of a job that can be resumed: it identifies the job, and lists the units of
 * the job's input that have been written, each with its files.
 *
 *   file:    magic "skatejob", u32 version, u32 crc of these 12 bytes; then records
 *   record:  u32 n, u32 crc, n bytes (a multiple of 8). The crc covers n and the bytes and
 *            continues that of the record before: a record is valid only behind its predecessors.
 *   HEAD     the first record: mode, prefix, number of units, and the fingerprint: a label and a
 *            digest for each part of the job
 *   UNIT     a unit of the input and its files (none if the unit gave no rows). A later record for
 *            the same unit replaces an earlier one.
 *   COMMIT   all units are written: from here on files are moved to their final places.
 *   DONE     all files are at their final places.
 *   REPORTS  a unit and what its tasks have reported, opaque bytes: of a job whose files only the
 *            program knows, in place of UNIT. Written by programs in C (api/run/resume.c).
 *
 * Opening a log cuts off an incomplete record at its end (a crash within a write) and everything
 * behind a damaged record: work that is done again gives the right result, work that is wrongly
 * believed done does not. The contents are not trusted: names are relative and without "..",
 * lengths are checked. Not here: which files exist (data/write/resume.py).
 *
 * Durability: append writes to the file; sync makes everything appended durable. Thread-safety:
 * none; one process at a time has the log (flock). */
#ifndef SK_JOBLOG_H
#define SK_JOBLOG_H

#include "base/base.h"
#include "base/err.h"
#include "base/wire.h"

enum sk_job_kind { SK_JOB_HEAD = 1, SK_JOB_UNIT, SK_JOB_COMMIT, SK_JOB_DONE, SK_JOB_REPORTS };

struct sk_job_part { /* of a HEAD record; of a REPORTS record, as its label: a report */
    struct sk_bytes label, digest;
};
/* A file of a UNIT record: where it was written and where it belongs, both relative to the job's
 * folder. */
struct sk_job_file {
    struct sk_bytes staged, final;
    uint64_t rows, bytes;
};
struct sk_job_rec {
    uint32_t kind, n;             /* n: number of parts or files that follow */
    uint64_t unit;                /* UNIT, REPORTS: the unit's number; HEAD: the number of units */
    struct sk_bytes mode, prefix; /* of a HEAD record */
    struct sk_rd at;              /* reader in front of the parts or files */
};

/* Codec, pure. Appends a record to *w, its parts or files taken from the arrays. With cap 0 in *w
 * it measures the size only. */
void sk_job_write(struct sk_wr *w, const struct sk_job_rec *r, const struct sk_job_part *parts,
                  const struct sk_job_file *files);
/* Checks a whole record and decodes its fixed fields into *out, which borrows from p. false: the
 * bytes are no valid record; *out must not be used. */
bool sk_job_read(struct sk_bytes p, struct sk_job_rec *out);
/* Decodes the next part of a HEAD or REPORTS record; call at most r->n times. */
void sk_job_part(struct sk_job_rec *r, struct sk_job_part *out);
void sk_job_file(struct sk_job_rec *r, struct sk_job_file *out);
/* Decodes the next record at *at (0: the first) of a log's bytes and moves *at behind it; *crc
 * carries the running checksum. false: no complete record follows; *at is unchanged. */
bool sk_job_next(const void *p, size_t n, size_t *at, uint32_t *crc, struct sk_job_rec *out);

struct sk_joblog;
/* Creates or opens the file at `path` and locks it for this process. SK_EAGAIN: another process has
 * the file locked. SK_ECORRUPT: the file is no log, or a log of another version. */
sk_rc sk_joblog_open(const char *path, struct sk_joblog **out, struct sk_err *err) SK_MUST_USE;
void sk_joblog_close(struct sk_joblog **log);
/* The log's bytes as they were at the open, without the incomplete end: input for sk_job_next. */
struct sk_bytes sk_joblog_bytes(const struct sk_joblog *log);
uint64_t sk_joblog_cut(const struct sk_joblog *log); /* bytes that the open cut off */
/* Appends a record. After a failure the log refuses further records. */
sk_rc sk_joblog_append(struct sk_joblog *log, const struct sk_job_rec *r,
                       const struct sk_job_part *parts, const struct sk_job_file *files,
                       struct sk_err *err) SK_MUST_USE;
sk_rc sk_joblog_sync(struct sk_joblog *log, struct sk_err *err) SK_MUST_USE;
/* Empties the log, for another job. */
sk_rc sk_joblog_clear(struct sk_joblog *log, struct sk_err *err) SK_MUST_USE;
/* Renames a file. SK_ENOENT: `from` or the folder of `to` does not exist. SK_EEXIST: `replace` is
 * false and there is a file at `to`, which stays as it is. */
sk_rc sk_job_move(const char *from, const char *to, bool replace, struct sk_err *err) SK_MUST_USE;
/* Makes the names in a folder durable. */
sk_rc sk_job_sync_dir(const char *path, struct sk_err *err) SK_MUST_USE;

#endif
