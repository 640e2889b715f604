/* spill_io.c - the threads that write and read spilled objects. They need neither objects nor the
 * book: each job names its places on disk and its memory.
 *
 * Bytes pass through a buffer of 4 MiB a thread: O_DIRECT needs aligned memory, which extents are
 * not, and the copy costs a tenth of the disk's time. O_DIRECT is used because the page cache would
 * keep a second copy of what has just left memory, and throttles the writer at random; where a file
 * system refuses it, each piece is written out and dropped from the cache at once. Two threads
 * write: one sums and copies while the other waits for the disk. They and four more read, through 1
 * MiB each, and several of them share one job: a disk gives small parts of objects one after the
 * other at a quarter of the rate at which it gives them in parallel. Reads come before writes,
 * since somebody waits for them, and before holes, because a file system stops the reads of a file
 * while it punches. An idle thread frees its buffer after a second.
 *
 * Every byte read is checked: each chunk of 4 KiB has a checksum that starts from the object's
 * identity; a mismatch is SK_ECORRUPT. A read of a part of an object reads the chunks that the part
 * touches. The files have no name at any moment. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/mem.h"
#include "ipc/ipc.h"
#include "store/spill_int.h"

/* larger gaps in bytes between two objects, or parts, are skipped and not read */
#define GAP_MAX (UINT64_C(64) << 10)

/* ---- files ----------------------------------------------------------------------------------- */

/* For file systems without O_TMPFILE: the file's name exists for one system call. */
static int open_unlinked(const char *dir) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/skate-spill-XXXXXX", dir) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

int sk_spill_nameless(const char *dir, bool *direct) {
    const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL;
    bool want = *direct;
    int fd = SK_FAULT("spill.open") ? (errno = EMFILE, -1)
             : sk_machine_          ? sk_machine_->file_open(sk_machine_->ctx)
                                    : open(dir, want ? flags | O_DIRECT : flags, 0600);
    *direct = want && fd >= 0;
    if (fd < 0 && errno == EINVAL && want) fd = open(dir, flags, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        fd = open_unlinked(dir);
        *direct = want && fd >= 0 && fcntl(fd, F_SETFL, O_DIRECT) == 0;
    }
    return fd;
}

static sk_rc file_open(struct sk_spill *sp, struct sk_spill_file *f, struct sk_err *err) {
    const char *dir = f->place->path;
    sk_rc rc = SK_OK;
    pthread_mutex_lock(&sp->open_mu);
    if (f->fd < 0) {
        bool direct = true;
        int fd = sk_spill_nameless(dir, &direct);
        if (fd < 0) {
            rc = SK_ERR_SYS(err, "spill: cannot make a file in %s", dir);
        } else {
            f->direct = direct;
            f->fd = fd;
            pthread_mutex_lock(&sp->mu);
            sp->n_files++;
            pthread_mutex_unlock(&sp->mu);
        }
    }
    pthread_mutex_unlock(&sp->open_mu);
    return rc;
}

void sk_spill_file_close(struct sk_spill *sp, struct sk_spill_file *f) {
    pthread_mutex_lock(&sp->mu);
    SK_ASSERT(f->fd < 0 || sp->n_files);
    sk_list_del(&f->link);
    if (f->fd >= 0) sp->n_files--;
    pthread_mutex_unlock(&sp->mu);
    if (f->fd >= 0 && sk_machine_) sk_machine_->file_close(sk_machine_->ctx, f->fd);
    else if (f->fd >= 0) close(f->fd);
    sk_free(f);
}

static sk_rc failed(const struct sk_spill_file *f, const char *what, struct sk_err *err) {
    /* EFBIG, from a limit on file sizes, counts as a full disk */
    if (errno == EFBIG) errno = ENOSPC;
    return SK_ERR_SYS(err, "spill: %s in %s", what, f->place->path);
}

