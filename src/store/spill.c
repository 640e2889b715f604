/* spill.c - the book of what is on disk: directories, files, stretches, quota, jobs under way. It
 * does no I/O; spill_io.c has the threads.
 *
 * A write job gets its stretch when it is handed in, so places are known at once and threads need
 * no book. Directories take jobs in turn. One that refused is skipped for RETRY_NS as long as there
 * is another, and the refused job goes to the next directory without telling the caller. Disk space
 * is counted by page: that of a stretch is returned when its last object is dropped, and before
 * that holes are punched for its pages without an object whenever they are a quarter of what it
 * holds. So the disk space is at most 4/3 of the pages with live objects, whatever is dropped in
 * between. The size of files grows with what is on disk, so that a terabyte needs a few hundred
 * descriptors.
 *
 * Cost: a byte of memory for each 4 KiB of stretches with several objects; a drop touches the
 * counts of its object's pages. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "ipc/ipc.h"
#include "store/spill_int.h"
#include "store/store_int.h"

/* a directory that refused is skipped for this time (ns) if there is another */
#define RETRY_NS INT64_C(400000000)
#define HOLE_PAGES 16u /* pages; fewer are not punched */
/* special user counts of a page: too many users to count; the page was returned to the disk */
enum { MANY = 254, GIVEN_BACK = 255 };

static sk_rc check_dir(const char *dir, struct sk_err *err) {
    struct stat st;
    if (!dir || !dir[0]) return SK_ERR(err, SK_EINVAL, "spill: no directory given");
    if (sk_machine_) return SK_OK;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return SK_ERR_SYS(err, "spill: cannot make directory %s", dir);
    if (stat(dir, &st) != 0) return SK_ERR_SYS(err, "spill: directory %s", dir);
    if (!S_ISDIR(st.st_mode)) return SK_ERR(err, SK_EINVAL, "spill: %s is not a directory", dir);
    bool direct = false;
    int fd = sk_spill_nameless(dir, &direct);
    if (fd >= 0) close(fd);
    /* true for failures that may be over at a later try */
    else if (errno != ENOSPC && errno != EDQUOT && errno != EMFILE && errno != ENFILE)
        return SK_ERR_SYS(err,
                          "spill: no file can be made in directory %s; choose another one "
                          "(spill_dir, TMPDIR), or \"\" for none",
                          dir);
    return SK_OK;
}

/* Nine tenths of the free space on the disks of the directories plus what is used there already; a
 * disk with several directories counts once. */
static uint64_t free_there(const struct sk_spill *sp) {
    uint64_t sum = sp->disk_bytes + sp->overflow_bytes;
    struct stat st[SK_SPILL_DIRS];
    for (uint32_t i = 0; i < sp->n_places; i++) {
        struct statvfs v;
        bool known = stat(sp->places[i].path, &st[i]) != 0 || statvfs(sp->places[i].path, &v) != 0;
        if (known) st[i].st_dev = 0;
        for (uint32_t k = 0; k < i && !known; k++) known = st[k].st_dev == st[i].st_dev;
        if (!known) sum += (uint64_t)v.f_bavail * v.f_frsize;
    }
    return SK_MAX(sum / 10 * 9, 1);
}

static void free_book(struct sk_spill *sp) {
    for (uint32_t i = 0; sp->places && i < sp->n_places; i++) sk_free(sp->places[i].path);
    sk_free(sp->places);
    sk_free(sp->names);
    sk_free(sp);
}

