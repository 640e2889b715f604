/* spill_io.c - the threads that write and read spilled objects. They know no object and no book: a job says what lies where.
 *
 * Bytes pass through a buffer of 4 MiB a thread: O_DIRECT needs aligned memory, which extents are not, and the copy costs a tenth of the disk.
 * O_DIRECT because the page cache would hold a second copy of what was just put out of memory, and throttles the writer at random; where a file
 * system refuses it, each piece is pushed out and dropped from the cache behind it. Two threads: one sums and copies while the other waits for
 * the disk. Reads go before writes: somebody waits for them. An idle thread gives its buffer back after a second.
 *
 * Every byte read is checked: magic, id, length and checksum must be what was written, else SK_ECORRUPT. Of a part of an object, head and sums are read, and the
 * chunks that it lies in. Files have no name at any moment. */
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

#define GAP_MAX (UINT64_C(256) << 10) /* bytes between two objects that are read rather than skipped */

struct io {
    struct sk_spill *sp;
    uint8_t *buf;
};

/* ---- files ----------------------------------------------------------------------------------------------------------------------------- */

/* File systems without O_TMPFILE: a name that lives for one system call. */
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
    if (errno == EFBIG) errno = ENOSPC; /* a limit on file sizes: no more room, as far as we are concerned */
    return SK_ERR_SYS(err, "spill: %s in %s", what, f->place->path);
}