static sk_rc write_at(struct sk_spill_file *f, const uint8_t *p, size_t n, uint64_t off,
                      struct sk_err *err) {
    /* O_DIRECT takes whole pages only */
    SK_ASSERT(f->fd >= 0 && n % SK_SPILL_PAGE == 0 && off % SK_SPILL_PAGE == 0);
    while (n) {
        ssize_t k = SK_FAULT("spill.write")     ? (errno = EIO, -1)
                    : SK_FAULT("spill.nospace") ? (errno = ENOSPC, -1)
                    : sk_machine_ ? sk_machine_->file_write(sk_machine_->ctx, f->fd, p, n, off)
                                  : pwrite(f->fd, p, n, (off_t)off);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return failed(f, "writing", err);
        /* a short write is rounded down to pages; the next call says why it was short */
        k &= ~(ssize_t)(SK_SPILL_PAGE - 1);
        if (k == 0) {
            errno = ENOSPC;
            return failed(f, "writing", err);
        }
        if (!f->direct) {
            (void)sync_file_range(f->fd, (off_t)off, k,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                      SYNC_FILE_RANGE_WAIT_AFTER);
            (void)posix_fadvise(f->fd, (off_t)off, k, POSIX_FADV_DONTNEED);
        }
        p += k, off += (uint64_t)k, n -= (size_t)k;
    }
    return SK_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct out {
    struct sk_spill_io *io;
    struct sk_spill_file *f;
    uint64_t off;
    size_t fill;
    struct sk_err *err;
};

static sk_rc flush(struct out *o) {
    if (atomic_load_explicit(&o->io->sp->stop, memory_order_relaxed))
        return SK_ERR(o->err, SK_ECLOSED, "spill: shut down");
    SK_TRY(write_at(o->f, o->io->buf, o->fill, o->off, o->err));
    o->off += o->fill;
    o->fill = 0;
    return SK_OK;
}

static sk_rc append(struct out *o, const void *bytes, uint64_t n) { /* bytes NULL: appends zeros */
    const uint8_t *p = bytes;
    while (n) {
        size_t k = SK_MIN((size_t)n, SK_SPILL_BUF - o->fill);
        if (p) memcpy(o->io->buf + o->fill, p, k), p += k;
        else memset(o->io->buf + o->fill, 0, k);
        o->fill += k;
        SK_DCHECK(o->fill <= SK_SPILL_BUF);
        n -= k;
        if (o->fill == SK_SPILL_BUF) SK_TRY(flush(o));
    }
    return SK_OK;
}

uint32_t sk_spill_sum(uint64_t id, uint64_t len, uint64_t chunk) {
    const uint64_t whose[] = {id, len, chunk};
    return sk_crc32c(0, whose, sizeof whose);
}

static sk_rc write_item(struct out *o, const struct sk_spill_item *x) {
    uint64_t n = sk_spill_n_chunks(x->len), spoil = SK_FAULT("spill.corrupt") ? n / 2 : n;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *p = x->bytes + i * SK_SPILL_CHUNK;
        size_t k = (size_t)SK_MIN(SK_SPILL_CHUNK, x->len - i * SK_SPILL_CHUNK);
        uint32_t sum = sk_crc32c(sk_spill_sum(x->id, x->len, i), p, k) ^ (i == spoil);
        SK_TRY(append(o, &sum, sizeof sum));
        SK_TRY(append(o, p, k));
    }
    return append(o, NULL, sk_spill_on_disk(x->len) - x->len - n * SK_SPILL_SUM);
}

