/* joblog.h - the log of a job that can be resumed: what it is, and which units of its input are
 * written, to which files.
 *
 *   file:    magic "skatejob", u32 version, u32 crc of these 12 bytes; then records
 *   record:  u32 n, u32 crc, n bytes (a multiple of 8). The crc goes on from the record before,
 *            over n and the bytes: a record stands only behind those that it was written behind.
 *   HEAD     the first record: mode, prefix, number of units, and the fingerprint: a label and a
 *            digest for each part of the job
 *   UNIT     a unit of the input and its files (none, when no row came of it). A later record for
 *            the same unit replaces an earlier one
 *   COMMIT   all units are written: from here on files move to their places. DONE: they are there
 *
 * What is not whole at the end of the file (a crash within a write) is cut off when it is opened;
 * so is everything behind a damaged record, since work that is done again is right, and work that
 * is wrongly believed done is not. Nothing in it is trusted: names are relative, without "..",
 * lengths are checked. Not here: which files exist (data/write/resume.py).
 *
 * Durability: append writes, sync makes durable all that was appended. Thread-safety: none; one
 * process at a time (flock). */
#ifndef SK_JOBLOG_H
#define SK_JOBLOG_H

#include "base/base.h"
#include "base/err.h"
#include "base/wire.h"

enum sk_job_kind { SK_JOB_HEAD = 1, SK_JOB_UNIT, SK_JOB_COMMIT, SK_JOB_DONE };

struct sk_job_part { /* HEAD */
    struct sk_bytes label, digest;
};
/* UNIT: where it was written, where it belongs; both relative to the folder of the job */
struct sk_job_file {
    struct sk_bytes staged, final;
    uint64_t rows, bytes;
};
struct sk_job_rec {
    uint32_t kind, n;             /* parts or files */
    uint64_t unit;                /* UNIT: its number; HEAD: how many there are */
    struct sk_bytes mode, prefix; /* HEAD */
    struct sk_rd at;              /* in front of the parts or files */
};

/* Codec: pure. A record as appended to *w (measure with cap 0), its parts or files from the
 * arrays. */
void sk_job_write(struct sk_wr *w, const struct sk_job_rec *r, const struct sk_job_part *parts,
                  const struct sk_job_file *files);
/* Checks a record whole. false: it is none, and *out is not to be used. Borrowed from p. */
bool sk_job_read(struct sk_bytes p, struct sk_job_rec *out);
void sk_job_part(struct sk_job_rec *r, struct sk_job_part *out); /* the next one; at most r->n */
void sk_job_file(struct sk_job_rec *r, struct sk_job_file *out);
/* The next record at *at (0: the first) of a log's bytes, which *crc goes along with. false: no
 * whole one is there, and *at stays. */
bool sk_job_next(const void *p, size_t n, size_t *at, uint32_t *crc, struct sk_job_rec *out);

struct sk_joblog;
/* Makes or opens the file at path and takes it for this process. SK_EAGAIN: another one has it.
 * SK_ECORRUPT: it is no log, or of another version. */
sk_rc sk_joblog_open(const char *path, struct sk_joblog **out, struct sk_err *err) SK_MUST_USE;
void sk_joblog_close(struct sk_joblog **log);
/* as it was when opened, the torn tail cut off: for sk_job_next */
struct sk_bytes sk_joblog_bytes(const struct sk_joblog *log);
uint64_t sk_joblog_cut(const struct sk_joblog *log); /* bytes that were cut off then */
/* After a failure the log takes nothing more. */
sk_rc sk_joblog_append(struct sk_joblog *log, const struct sk_job_rec *r,
                       const struct sk_job_part *parts, const struct sk_job_file *files,
                       struct sk_err *err) SK_MUST_USE;
sk_rc sk_joblog_sync(struct sk_joblog *log, struct sk_err *err) SK_MUST_USE;
/* Forgets everything: an empty log for another job. */
sk_rc sk_joblog_clear(struct sk_joblog *log, struct sk_err *err) SK_MUST_USE;
/* rename. SK_ENOENT: there is no `from`, or no folder for `to`. SK_EEXIST: not to replace, and
 * there is something at `to`, which stays as it is. */
sk_rc sk_job_move(const char *from, const char *to, bool replace, struct sk_err *err) SK_MUST_USE;
/* the names in a folder become durable */
sk_rc sk_job_sync_dir(const char *path, struct sk_err *err) SK_MUST_USE;

#endif
