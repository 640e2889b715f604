/* joblog.c - see joblog.h: the codec, then the file. Not here: any decision about a job.
 *
 * Invariant: the file is a header and whole records up to `end`; bytes behind `end` are of a write
 * that did not finish. Fault points stand in front of, within and behind every change on disk:
 * tests kill the process at each. Cost: 2 us a record, plus the disk's sync. */
#include "base/log/joblog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/mem.h"

#ifndef RENAME_NOREPLACE /* musl */
#define RENAME_NOREPLACE 1
#endif

#define TAG SK_TAG_BASE
#define HEADER 16u
#define VERSION 1u
#define RECORD_MAX (64u << 20)
static const char MAGIC[8] = {'s', 'k', 'a', 't', 'e', 'j', 'o', 'b'};

/* ---- codec ----------------------------------------------------------------------------------- */

static void put_bytes(struct sk_wr *w, struct sk_bytes b) { sk_wr_bytes(w, b.p, b.n); }

void sk_job_write(struct sk_wr *w, const struct sk_job_rec *r, const struct sk_job_part *parts,
                  const struct sk_job_file *files) {
    sk_wr_u32(w, r->kind);
    sk_wr_u32(w, r->n);
    sk_wr_u64(w, r->unit);
    if (r->kind == SK_JOB_HEAD) {
        put_bytes(w, r->mode);
        put_bytes(w, r->prefix);
    }
    if (r->kind == SK_JOB_HEAD || r->kind == SK_JOB_REPORTS) {
        for (uint32_t i = 0; i < r->n; i++) {
            put_bytes(w, parts[i].label);
            put_bytes(w, parts[i].digest);
        }
    } else if (r->kind == SK_JOB_UNIT) {
        for (uint32_t i = 0; i < r->n; i++) {
            put_bytes(w, files[i].staged);
            put_bytes(w, files[i].final);
            sk_wr_u64(w, files[i].rows);
            sk_wr_u64(w, files[i].bytes);
        }
    }
    sk_wr_align(w, 8);
}

/* True for a relative path without empty or dot components and without NUL: it cannot lead out of
 * the job's folder. */
static bool inside(struct sk_bytes b) {
    const char *p = b.p;
    size_t start = 0;
    if (!b.n || b.n > 4000 || memchr(p, 0, b.n)) return false;
    for (size_t i = 0; i <= b.n; i++) {
        if (i < b.n && p[i] != '/') continue;
        size_t n = i - start;
        if (!n || (n == 1 && p[start] == '.') || (n == 2 && p[start] == '.' && p[start + 1] == '.'))
            return false;
        start = i + 1;
    }
    return true;
}

void sk_job_part(struct sk_job_rec *r, struct sk_job_part *out) {
    out->label = sk_rd_bytes(&r->at);
    out->digest = sk_rd_bytes(&r->at);
}

void sk_job_file(struct sk_job_rec *r, struct sk_job_file *out) {
    out->staged = sk_rd_bytes(&r->at);
    out->final = sk_rd_bytes(&r->at);
    out->rows = sk_rd_u64(&r->at);
    out->bytes = sk_rd_u64(&r->at);
}

bool sk_job_read(struct sk_bytes p, struct sk_job_rec *out) {
    struct sk_rd r = sk_rd_init(p.p, p.n);
    struct sk_job_rec j = {.kind = sk_rd_u32(&r)};
    j.n = sk_rd_u32(&r);
    j.unit = sk_rd_u64(&r);
    if (j.kind == SK_JOB_HEAD) {
        j.mode = sk_rd_bytes(&r);
        j.prefix = sk_rd_bytes(&r);
    }
    j.at = r;
    /* a part or file takes 16 bytes at least */
    if (r.bad || j.kind < SK_JOB_HEAD || j.kind > SK_JOB_REPORTS || j.n > p.n / 16) return false;
    struct sk_job_rec walk = j;
    bool ok = (j.kind != SK_JOB_COMMIT && j.kind != SK_JOB_DONE) || !j.n;
    for (uint32_t i = 0; ok && i < j.n; i++) {
        struct sk_job_part part;
        struct sk_job_file file;
        if (j.kind != SK_JOB_UNIT) {
            sk_job_part(&walk, &part);
            ok = !walk.at.bad;
        } else {
            sk_job_file(&walk, &file);
            ok = !walk.at.bad && inside(file.staged) && inside(file.final);
        }
    }
    sk_rd_align(&walk.at, 8);
    if (!ok || walk.at.bad || !sk_rd_end(&walk.at)) return false;
    *out = j;
    return true;
}