static sk_rc do_write(struct sk_spill_io *io, struct sk_spill_job *job, struct sk_err *err) {
    struct sk_spill_stretch *s = job->items[0].at.stretch;
    SK_TRY(file_open(io->sp, s->file, err));
    struct out o = {io, s->file, s->off, 0, err};
    for (uint32_t i = 0; i < job->n; i++) SK_TRY(write_item(&o, &job->items[i]));
    SK_FAULT_HERE("spill.before_last_write");
    SK_TRY(append(&o, NULL, SK_ALIGN(o.off + o.fill, SK_SPILL_PAGE) - (o.off + o.fill)));
    SK_TRY(flush(&o));
    SK_ASSERT(o.off == s->off + s->len);
    return SK_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct in { /* a window of a file in the thread's buffer */
    struct sk_spill_io *io;
    struct sk_spill_file *f;
    uint64_t at, n;   /* the buffer has [at, at + n) of the file */
    uint64_t run_end; /* end of the run of wanted bytes without large gaps */
    struct sk_err *err;
};

/* Makes at least one byte at `off` available; *have: the number of bytes that are. */
static sk_rc look(struct in *r, uint64_t off, const uint8_t **p, uint64_t *have) {
    if (off < r->at || off >= r->at + r->n) {
        r->at = off & ~(uint64_t)(SK_SPILL_PAGE - 1);
        r->n = 0;
        SK_ASSERT(off < r->run_end);
        uint64_t want = SK_MIN(SK_ALIGN(r->run_end, SK_SPILL_PAGE) - r->at, SK_SPILL_LOOK);
        ssize_t k;
        do {
            k = SK_FAULT("spill.read") ? (errno = EIO, -1)
                : sk_machine_ ? sk_machine_->file_read(sk_machine_->ctx, r->f->fd, r->io->buf,
                                                       (size_t)want, r->at)
                              : pread(r->f->fd, r->io->buf, (size_t)want, (off_t)r->at);
        } while (k < 0 && errno == EINTR);
        if (k < 0) return failed(r->f, "reading", r->err);
        if (!r->f->direct) (void)posix_fadvise(r->f->fd, (off_t)r->at, k, POSIX_FADV_DONTNEED);
        r->n = (uint64_t)k;
        atomic_fetch_add_explicit(&r->io->sp->io_read_bytes, r->n, memory_order_relaxed);
        if (off >= r->at + r->n)
            return SK_ERR(
                r->err, SK_ECORRUPT,
                "spill: a file in %s ends at %llu, where object bytes should be: somebody cut it",
                r->f->place->path, (unsigned long long)(r->at + r->n));
    }
    *p = r->io->buf + (off - r->at);
    *have = r->at + r->n - off;
    return SK_OK;
}

static sk_rc copy_out(struct in *r, uint64_t off, void *to, uint64_t n) {
    uint8_t *q = to;
    while (n) {
        const uint8_t *p = NULL; /* gcc cannot see that look() sets `p` (TSan build) */
        uint64_t have = 0;
        SK_TRY(look(r, off, &p, &have));
        SK_ASSERT(p && have);
        have = SK_MIN(have, n);
        memcpy(q, p, (size_t)have);
        q += have, off += have, n -= have;
    }
    return SK_OK;
}

static uint64_t item_last(const struct sk_spill_item *x) { /* number of the last chunk to read */
    return x->part_len ? (x->part_at + x->part_len - 1) / SK_SPILL_CHUNK
                       : sk_spill_n_chunks(x->len) - 1;
}
static uint64_t item_end(const struct sk_spill_item *x) { /* end in the file */
    uint64_t n = item_last(x) + 1;
    return x->at.off + n * SK_SPILL_SUM + SK_MIN(n * SK_SPILL_CHUNK, x->len);
}

/* Reads chunk i and sums it; copies its wanted bytes to x->bytes. */
static sk_rc read_chunk(struct in *r, const struct sk_spill_item *x, uint64_t i, uint32_t *crc) {
    uint64_t off = x->at.off + sk_spill_chunk_at(i) + SK_SPILL_SUM, at = i * SK_SPILL_CHUNK,
             end = SK_MIN(at + SK_SPILL_CHUNK, x->len);
    uint64_t from = x->part_len ? x->part_at : 0,
             to = x->part_len ? x->part_at + x->part_len : x->len;
    *crc = sk_spill_sum(x->id, x->len, i);
    while (at < end) {
        const uint8_t *p = NULL; /* gcc cannot see that look() sets `p` (TSan build) */
        uint64_t have = 0;
        SK_TRY(look(r, off, &p, &have));
        SK_ASSERT(p && have);
        have = SK_MIN(have, end - at);
        *crc = sk_crc32c(*crc, p, (size_t)have);
        uint64_t a = SK_MAX(at, from), b = SK_MIN(at + have, to);
        if (a < b) memcpy(x->bytes + (a - from), p + (a - at), (size_t)(b - a));
        at += have, off += have;
    }
    return SK_OK;
}

static sk_rc read_item(struct in *r, const struct sk_spill_item *x) {
    for (uint64_t i = sk_spill_first_chunk(x); i <= item_last(x); i++) {
        uint32_t sum, crc;
        SK_TRY(copy_out(r, x->at.off + sk_spill_chunk_at(i), &sum, sizeof sum));
        SK_TRY(read_chunk(r, x, i, &crc));
        if (crc == sum) continue;
        return SK_ERR(r->err, SK_ECORRUPT,
                      "spill: object %llu (%llu bytes) came back from %s with a wrong checksum: "
                      "the disk, or somebody, changed it",
                      (unsigned long long)x->id, (unsigned long long)x->len, r->f->place->path);
    }
    return SK_OK;
}

/* Returns the end of a run of items from `from` on: all in one file, with gaps that are small
 * enough to be read. *end: the end of the run in the file. */
static uint32_t run_of(const struct sk_spill_job *job, uint32_t from, uint64_t *end) {
    const struct sk_spill_item *x = &job->items[from];
    uint32_t to = from + 1;
    *end = item_end(x);
    for (; to < job->n; to++) {
        const struct sk_spill_item *y = &job->items[to];
        if (y->at.stretch->file != x->at.stretch->file || sk_spill_begins(y) > *end + GAP_MAX)
            break;
        *end = SK_MAX(*end, item_end(y));
    }
    return to;
}

static sk_rc no_buffer(struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "spill: no memory for a buffer");
}