sk_rc sk_spill_create(struct sk_spill **out, const struct sk_spill_conf *conf, struct sk_err *err) {
    size_t n_names = 1;
    if (!conf->n_dirs || conf->n_dirs > SK_SPILL_DIRS)
        return SK_ERR(err, SK_EINVAL, "spill: %u directories given; 1 to %u can be", conf->n_dirs,
                      SK_SPILL_DIRS);
    for (uint32_t i = 0; i < conf->n_dirs; i++) {
        SK_TRY(check_dir(conf->dirs[i], err));
        n_names += strlen(conf->dirs[i]) + 2;
    }
    struct sk_spill *sp = sk_calloc(SK_TAG_STORE, sizeof *sp);
    if (!sp) return SK_ERR(err, SK_ENOMEM, "spill: no memory");
    sp->n_places = conf->n_dirs;
    sp->places = sk_calloc(SK_TAG_STORE, conf->n_dirs * sizeof sp->places[0]);
    sp->names = sk_calloc(SK_TAG_STORE, n_names);
    bool there = sp->places && sp->names;
    char *at = sp->names;
    for (uint32_t i = 0; there && i < conf->n_dirs; i++) {
        there = (sp->places[i].path = sk_strdup(SK_TAG_STORE, conf->dirs[i])) != NULL;
        size_t n = strlen(conf->dirs[i]);
        if (i) *at++ = ',', *at++ = ' ';
        memcpy(at, conf->dirs[i], n + 1);
        at += n;
    }
    if (!there) {
        free_book(sp);
        return SK_ERR(err, SK_ENOMEM, "spill: no memory");
    }
    sp->quota_of_free = conf->quota_bytes == SK_SPILL_QUOTA_FREE && !sk_machine_;
    sp->quota_bytes = sp->quota_of_free ? free_there(sp) : conf->quota_bytes;
    sp->wake = conf->wake;
    sp->wake_arg = conf->wake_arg;
    pthread_mutex_init(&sp->open_mu, NULL);
    pthread_mutex_init(&sp->mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&sp->more, &ca);
    pthread_cond_init(&sp->more_reads, &ca);
    pthread_condattr_destroy(&ca);
    struct sk_list *lists[] = {&sp->stretches, &sp->reads, &sp->writes, &sp->dead,
                               &sp->holes,     &sp->done,  &sp->files};
    for (size_t i = 0; i < SK_COUNT(lists); i++) sk_list_init(lists[i]);
    *out = sp;
    return SK_OK;
}

static void free_jobs(struct sk_list *jobs) {
    SK_LIST_EACH_SAFE (it, tmp, jobs) sk_free(sk_container_of(it, struct sk_spill_job, link));
}

static void free_stretches(struct sk_list *stretches) {
    SK_LIST_EACH_SAFE (it, tmp, stretches) {
        struct sk_spill_stretch *s = sk_container_of(it, struct sk_spill_stretch, link);
        sk_free(s->pages);
        sk_free(s);
    }
}

void sk_spill_destroy(struct sk_spill *sp) {
    if (!sp) return;
    pthread_mutex_lock(&sp->mu);
    sp->stop = true;
    pthread_cond_broadcast(&sp->more);
    pthread_cond_broadcast(&sp->more_reads);
    pthread_mutex_unlock(&sp->mu);
    for (uint32_t i = 0; i < sp->n_threads; i++) pthread_join(sp->io[i].thread, NULL);
    if (sk_machine_) sk_machine_->work_over(sk_machine_->ctx, sp);
    free_jobs(&sp->reads);
    free_jobs(&sp->writes);
    free_jobs(&sp->done);
    free_stretches(&sp->stretches);
    free_stretches(&sp->dead);
    SK_LIST_EACH_SAFE (it, tmp, &sp->holes)
        sk_free(sk_container_of(it, struct sk_spill_holes, link));
    SK_LIST_EACH_SAFE (it, tmp, &sp->files)
        sk_spill_file_close(sp, sk_container_of(it, struct sk_spill_file, link));
    pthread_cond_destroy(&sp->more);
    pthread_cond_destroy(&sp->more_reads);
    pthread_mutex_destroy(&sp->mu);
    pthread_mutex_destroy(&sp->open_mu);
    free_book(sp);
}