static sk_rc write_at(struct sk_spill_file *f, const uint8_t *p, size_t n, uint64_t off, struct sk_err *err) {
    SK_ASSERT(f->fd >= 0 && n % SK_SPILL_PAGE == 0 && off % SK_SPILL_PAGE == 0); /* O_DIRECT takes nothing else */
    while (n) {
        ssize_t k = SK_FAULT("spill.write")     ? (errno = EIO, -1)
                    : SK_FAULT("spill.nospace") ? (errno = ENOSPC, -1)
                    : sk_machine_               ? sk_machine_->file_write(sk_machine_->ctx, f->fd, p, n, off)
                                                : pwrite(f->fd, p, n, (off_t)off);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return failed(f, "writing", err);
        k &= ~(ssize_t)(SK_SPILL_PAGE - 1); /* what was cut short is written again: the next call says why */
        if (k == 0) {
            errno = ENOSPC;
            return failed(f, "writing", err);
        }
        if (!f->direct) {
            (void)sync_file_range(f->fd, (off_t)off, k, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
            (void)posix_fadvise(f->fd, (off_t)off, k, POSIX_FADV_DONTNEED);
        }
        p += k, off += (uint64_t)k, n -= (size_t)k;
    }
    return SK_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------------- */

struct out {
    struct io *io;
    struct sk_spill_file *f;
    uint64_t off;
    size_t fill;
    struct sk_err *err;
};

static sk_rc flush(struct out *o) {
    if (atomic_load_explicit(&o->io->sp->stop, memory_order_relaxed)) return SK_ERR(o->err, SK_ECLOSED, "spill: shut down");
    SK_TRY(write_at(o->f, o->io->buf, o->fill, o->off, o->err));
    o->off += o->fill;
    o->fill = 0;
    return SK_OK;
}

static sk_rc append(struct out *o, const void *bytes, uint64_t n) { /* NULL: zeros */
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

/* Of each 64 KiB of an object; NULL: no memory. */
static uint32_t *sums_of(const uint8_t *p, uint64_t len) {
    uint64_t n = sk_spill_n_sums(len);
    uint32_t *sum = sk_alloc(SK_TAG_STORE, n * sizeof *sum);
    for (uint64_t i = 0; sum && i < n; i++) {
        uint64_t at = i * SK_SPILL_CHUNK;
        sum[i] = sk_crc32c(0, p + at, (size_t)SK_MIN(SK_SPILL_CHUNK, len - at));
    }
    return sum;
}

static sk_rc write_item(struct out *o, const struct sk_spill_item *x) {
    struct sk_spill_head h = {.magic = SK_SPILL_MAGIC, .version = 1, .id = x->id, .len = x->len};
    uint64_t n_sums = sk_spill_n_sums(x->len), bytes = n_sums * sizeof(uint32_t);
    uint32_t *sum = n_sums ? sums_of(x->bytes, x->len) : NULL;
    if (n_sums && !sum) return SK_ERR(o->err, SK_ENOMEM, "spill: no memory for checksums");
    h.crc = sum ? sk_crc32c(0, sum, (size_t)bytes) : sk_crc32c(0, x->bytes, (size_t)x->len);
    if (SK_FAULT("spill.corrupt")) {
        if (sum) sum[n_sums / 2] ^= 1, h.crc = sk_crc32c(0, sum, (size_t)bytes);
        else h.crc ^= 1;
    }
    h.head_crc = sk_crc32c(0, &h, offsetof(struct sk_spill_head, head_crc));
    sk_rc rc = append(o, &h, sizeof h);
    if (rc == SK_OK && sum) rc = append(o, sum, bytes);
    if (rc == SK_OK && sum) rc = append(o, NULL, sk_spill_body(x->len) - SK_SPILL_HEAD - bytes);
    sk_free(sum);
    SK_TRY(rc);
    SK_TRY(append(o, x->bytes, x->len));
    return append(o, NULL, SK_ALIGN(x->len, SK_SPILL_HEAD) - x->len);
}

static sk_rc do_write(struct io *io, struct sk_spill_job *job, struct sk_err *err) {
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

/* ---- reading ---------------------------------------------------------------------------------------------------------------------------- */

struct in { /* a window of a file */
    struct io *io;
    struct sk_spill_file *f;
    uint64_t at, n;   /* in the buffer: [at, at + n) */
    uint64_t run_end; /* what is wanted without large gaps ends here */
    struct sk_err *err;
};

/* At least one byte at `off`; *have: how many there are. */
static sk_rc look(struct in *r, uint64_t off, const uint8_t **p, uint64_t *have) {
    if (off < r->at || off >= r->at + r->n) {
        r->at = off & ~(uint64_t)(SK_SPILL_PAGE - 1);
        r->n = 0;
        SK_ASSERT(off < r->run_end);
        uint64_t want = SK_MIN(SK_ALIGN(r->run_end, SK_SPILL_PAGE) - r->at, SK_SPILL_BUF);
        ssize_t k;
        do {
            k = SK_FAULT("spill.read") ? (errno = EIO, -1)
                : sk_machine_          ? sk_machine_->file_read(sk_machine_->ctx, r->f->fd, r->io->buf, (size_t)want, r->at)
                                       : pread(r->f->fd, r->io->buf, (size_t)want, (off_t)r->at);
        } while (k < 0 && errno == EINTR);
        if (k < 0) return failed(r->f, "reading", r->err);
        if (!r->f->direct) (void)posix_fadvise(r->f->fd, (off_t)r->at, k, POSIX_FADV_DONTNEED);
        r->n = (uint64_t)k;
        atomic_fetch_add_explicit(&r->io->sp->io_read_bytes, r->n, memory_order_relaxed);
        if (off >= r->at + r->n)
            return SK_ERR(r->err, SK_ECORRUPT, "spill: a file in %s ends at %llu, where object bytes should be: somebody cut it",
                          r->f->place->path, (unsigned long long)(r->at + r->n));
    }
    *p = r->io->buf + (off - r->at);
    *have = r->at + r->n - off;
    return SK_OK;
}

static sk_rc copy_out(struct in *r, uint64_t off, void *to, uint64_t n) {
    uint8_t *q = to;
    while (n) {
        const uint8_t *p = NULL; /* gcc cannot see that look sets both (TSan build) */
        uint64_t have = 0;
        SK_TRY(look(r, off, &p, &have));
        SK_ASSERT(p && have);
        have = SK_MIN(have, n);
        memcpy(q, p, (size_t)have);
        q += have, off += have, n -= have;
    }
    return SK_OK;
}

/* The bytes [0, n) that belong there, against the sums; `crc`: as in the head. */
static bool whole_is(const uint8_t *p, uint64_t len, uint32_t crc) {
    if (!sk_spill_n_sums(len)) return crc == sk_crc32c(0, p, (size_t)len);
    uint32_t all = 0;
    for (uint64_t at = 0; at < len; at += SK_SPILL_CHUNK) {
        uint32_t sum = sk_crc32c(0, p + at, (size_t)SK_MIN(SK_SPILL_CHUNK, len - at));
        all = sk_crc32c(all, &sum, sizeof sum);
    }
    return all == crc;
}

/* Of one chunk, what belongs to the part goes out; all of it is summed. */
static sk_rc read_chunk(struct in *r, const struct sk_spill_item *x, uint64_t from, uint64_t to, uint32_t *crc) {
    uint64_t body = x->at.off + sk_spill_body(x->len), end = x->part_at + x->part_len;
    *crc = 0;
    while (from < to) {
        const uint8_t *p = NULL;
        uint64_t have = 0;
        SK_TRY(look(r, body + from, &p, &have));
        SK_ASSERT(p && have);
        have = SK_MIN(have, to - from);
        *crc = sk_crc32c(*crc, p, (size_t)have);
        uint64_t a = SK_MAX(from, x->part_at), b = SK_MIN(from + have, end);
        if (a < b) memcpy(x->bytes + (a - x->part_at), p + (a - from), (size_t)(b - a));
        from += have;
    }
    return SK_OK;
}

/* Whole chunks are read, so that what is given out was checked. *what: what is wrong. */
static sk_rc read_part(struct in *r, const struct sk_spill_item *x, uint32_t head_crc, const char **what) {
    uint64_t n = sk_spill_n_sums(x->len), first = x->part_at / SK_SPILL_CHUNK, last = (x->part_at + x->part_len - 1) / SK_SPILL_CHUNK;
    uint32_t *sum = sk_alloc(SK_TAG_STORE, SK_MAX(n, 1) * sizeof *sum), crc = 0;
    if (!sum) return SK_ERR(r->err, SK_ENOMEM, "spill: no memory for checksums");
    sum[0] = head_crc;
    sk_rc rc = n ? copy_out(r, x->at.off + SK_SPILL_HEAD, sum, n * sizeof *sum) : SK_OK;
    if (rc == SK_OK && n && sk_crc32c(0, sum, (size_t)(n * sizeof *sum)) != head_crc) *what = "table of checksums";
    r->run_end = x->at.off + sk_spill_body(x->len) + SK_MIN((last + 1) * SK_SPILL_CHUNK, x->len);
    for (uint64_t i = first; rc == SK_OK && !*what && i <= last; i++) {
        rc = read_chunk(r, x, i * SK_SPILL_CHUNK, SK_MIN((i + 1) * SK_SPILL_CHUNK, x->len), &crc);
        if (rc == SK_OK && crc != sum[i]) *what = "checksum";
    }
    sk_free(sum);
    return rc;
}

static sk_rc read_item(struct in *r, const struct sk_spill_item *x) {
    struct sk_spill_head h;
    SK_TRY(copy_out(r, x->at.off, &h, sizeof h));
    const char *what = NULL;
    if (h.magic != SK_SPILL_MAGIC || h.version != 1 || h.head_crc != sk_crc32c(0, &h, offsetof(struct sk_spill_head, head_crc)))
        what = "head";
    else if (h.id != x->id || h.len != x->len) what = "id";
    if (!what && x->part_len) {
        SK_TRY(read_part(r, x, h.crc, &what));
    } else if (!what) {
        SK_TRY(copy_out(r, x->at.off + sk_spill_body(x->len), x->bytes, x->len));
        if (!whole_is(x->bytes, x->len, h.crc)) what = "checksum";
    }
    if (!what) return SK_OK;
    return SK_ERR(r->err, SK_ECORRUPT,
                  "spill: object %llu (%llu bytes) came back from %s with a wrong %s: the disk, or somebody, changed it",
                  (unsigned long long)x->id, (unsigned long long)x->len, r->f->place->path, what);
}

/* Of a part, first its sums. */
static uint64_t item_end(const struct sk_spill_item *x) { return x->at.off + sk_spill_body(x->len) + (x->part_len ? 0 : x->len); }

static void do_read(struct io *io, struct sk_spill_job *job) {
    struct in r = {.io = io, .err = &job->err};
    uint32_t run = 0; /* items before this one are within run_end */
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        if (i >= run) {
            r.run_end = item_end(x);
            for (run = i + 1; run < job->n && !x->part_len && !job->items[run].part_len &&
                              job->items[run].at.stretch->file == x->at.stretch->file && job->items[run].at.off <= r.run_end + GAP_MAX;
                 run++)
                r.run_end = SK_MAX(r.run_end, item_end(&job->items[run]));
        }
        if (r.f != x->at.stretch->file) {
            r.f = x->at.stretch->file;
            r.n = 0;
        }
        x->rc = read_item(&r, x);
        if (x->rc != SK_OK) {
            job->rc = x->rc;
            r.n = 0;
        }
    }
}

/* ---- the thread ---------------------------------------------------------------------------------------------------------------------------- */

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
    if (!last) punch(f, s->off, s->len); /* a file system without holes gives the space back with the file */
    let_file_go(sp, f);
    sk_free(s->pages);
    sk_free(s);
}

static void do_job(struct io *io, struct sk_spill_job *job) {
    struct sk_spill *sp = io->sp;
    if (!io->buf) io->buf = sk_alloc_aligned(SK_TAG_STORE, SK_SPILL_PAGE, SK_SPILL_BUF);
    if (!io->buf) {
        job->rc = SK_ERR(&job->err, SK_ENOMEM, "spill: no memory for a buffer of %zu MiB", SK_SPILL_BUF >> 20);
        for (uint32_t i = 0; i < job->n; i++) job->items[i].rc = job->rc;
    } else if (job->what == SK_SPILL_WRITE) {
        job->rc = do_write(io, job, &job->err);
    } else {
        do_read(io, job);
    }
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(&sp->done, &job->link);
    atomic_fetch_add_explicit(&sp->n_done, 1, memory_order_release);
    pthread_mutex_unlock(&sp->mu);
    if (sp->wake) sp->wake(sp->wake_arg);
}

/* What is there to do, once; mu is held. False: nothing. */
static bool turn(struct io *io) {
    struct sk_spill *sp = io->sp;
    struct sk_list *it;
    if ((it = sk_list_first(&sp->dead))) { /* first: who waits for room on the disk gets it */
        sk_list_del(it);
        pthread_mutex_unlock(&sp->mu);
        give_back(sp, sk_container_of(it, struct sk_spill_stretch, link));
    } else if ((it = sk_list_first(&sp->holes))) {
        sk_list_del(it);
        pthread_mutex_unlock(&sp->mu);
        make_holes(sp, sk_container_of(it, struct sk_spill_holes, link));
    } else if ((it = sk_list_first(&sp->reads)) || (it = sk_list_first(&sp->writes))) {
        sk_list_del(it);
        pthread_mutex_unlock(&sp->mu);
        do_job(io, sk_container_of(it, struct sk_spill_job, link));
    } else {
        return false;
    }
    pthread_mutex_lock(&sp->mu);
    return true;
}

bool sk_spill_turn(void *arg) {
    struct sk_spill *sp = arg;
    struct io io = {.sp = sp};
    pthread_mutex_lock(&sp->mu);
    bool any = turn(&io);
    pthread_mutex_unlock(&sp->mu);
    sk_free(io.buf);
    return any;
}

void *sk_spill_thread(void *arg) {
    struct sk_spill *sp = arg;
    struct io io = {.sp = sp};
    pthread_mutex_lock(&sp->mu);
    while (!sp->stop) {
        if (turn(&io)) continue;
        if (io.buf) {
            int64_t until = sk_now_ns() + 1000000000;
            struct timespec ts = {until / 1000000000, until % 1000000000};
            if (pthread_cond_timedwait(&sp->more, &sp->mu, &ts) == ETIMEDOUT) {
                sk_free(io.buf);
                io.buf = NULL;
            }
        } else {
            pthread_cond_wait(&sp->more, &sp->mu);
        }
    }
    pthread_mutex_unlock(&sp->mu);
    sk_free(io.buf);
    return NULL;
}