/* Reads one run of a job; other threads read the next runs. */
static void read_run(struct sk_spill_io *io, struct sk_spill_job *job, uint32_t from, uint32_t to,
                     uint64_t end) {
    struct sk_err err;
    struct in r = {.io = io, .f = job->items[from].at.stretch->file, .run_end = end, .err = &err};
    for (uint32_t i = from; i < to; i++) {
        struct sk_spill_item *x = &job->items[i];
        x->rc = io->buf ? read_item(&r, x) : no_buffer(&err);
        if (x->rc == SK_OK) continue;
        r.n = 0;
        pthread_mutex_lock(&io->sp->mu);
        job->rc = x->rc;
        job->err = err;
        pthread_mutex_unlock(&io->sp->mu);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void punch(struct sk_spill_file *f, uint64_t off, uint64_t len) {
    if (f->fd < 0 || SK_FAULT("spill.punch")) return;
    if (sk_machine_) sk_machine_->file_punch(sk_machine_->ctx, f->fd, off, len);
    else (void)fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len);
}

static void let_file_go(struct sk_spill *sp, struct sk_spill_file *f) {
    pthread_mutex_lock(&sp->mu);
    SK_ASSERT(f->refs);
    bool last = --f->refs == 0;
    pthread_mutex_unlock(&sp->mu);
    if (last) sk_spill_file_close(sp, f);
}

static void make_holes(struct sk_spill *sp, struct sk_spill_holes *h) {
    for (uint32_t i = 0; i < h->n; i++) punch(h->file, h->run[i].off, h->run[i].len);
    let_file_go(sp, h->file);
    sk_free(h);
}

static void give_back(struct sk_spill *sp, struct sk_spill_stretch *s) {
    struct sk_spill_file *f = s->file;
    SK_DCHECK(s->n_live == 0);
    pthread_mutex_lock(&sp->mu);
    bool last = f->refs == 1;
    pthread_mutex_unlock(&sp->mu);
    /* on a file system that cannot punch holes, the space is freed with the file */
    if (!last) punch(f, s->off, s->len);
    let_file_go(sp, f);
    sk_free(s->pages);
    sk_free(s);
}

static void need_buffer(struct sk_spill_io *io) {
    if (!io->buf)
        io->buf = sk_alloc_aligned(SK_TAG_STORE, SK_SPILL_PAGE,
                                   io->writes ? SK_SPILL_BUF : SK_SPILL_LOOK);
}

/* Marks the job as finished. Call with mu held. */
static void job_over(struct sk_spill *sp, struct sk_spill_job *job) {
    sk_list_push_back(&sp->done, &job->link);
    atomic_fetch_add_explicit(&sp->n_done, 1, memory_order_release);
}

/* Reads the next run of the job. Called with mu held, which it drops while it reads; returns
 * without mu. */
static void turn_read_unlocked(struct sk_spill_io *io, struct sk_spill_job *job) {
    struct sk_spill *sp = io->sp;
    uint64_t end;
    uint32_t from = job->n_begun, to = run_of(job, from, &end);
    job->n_begun = to;
    if (to == job->n) sk_list_del(&job->link);
    if (!sk_list_empty(&sp->reads)) pthread_cond_signal(&sp->more_reads);
    pthread_mutex_unlock(&sp->mu);
    need_buffer(io);
    read_run(io, job, from, to, end);
    pthread_mutex_lock(&sp->mu);
    job->n_over += to - from;
    bool over = job->n_over == job->n;
    if (over) job_over(sp, job);
    pthread_mutex_unlock(&sp->mu);
    if (over && sp->wake) sp->wake(sp->wake_arg);
}

static void turn_write_unlocked(struct sk_spill_io *io, struct sk_spill_job *job) {
    struct sk_spill *sp = io->sp;
    uint64_t bytes = job->items[0].at.stretch->len;
    sk_list_del(&job->link);
    if (!sp->n_writing++) sp->counted_ns = sk_now_ns();
    pthread_mutex_unlock(&sp->mu);
    need_buffer(io);
    job->rc = io->buf ? do_write(io, job, &job->err) : no_buffer(&job->err);
    pthread_mutex_lock(&sp->mu);
    int64_t now = sk_now_ns();
    sp->n_writing--;
    atomic_fetch_add_explicit(&sp->write_ns, now - sp->counted_ns, memory_order_relaxed);
    sp->counted_ns = now;
    if (job->rc == SK_OK)
        atomic_fetch_add_explicit(&sp->io_written_bytes, bytes, memory_order_relaxed);
    job_over(sp, job);
    pthread_mutex_unlock(&sp->mu);
    if (sp->wake) sp->wake(sp->wake_arg);
}

/* Does one piece of work. Called with mu held and returns with it, but drops it meanwhile. false:
 * there is nothing to do. */
static bool turn_unlocked(struct sk_spill_io *io) {
    struct sk_spill *sp = io->sp;
    struct sk_list *it;
    if ((it = sk_list_first(&sp->reads))) {
        turn_read_unlocked(io, sk_container_of(it, struct sk_spill_job, link));
    } else if (io->writes && (it = sk_list_first(&sp->dead))) {
        /* a stretch is freed before anything is written: the write may need its disk space */
        sk_list_del(it);
        pthread_mutex_unlock(&sp->mu);
        give_back(sp, sk_container_of(it, struct sk_spill_stretch, link));
    } else if (io->writes && (it = sk_list_first(&sp->holes))) {
        sk_list_del(it);
        pthread_mutex_unlock(&sp->mu);
        make_holes(sp, sk_container_of(it, struct sk_spill_holes, link));
    } else if (io->writes && (it = sk_list_first(&sp->writes))) {
        turn_write_unlocked(io, sk_container_of(it, struct sk_spill_job, link));
    } else {
        return false;
    }
    pthread_mutex_lock(&sp->mu);
    return true;
}

bool sk_spill_turn(void *arg) {
    struct sk_spill *sp = arg;
    struct sk_spill_io io = {.sp = sp, .writes = true};
    pthread_mutex_lock(&sp->mu);
    bool any = turn_unlocked(&io);
    pthread_mutex_unlock(&sp->mu);
    sk_free(io.buf);
    return any;
}

void *sk_spill_thread(void *arg) {
    struct sk_spill_io *io = arg;
    struct sk_spill *sp = io->sp;
    pthread_cond_t *more = io->writes ? &sp->more : &sp->more_reads;
    pthread_mutex_lock(&sp->mu);
    while (!sp->stop) {
        if (turn_unlocked(io)) continue;
        if (io->buf) {
            int64_t until = sk_now_ns() + 1000000000;
            struct timespec ts = {until / 1000000000, until % 1000000000};
            if (pthread_cond_timedwait(more, &sp->mu, &ts) == ETIMEDOUT) {
                sk_free(io->buf);
                io->buf = NULL;
            }
        } else {
            pthread_cond_wait(more, &sp->mu);
        }
    }
    pthread_mutex_unlock(&sp->mu);
    sk_free(io->buf);
    return NULL;
}