static uint32_t record_crc(uint32_t before, uint32_t n, const void *p) {
    return sk_crc32c(sk_crc32c(before, &n, sizeof n), p, n);
}

bool sk_job_next(const void *p, size_t n, size_t *at, uint32_t *crc, struct sk_job_rec *out) {
    const uint8_t *b = p;
    size_t from = *at ? *at : HEADER;
    uint32_t head[2], c = *at ? *crc : 0;
    if (from > n || n - from < sizeof head) return false;
    memcpy(head, b + from, sizeof head);
    if (head[0] > RECORD_MAX || head[0] % 8 || head[0] > n - from - sizeof head) return false;
    c = record_crc(c, head[0], b + from + sizeof head);
    if (c != head[1] || !sk_job_read((struct sk_bytes){b + from + sizeof head, head[0]}, out))
        return false;
    /* the first record is a HEAD, and no other record is */
    if ((out->kind == SK_JOB_HEAD) != !*at) return false;
    *at = from + sizeof head + head[0];
    *crc = c;
    return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

struct sk_joblog {
    int fd;
    bool broken; /* a write failed: the bytes behind `end` are unknown */
    uint8_t *was;
    size_t n_was;
    uint64_t end, n_cut;
    uint32_t crc; /* crc of the last record, which continues those before it */
    uint8_t *buf;
    size_t cap;
    char path[4096];
};

static sk_rc write_all(struct sk_joblog *log, const void *p, size_t n, uint64_t at,
                       struct sk_err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t k = SK_FAULT("joblog.write")
                        ? (errno = ENOSPC, -1)
                        : pwrite(log->fd, (const uint8_t *)p + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return SK_ERR_SYS(err, "job log: cannot write %s", log->path);
        done += (size_t)k;
    }
    return SK_OK;
}

static sk_rc load(struct sk_joblog *log, struct sk_err *err) {
    struct stat st;
    if (fstat(log->fd, &st) < 0) return SK_ERR_SYS(err, "job log: cannot look at %s", log->path);
    if (st.st_size > (off_t)1 << 32)
        return SK_ERR(err, SK_ECORRUPT, "job log: %s is no log of a job: %lld bytes", log->path,
                      (long long)st.st_size);
    size_t n = (size_t)st.st_size;
    if (!(log->was = sk_alloc(TAG, n + 1)))
        return SK_ERR(err, SK_ENOMEM, "job log: %s of %zu bytes", log->path, n);
    while (log->n_was < n) {
        ssize_t k = pread(log->fd, log->was + log->n_was, n - log->n_was, (off_t)log->n_was);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return SK_ERR_SYS(err, "job log: cannot read %s", log->path);
        if (k == 0) break;
        log->n_was += (size_t)k;
    }
    return SK_OK;
}

sk_rc sk_joblog_clear(struct sk_joblog *log, struct sk_err *err) {
    uint8_t head[HEADER];
    const uint32_t version = VERSION;
    memcpy(head, MAGIC, sizeof MAGIC);
    memcpy(head + 8, &version, 4);
    const uint32_t crc = sk_crc32c(0, head, 12);
    memcpy(head + 12, &crc, 4);
    log->broken = true;
    SK_FAULT_HERE("joblog.clear");
    if (ftruncate(log->fd, 0) < 0) return SK_ERR_SYS(err, "job log: cannot empty %s", log->path);
    SK_FAULT_HERE("joblog.emptied");
    SK_TRY(write_all(log, head, sizeof head, 0, err));
    log->broken = false;
    log->end = HEADER;
    log->crc = 0;
    log->n_was = 0;
    return SK_OK;
}

/* Checks the header and all records, and cuts off an incomplete or damaged rest. */
static sk_rc check(struct sk_joblog *log, struct sk_err *err) {
    uint32_t version, crc;
    struct sk_job_rec r;
    size_t at = 0;
    if (log->n_was < HEADER && memcmp(log->was, MAGIC, SK_MIN(log->n_was, sizeof MAGIC)) == 0)
        return sk_joblog_clear(log, err); /* the file is new, or its creation was interrupted */
    if (log->n_was < HEADER || memcmp(log->was, MAGIC, sizeof MAGIC) != 0)
        return SK_ERR(err, SK_ECORRUPT,
                      "job log: %s is no log of a job; remove it, or choose another folder",
                      log->path);
    memcpy(&version, log->was + 8, 4);
    memcpy(&crc, log->was + 12, 4);
    if (crc != sk_crc32c(0, log->was, 12))
        return SK_ERR(err, SK_ECORRUPT,
                      "job log: the head of %s is damaged; remove it to start the job anew",
                      log->path);
    if (version != VERSION)
        return SK_ERR(err, SK_ECORRUPT,
                      "job log: %s has version %u, and this skate knows %u; finish the job with "
                      "the skate that began it, or remove the log",
                      log->path, version, VERSION);
    while (sk_job_next(log->was, log->n_was, &at, &log->crc, &r)) {}
    log->end = at ? at : HEADER;
    log->n_cut = log->n_was - log->end;
    log->n_was = (size_t)log->end;
    SK_FAULT_HERE("joblog.cut");
    if (log->n_cut && ftruncate(log->fd, (off_t)log->end) < 0)
        return SK_ERR_SYS(err, "job log: cannot cut the torn end off %s", log->path);
    return SK_OK;
}

sk_rc sk_joblog_open(const char *path, struct sk_joblog **out, struct sk_err *err) {
    struct sk_joblog *log = sk_calloc(TAG, sizeof *log);
    if (!log) return SK_ERR(err, SK_ENOMEM, "job log %s", path);
    log->fd = -1;
    sk_rc rc = SK_OK;
    if ((size_t)snprintf(log->path, sizeof log->path, "%s", path) >= sizeof log->path)
        rc = SK_ERR(err, SK_EINVAL, "job log: the path is too long");
    else if ((log->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        rc = SK_ERR_SYS(err, "job log: cannot open %s", path);
    else if (flock(log->fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK
                 ? SK_ERR(err, SK_EAGAIN,
                          "job log: another process works on the job of %s; wait for it, or end it",
                          path)
                 : SK_ERR_SYS(err, "job log: cannot lock %s", path);
    else if ((rc = load(log, err)) == SK_OK) rc = check(log, err);
    if (rc == SK_OK) *out = log;
    else sk_joblog_close(&log);
    return rc;
}

void sk_joblog_close(struct sk_joblog **plog) {
    struct sk_joblog *log = *plog;
    *plog = NULL;
    if (!log) return;
    if (log->fd >= 0) close(log->fd);
    sk_free(log->was);
    sk_free(log->buf);
    sk_free(log);
}

struct sk_bytes sk_joblog_bytes(const struct sk_joblog *log) {
    return (struct sk_bytes){log->was, log->n_was};
}
uint64_t sk_joblog_cut(const struct sk_joblog *log) { return log->n_cut; }

sk_rc sk_joblog_append(struct sk_joblog *log, const struct sk_job_rec *r,
                       const struct sk_job_part *parts, const struct sk_job_file *files,
                       struct sk_err *err) {
    if (log->broken)
        return SK_ERR(err, SK_EIO, "job log: an earlier write to %s failed; run again to resume",
                      log->path);
    struct sk_wr w = sk_wr_init(NULL, 0);
    sk_job_write(&w, r, parts, files);
    uint32_t n = (uint32_t)w.n, head[2];
    if (w.n > RECORD_MAX)
        return SK_ERR(err, SK_EINVAL, "job log: a record of %zu bytes (at most %u)", w.n,
                      RECORD_MAX);
    if (w.n > log->cap) {
        uint8_t *p = sk_realloc(TAG, log->buf, w.n * 2);
        if (!p) return SK_ERR(err, SK_ENOMEM, "job log: a record of %zu bytes", w.n);
        log->buf = p;
        log->cap = w.n * 2;
    }
    w = sk_wr_init(log->buf, log->cap);
    sk_job_write(&w, r, parts, files);
    head[0] = n;
    head[1] = record_crc(log->crc, n, log->buf);
    log->broken = true;
    SK_FAULT_HERE("joblog.before");
    SK_TRY(write_all(log, head, sizeof head, log->end, err));
    SK_FAULT_HERE("joblog.torn");
    SK_TRY(write_all(log, log->buf, n / 2, log->end + sizeof head, err));
    SK_FAULT_HERE("joblog.half");
    SK_TRY(write_all(log, log->buf + n / 2, n - n / 2, log->end + sizeof head + n / 2, err));
    SK_FAULT_HERE("joblog.written");
    log->broken = false;
    log->end += sizeof head + n;
    log->crc = head[1];
    return SK_OK;
}

sk_rc sk_joblog_sync(struct sk_joblog *log, struct sk_err *err) {
    if (SK_FAULT("joblog.sync") || fdatasync(log->fd) < 0) {
        /* after a failed sync the kernel has dropped the pages and will not write them later */
        log->broken = true;
        return SK_ERR_SYS(err, "job log: cannot sync %s", log->path);
    }
    SK_FAULT_HERE("joblog.synced");
    return SK_OK;
}

/* Renames, but fails with EEXIST if there is a file at `to`. On a file system without
 * RENAME_NOREPLACE (NFS, for one) this links the file under the second name; on one without hard
 * links it creates an empty file at `to`, which reserves the name. */
static int place(const char *from, const char *to) {
    if (!SK_FAULT("job.noreplace")) {
        if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
        if (errno != EINVAL && errno != ENOSYS) return -1;
    }
    if (!SK_FAULT("job.link")) {
        struct stat a, b;
        if (link(from, to) == 0) return unlink(from);
        int e = errno;
        if (e == EEXIST && stat(from, &a) == 0 && stat(to, &b) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return unlink(from); /* an earlier move was killed between link and unlink */
        errno = e;
        if (e != EPERM && e != EOPNOTSUPP && e != ENOSYS && e != EMLINK) return -1;
    }
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    close(fd);
    if (rename(from, to) == 0) return 0;
    int e = errno;
    unlink(to);
    errno = e;
    return -1;
}

sk_rc sk_job_move(const char *from, const char *to, bool replace, struct sk_err *err) {
    SK_FAULT_HERE("job.move");
    if ((replace ? rename(from, to) : place(from, to)) < 0) {
        if (errno == ENOENT)
            return SK_ERR(err, SK_ENOENT, "move %s to %s: there is no such file", from, to);
        if (errno == EEXIST)
            return SK_ERR(err, SK_EEXIST, "move %s to %s: there is a file of that name already",
                          from, to);
        return SK_ERR_SYS(err, "move %s to %s", from, to);
    }
    SK_FAULT_HERE("job.moved");
    return SK_OK;
}

sk_rc sk_job_sync_dir(const char *path, struct sk_err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return SK_ERR_SYS(err, "sync %s", path);
    int r = fsync(fd);
    int e = errno;
    close(fd);
    errno = e;
    SK_FAULT_HERE("job.synced");
    return r < 0 ? SK_ERR_SYS(err, "sync %s", path) : SK_OK;
}