struct sk_spill_job *sk_spill_job(uint32_t n) {
    struct sk_spill_job *j = sk_calloc(SK_TAG_STORE, sizeof *j + n * sizeof j->items[0]);
    if (!j) return NULL;
    sk_list_init(&j->link);
    j->n = n;
    return j;
}

/* Starts the threads that are missing. One thread is enough to work; each job tries again to start
 * the others. */
static sk_rc threads(struct sk_spill *sp, struct sk_err *err) {
    int e = 0;
    sigset_t all, old;
    /* a simulated machine does the threads' work itself */
    if (sp->n_threads == SK_SPILL_THREADS || sk_machine_) return SK_OK;
    /* block signals: a file over its size limit gives an error, not SIGXFSZ */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (sp->n_threads < SK_SPILL_THREADS && e == 0) {
        struct sk_spill_io *io = &sp->io[sp->n_threads];
        *io = (struct sk_spill_io){.sp = sp, .writes = sp->n_threads < SK_SPILL_WRITERS};
        e = SK_FAULT("spill.thread") ? EAGAIN
                                     : pthread_create(&io->thread, NULL, sk_spill_thread, io);
        if (e == 0) sp->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (sp->n_threads) return SK_OK;
    errno = e;
    return SK_ERR_SYS(err, "spill: starting a thread");
}

static void more(struct sk_spill *sp) {
    if (sk_machine_) sk_machine_->work(sk_machine_->ctx, sk_spill_turn, sp);
    else pthread_cond_signal(&sp->more);
}

static void hand_in(struct sk_spill *sp, struct sk_spill_job *job, struct sk_list *to) {
    /* a job that is still in a list would be handed in twice */
    SK_ASSERT(sk_list_empty(&job->link));
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(to, &job->link);
    more(sp);
    if (job->what == SK_SPILL_READ) pthread_cond_signal(&sp->more_reads);
    pthread_mutex_unlock(&sp->mu);
}

/* ---- stretches ------------------------------------------------------------------------------- */

static void stretch_over(struct sk_spill *sp, struct sk_spill_stretch *s) {
    SK_ASSERT(s->punched_bytes <= s->len && s->len - s->punched_bytes <= sp->disk_bytes);
    sp->disk_bytes -= s->len - s->punched_bytes;
    sk_list_del(&s->link);
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(&sp->dead, &s->link);
    more(sp);
    pthread_mutex_unlock(&sp->mu);
}

/* Punches the pages without an object. If there is no memory for the list of holes, they are
 * punched later. */
static void punch(struct sk_spill *sp, struct sk_spill_stretch *s) {
    uint32_t n = (uint32_t)(s->len / SK_SPILL_PAGE), n_runs = 0;
    SK_ASSERT(s->pages);
    for (uint32_t i = 0; i < n; i++) n_runs += s->pages[i] == 0 && (i == 0 || s->pages[i - 1] != 0);
    struct sk_spill_holes *h = SK_FAULT("spill.holes")
                                   ? NULL
                                   : sk_alloc(SK_TAG_STORE, sizeof *h + n_runs * sizeof h->run[0]);
    if (!h) return;
    *h = (struct sk_spill_holes){.file = s->file, .n = n_runs};
    sk_list_init(&h->link);
    for (uint32_t i = 0, k = 0; i < n; i++) {
        if (s->pages[i]) continue;
        uint32_t from = i;
        while (i < n && s->pages[i] == 0) s->pages[i++] = GIVEN_BACK;
        SK_ASSERT(k < n_runs);
        h->run[k++] = (struct sk_spill_hole){s->off + (uint64_t)from * SK_SPILL_PAGE,
                                             (uint64_t)(i - from) * SK_SPILL_PAGE};
    }
    s->punched_bytes += (uint64_t)s->n_dead * SK_SPILL_PAGE;
    SK_ASSERT(s->punched_bytes < s->len && (uint64_t)s->n_dead * SK_SPILL_PAGE <= sp->disk_bytes);
    sp->disk_bytes -= (uint64_t)s->n_dead * SK_SPILL_PAGE;
    s->n_dead = 0;
    pthread_mutex_lock(&sp->mu);
    s->file->refs++;
    sk_list_push_back(&sp->holes, &h->link);
    more(sp);
    pthread_mutex_unlock(&sp->mu);
}

static bool within(const struct sk_spill_stretch *s, uint64_t off, uint64_t len) {
    return off >= s->off && off + sk_spill_on_disk(len) <= s->off + s->len;
}

/* Counts one more user of an object's bytes; unlive counts one less. */
static void live(struct sk_spill_stretch *s, uint64_t off, uint64_t len) {
    SK_ASSERT(within(s, off, len));
    s->n_live++;
    uint64_t last = (off + sk_spill_on_disk(len) - 1 - s->off) / SK_SPILL_PAGE;
    for (uint64_t i = (off - s->off) / SK_SPILL_PAGE; s->pages && i <= last; i++)
        s->pages[i] = (uint8_t)(s->pages[i] + (s->pages[i] < MANY));
}

static void unlive(struct sk_spill *sp, struct sk_spill_stretch *s, uint64_t off, uint64_t len) {
    SK_ASSERT(s->n_live > 0 && within(s, off, len));
    if (--s->n_live == 0) {
        stretch_over(sp, s);
        return;
    }
    uint64_t last = (off + sk_spill_on_disk(len) - 1 - s->off) / SK_SPILL_PAGE;
    for (uint64_t i = (off - s->off) / SK_SPILL_PAGE; s->pages && i <= last; i++) {
        if (s->pages[i] == MANY) continue;
        SK_ASSERT(s->pages[i] > 0 && s->pages[i] < MANY);
        s->n_dead += --s->pages[i] == 0;
    }
    if (s->n_dead >= HOLE_PAGES && s->n_dead >= (s->len - s->punched_bytes) / SK_SPILL_PAGE / 4)
        punch(sp, s);
}

void sk_spill_drop(struct sk_spill *sp, struct sk_spill_at *at, uint64_t len) {
    if (at->stretch) unlive(sp, at->stretch, at->off, len);
    at->stretch = NULL;
}

void sk_spill_share(const struct sk_spill_at *at, uint64_t len) { live(at->stretch, at->off, len); }

/* The file that takes the next stretch in this directory; a new one when the last is long
 * enough. */
static struct sk_spill_file *growing(struct sk_spill *sp, struct sk_spill_place *place) {
    struct sk_spill_file *f = place->cur;
    if (f && f->end < SK_MAX(SK_SPILL_FILE_BYTES, sp->disk_bytes / 32)) return f;
    struct sk_spill_file *fresh = sk_calloc(SK_TAG_STORE, sizeof *fresh);
    if (!fresh) return NULL;
    fresh->serial = ++sp->n_files_made;
    fresh->place = place;
    fresh->fd = -1;
    fresh->refs = 1;
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(&sp->files, &fresh->link);
    SK_ASSERT(!f || f->refs); /* a file that takes new stretches has a reference for that */
    bool last = f && --f->refs == 0;
    pthread_mutex_unlock(&sp->mu);
    if (last) sk_spill_file_close(sp, f);
    place->cur = fresh;
    return fresh;
}

/* Chooses a directory that has not refused this job: the next in turn among those that have refused
 * nothing lately; else, if `any` is true, the directory whose last refusal is the oldest. NULL:
 * there is none. */
static struct sk_spill_place *whose_turn(struct sk_spill *sp, uint64_t tried, bool any) {
    struct sk_spill_place *best = NULL;
    int64_t now = sk_now_ns();
    for (uint32_t k = 0; k < sp->n_places; k++) {
        uint32_t i = (sp->next_place + k) % sp->n_places;
        struct sk_spill_place *p = &sp->places[i];
        if (tried >> i & 1) continue;
        if (!p->refused_ns || now - p->refused_ns >= RETRY_NS) {
            sp->next_place = i + 1;
            return p;
        }
        if (any && (!best || p->refused_ns < best->refused_ns)) best = p;
    }
    return best;
}

/* Gives a write job its stretch in a file of the directory, and hands it in. */
static sk_rc write_in(struct sk_spill *sp, struct sk_spill_place *place, struct sk_spill_job *job,
                      uint64_t len, struct sk_err *err) {
    SK_ASSERT(place && job->n && len % SK_SPILL_PAGE == 0);
    struct sk_spill_file *f = growing(sp, place);
    struct sk_spill_stretch *s = f ? sk_calloc(SK_TAG_STORE, sizeof *s) : NULL;
    uint8_t *pages = s && job->n > 1 ? sk_calloc(SK_TAG_STORE, len / SK_SPILL_PAGE) : NULL;
    if (!s || (job->n > 1 && !pages)) {
        sk_free(s);
        return SK_ERR(err, SK_ENOMEM, "spill: no memory for its book");
    }
    *s = (struct sk_spill_stretch){.file = f, .off = f->end, .len = len, .pages = pages};
    sk_list_push_back(&sp->stretches, &s->link);
    f->end += len;
    sp->disk_bytes += len;
    pthread_mutex_lock(&sp->mu);
    f->refs++;
    pthread_mutex_unlock(&sp->mu);
    uint64_t off = s->off;
    for (uint32_t i = 0; i < job->n; i++) {
        job->items[i].at = (struct sk_spill_at){s, off};
        job->items[i].rc = SK_OK;
        live(s, off, job->items[i].len);
        off += sk_spill_on_disk(job->items[i].len);
    }
    SK_ASSERT(SK_ALIGN(off - s->off, SK_SPILL_PAGE) == len);
    job->what = SK_SPILL_WRITE;
    job->rc = SK_OK;
    hand_in(sp, job, &sp->writes);
    return SK_OK;
}

static uint64_t job_bytes(const struct sk_spill_job *job) {
    uint64_t len = 0;
    for (uint32_t i = 0; i < job->n; i++) len += sk_spill_on_disk(job->items[i].len);
    return SK_ALIGN(len, SK_SPILL_PAGE);
}

static sk_rc within_quota(struct sk_spill *sp, uint64_t more, struct sk_err *err) {
    uint64_t held = sp->disk_bytes + sp->overflow_bytes;
    char a[24], b[24], c[24];
    if (!sp->quota_bytes || more <= sp->quota_bytes - SK_MIN(held, sp->quota_bytes)) return SK_OK;
    /* other programs may have freed disk space since the quota was computed */
    if (sp->quota_of_free) sp->quota_bytes = free_there(sp);
    if (more <= sp->quota_bytes - SK_MIN(held, sp->quota_bytes)) return SK_OK;
    if (sp->quota_of_free)
        return SK_ERR(err, SK_ENOSPC,
                      "spill to %s: disk full (%s more are wanted, %s of the %s that may be used "
                      "are); make room there, or add directories",
                      sp->names, sk_store_human(more, a), sk_store_human(held, b),
                      sk_store_human(sp->quota_bytes, c));
    return SK_ERR(err, SK_ENOSPC,
                  "spill to %s: %s more would pass the quota: %s of %s are used; raise it, or "
                  "release references",
                  sp->names, sk_store_human(more, a), sk_store_human(held, b),
                  sk_store_human(sp->quota_bytes, c));
}

sk_rc sk_spill_open_overflow(struct sk_spill *sp, uint64_t bytes, int *fd, struct sk_err *err) {
    sk_rc rc = SK_OK;
    for (uint32_t i = 0; i < sp->n_places; i++) {
        bool direct = false;
        *fd = sk_spill_nameless(sp->places[i].path, &direct);
        if (*fd >= 0 && (sk_machine_ || ftruncate(*fd, (off_t)bytes) == 0)) return SK_OK;
        rc = SK_ERR_SYS(err, "spill: cannot make a file of %llu bytes in %s",
                        (unsigned long long)bytes, sp->places[i].path);
        if (*fd >= 0) close(*fd);
    }
    return rc;
}

sk_rc sk_spill_overflow(struct sk_spill *sp, uint64_t now, uint64_t more, struct sk_err *err) {
    sp->overflow_bytes = now;
    return within_quota(sp, more, err);
}

sk_rc sk_spill_write(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) {
    uint64_t len = job_bytes(job);
    SK_TRY(within_quota(sp, len, err));
    SK_TRY(threads(sp, err));
    job->tried = 0;
    return write_in(sp, whose_turn(sp, 0, true), job, len, err);
}

/* After a failed write: skips the directory for a while and hands the job to another one. True: the
 * job has been handed in again and is not done. */
static bool elsewhere(struct sk_spill *sp, struct sk_spill_job *job) {
    struct sk_spill_place *p = job->items[0].at.stretch->file->place;
    if (job->rc == SK_ECLOSED || job->rc == SK_ENOMEM) return false;
    p->refused_ns = sk_now_ns();
    job->tried |= UINT64_C(1) << (p - sp->places);
    for (uint32_t i = 0; i < job->n; i++) sk_spill_drop(sp, &job->items[i].at, job->items[i].len);
    p = whose_turn(sp, job->tried, false);
    return p && write_in(sp, p, job, job_bytes(job), NULL) == SK_OK;
}

static int by_place(const void *a, const void *b) {
    const struct sk_spill_item *x = a, *y = b;
    /* by serial number, not by address: a simulated schedule must be repeatable by its seed */
    uint64_t fx = x->at.stretch->file->serial, fy = y->at.stretch->file->serial;
    if (fx != fy) return fx < fy ? -1 : 1;
    uint64_t bx = sk_spill_begins(x), by = sk_spill_begins(y);
    return bx < by ? -1 : bx > by;
}

sk_rc sk_spill_read(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) {
    SK_TRY(threads(sp, err));
    qsort(job->items, job->n, sizeof job->items[0], by_place);
    for (uint32_t i = 0; i < job->n; i++) {
        SK_DCHECK(job->items[i].bytes);
        /* a read counts as a user of the place, so the place stays even if the object is dropped */
        live(job->items[i].at.stretch, job->items[i].at.off, job->items[i].len);
        job->items[i].rc = SK_OK;
    }
    job->what = SK_SPILL_READ;
    job->n_begun = job->n_over = 0;
    job->rc = SK_OK;
    hand_in(sp, job, &sp->reads);
    return SK_OK;
}

static struct sk_spill_job *take_done(struct sk_spill *sp) {
    if (atomic_load_explicit(&sp->n_done, memory_order_acquire) == 0) return NULL;
    pthread_mutex_lock(&sp->mu);
    struct sk_list *it = sk_list_first(&sp->done);
    if (it) {
        sk_list_del(it);
        atomic_fetch_sub_explicit(&sp->n_done, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&sp->mu);
    return it ? sk_container_of(it, struct sk_spill_job, link) : NULL;
}

struct sk_spill_job *sk_spill_next_done(struct sk_spill *sp) {
    struct sk_spill_job *job;
    do {
        job = take_done(sp);
        if (!job) return NULL;
        sp->n_failed += job->rc != SK_OK;
    } while (job->what == SK_SPILL_WRITE && job->rc != SK_OK && elsewhere(sp, job));
    if (job->what == SK_SPILL_WRITE && job->rc == SK_OK)
        job->items[0].at.stretch->file->place->refused_ns = 0;
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        if (job->what == SK_SPILL_READ) {
            unlive(sp, x->at.stretch, x->at.off, x->len);
            sp->n_read += x->rc == SK_OK;
            sp->read_bytes += x->rc != SK_OK ? 0 : x->part_len ? x->part_len : x->len;
        } else if (job->rc != SK_OK) {
            x->rc = job->rc;
            sk_spill_drop(sp, &x->at, x->len);
        } else {
            sp->n_written++;
            sp->written_bytes += x->len;
        }
    }
    return job;
}

void sk_spill_get_stats(const struct sk_spill *sp, struct sk_spill_stats *out) {
    struct sk_spill *w = (struct sk_spill *)(uintptr_t)sp;
    pthread_mutex_lock(&w->mu);
    uint32_t n_files = sp->n_files;
    pthread_mutex_unlock(&w->mu);
    *out = (struct sk_spill_stats){
        .quota_bytes = sp->quota_bytes,
        .disk_bytes = sp->disk_bytes + sp->overflow_bytes,
        .n_written = sp->n_written,
        .written_bytes = sp->written_bytes,
        .n_read = sp->n_read,
        .read_bytes = sp->read_bytes,
        .io_read_bytes = atomic_load_explicit(&w->io_read_bytes, memory_order_relaxed),
        .n_failed = sp->n_failed,
        .n_files = n_files};
}

double sk_spill_write_ns(const struct sk_spill *sp) {
    double ns = (double)atomic_load_explicit(&sp->write_ns, memory_order_relaxed),
           bytes = (double)atomic_load_explicit(&sp->io_written_bytes, memory_order_relaxed);
    return bytes > 0 ? ns / bytes : 0;
}

uint64_t sk_spill_pos(const struct sk_spill_at *at) {
    SK_DCHECK(at->stretch && at->off < UINT64_C(1) << 44);
    return at->stretch->file->serial << 44 | at->off;
}

static uint32_t stretches_of(const struct sk_list *stretches, const struct sk_spill_file *f) {
    uint32_t n = 0;
    SK_LIST_EACH (it, stretches) n += sk_container_of(it, struct sk_spill_stretch, link)->file == f;
    return n;
}

static bool stretch_ok(const struct sk_spill_stretch *s) {
    uint32_t n_dead = 0, given_back = 0;
    for (uint64_t i = 0; s->pages && i < s->len / SK_SPILL_PAGE; i++) {
        n_dead += s->pages[i] == 0;
        given_back += s->pages[i] == GIVEN_BACK;
    }
    return s->n_live && s->len % SK_SPILL_PAGE == 0 && s->off + s->len <= s->file->end &&
           n_dead == s->n_dead && (uint64_t)given_back * SK_SPILL_PAGE == s->punched_bytes;
}

bool sk_spill_check(struct sk_spill *sp) {
    uint64_t held = 0;
    bool ok = true;
    SK_LIST_EACH (it, &sp->stretches) {
        const struct sk_spill_stretch *s = sk_container_of(it, struct sk_spill_stretch, link);
        ok = ok && stretch_ok(s);
        held += s->len - s->punched_bytes;
    }
    uint32_t n_open = 0, n_done = 0;
    pthread_mutex_lock(&sp->mu);
    SK_LIST_EACH (it, &sp->files) {
        const struct sk_spill_file *f = sk_container_of(it, struct sk_spill_file, link);
        uint32_t refs =
            stretches_of(&sp->stretches, f) + stretches_of(&sp->dead, f) + (f->place->cur == f);
        SK_LIST_EACH (h, &sp->holes)
            refs += sk_container_of(h, struct sk_spill_holes, link)->file == f;
        /* more references may exist: threads that are just releasing some */
        ok = ok && f->refs >= refs;
        n_open++;
    }
    SK_LIST_EACH (it, &sp->done) n_done++;
    ok = ok && n_open >= sp->n_files && n_done == atomic_load(&sp->n_done);
    pthread_mutex_unlock(&sp->mu);
    return ok && held == sp->disk_bytes;
}
