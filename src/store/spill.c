/* spill.c - the book of what is on disk: files, stretches, quota, jobs on their way. No I/O happens here; spill_io.c has the threads.
 *
 * A write job gets its stretch when it is handed in, so places are known at once and threads need no book. Disk space is counted by stretch:
 * it comes back (a hole is punched, or the file closed) when the last object of a stretch is dropped. One long-lived object thus keeps a few
 * MiB; large objects have a stretch of their own. Files grow with what is on disk, so that a terabyte needs some hundred descriptors. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "ipc/ipc.h"
#include "store/spill_int.h"
#include "store/store_int.h"

static uint64_t on_disk(uint64_t len) { return SK_SPILL_HEAD + SK_ALIGN(len, SK_SPILL_HEAD); }

sk_rc sk_spill_create(struct sk_spill **out, const struct sk_spill_conf *conf, struct sk_err *err) {
    struct stat st;
    if (!conf->dir || !conf->dir[0]) return SK_ERR(err, SK_EINVAL, "spill: no directory given");
    if (!sk_machine_) {
        if (mkdir(conf->dir, 0700) != 0 && errno != EEXIST) return SK_ERR_SYS(err, "spill: cannot make directory %s", conf->dir);
        if (stat(conf->dir, &st) != 0) return SK_ERR_SYS(err, "spill: directory %s", conf->dir);
        if (!S_ISDIR(st.st_mode)) return SK_ERR(err, SK_EINVAL, "spill: %s is not a directory", conf->dir);
        if (access(conf->dir, W_OK | X_OK) != 0) return SK_ERR_SYS(err, "spill: directory %s cannot be written to", conf->dir);
    }
    struct sk_spill *sp = sk_calloc(SK_TAG_STORE, sizeof *sp);
    if (!sp || !(sp->dir = sk_strdup(SK_TAG_STORE, conf->dir))) {
        sk_free(sp);
        return SK_ERR(err, SK_ENOMEM, "spill: no memory");
    }
    sp->quota_bytes = conf->quota_bytes;
    sp->wake = conf->wake;
    sp->wake_arg = conf->wake_arg;
    pthread_mutex_init(&sp->open_mu, NULL);
    pthread_mutex_init(&sp->mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&sp->more, &ca);
    pthread_condattr_destroy(&ca);
    struct sk_list *lists[] = {&sp->stretches, &sp->reads, &sp->writes, &sp->dead, &sp->done, &sp->files};
    for (size_t i = 0; i < SK_COUNT(lists); i++) sk_list_init(lists[i]);
    *out = sp;
    return SK_OK;
}

static void free_jobs(struct sk_list *jobs) {
    SK_LIST_EACH_SAFE (it, tmp, jobs) sk_free(sk_container_of(it, struct sk_spill_job, link));
}

static void free_stretches(struct sk_list *stretches) {
    SK_LIST_EACH_SAFE (it, tmp, stretches) sk_free(sk_container_of(it, struct sk_spill_stretch, link));
}

void sk_spill_destroy(struct sk_spill *sp) {
    if (!sp) return;
    pthread_mutex_lock(&sp->mu);
    sp->stop = true;
    pthread_cond_broadcast(&sp->more);
    pthread_mutex_unlock(&sp->mu);
    for (uint32_t i = 0; i < sp->n_threads; i++) pthread_join(sp->threads[i], NULL);
    if (sk_machine_) sk_machine_->work_over(sk_machine_->ctx, sp);
    free_jobs(&sp->reads);
    free_jobs(&sp->writes);
    free_jobs(&sp->done);
    free_stretches(&sp->stretches);
    free_stretches(&sp->dead);
    SK_LIST_EACH_SAFE (it, tmp, &sp->files) sk_spill_file_close(sp, sk_container_of(it, struct sk_spill_file, link));
    pthread_cond_destroy(&sp->more);
    pthread_mutex_destroy(&sp->mu);
    pthread_mutex_destroy(&sp->open_mu);
    sk_free(sp->dir);
    sk_free(sp);
}

struct sk_spill_job *sk_spill_job(uint32_t n) {
    struct sk_spill_job *j = sk_calloc(SK_TAG_STORE, sizeof *j + n * sizeof j->items[0]);
    if (!j) return NULL;
    sk_list_init(&j->link);
    j->n = n;
    return j;
}

/* One thread is enough to go on; the second is tried with each job until it is there. */
static sk_rc threads(struct sk_spill *sp, struct sk_err *err) {
    int e = 0;
    sigset_t all, old;
    if (sp->n_threads == SK_SPILL_THREADS || sk_machine_) return SK_OK; /* a machine has its own */
    sigfillset(&all);                                                   /* a file that may not grow any more is an error, not SIGXFSZ */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (sp->n_threads < SK_SPILL_THREADS && e == 0) {
        e = SK_FAULT("spill.thread") ? EAGAIN : pthread_create(&sp->threads[sp->n_threads], NULL, sk_spill_thread, sp);
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
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(to, &job->link);
    more(sp);
    pthread_mutex_unlock(&sp->mu);
}

/* ---- stretches ----------------------------------------------------------------------------------------------------------------------- */

static void stretch_over(struct sk_spill *sp, struct sk_spill_stretch *s) {
    sp->disk_bytes -= s->len;
    sk_list_del(&s->link);
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(&sp->dead, &s->link);
    more(sp);
    pthread_mutex_unlock(&sp->mu);
}

static void unlive(struct sk_spill *sp, struct sk_spill_stretch *s) {
    SK_ASSERT(s->n_live > 0);
    if (--s->n_live == 0) stretch_over(sp, s);
}

void sk_spill_drop(struct sk_spill *sp, struct sk_spill_at *at) {
    if (at->stretch) unlive(sp, at->stretch);
    at->stretch = NULL;
}

/* The file that grows; a new one when this one is long enough. */
static struct sk_spill_file *growing(struct sk_spill *sp) {
    struct sk_spill_file *f = sp->cur;
    if (f && f->end < SK_MAX(SK_SPILL_FILE_BYTES, sp->disk_bytes / 32)) return f;
    struct sk_spill_file *fresh = sk_calloc(SK_TAG_STORE, sizeof *fresh);
    if (!fresh) return NULL;
    fresh->serial = ++sp->n_files_made;
    fresh->fd = -1;
    fresh->refs = 1;
    pthread_mutex_lock(&sp->mu);
    sk_list_push_back(&sp->files, &fresh->link);
    bool last = f && --f->refs == 0;
    pthread_mutex_unlock(&sp->mu);
    if (last) sk_spill_file_close(sp, f);
    sp->cur = fresh;
    return fresh;
}

sk_rc sk_spill_write(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) {
    uint64_t len = 0;
    for (uint32_t i = 0; i < job->n; i++) len += on_disk(job->items[i].len);
    len = SK_ALIGN(len, SK_SPILL_PAGE);
    if (sp->quota_bytes && len > sp->quota_bytes - SK_MIN(sp->disk_bytes, sp->quota_bytes)) {
        char a[24], b[24], c[24];
        return SK_ERR(err, SK_ENOSPC, "spill to %s: %s more would pass the quota: %s of %s are used; raise it, or release references",
                      sp->dir, sk_store_human(len, a), sk_store_human(sp->disk_bytes, b), sk_store_human(sp->quota_bytes, c));
    }
    SK_TRY(threads(sp, err));
    struct sk_spill_file *f = growing(sp);
    struct sk_spill_stretch *s = f ? sk_calloc(SK_TAG_STORE, sizeof *s) : NULL;
    if (!s) return SK_ERR(err, SK_ENOMEM, "spill: no memory for its book");
    *s = (struct sk_spill_stretch){.file = f, .off = f->end, .len = len, .n_live = job->n};
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
        off += on_disk(job->items[i].len);
    }
    job->what = SK_SPILL_WRITE;
    job->rc = SK_OK;
    hand_in(sp, job, &sp->writes);
    return SK_OK;
}

static int by_place(const void *a, const void *b) {
    const struct sk_spill_item *x = a, *y = b;
    uintptr_t fx = (uintptr_t)x->at.stretch->file, fy = (uintptr_t)y->at.stretch->file;
    if (fx != fy) return fx < fy ? -1 : 1;
    return x->at.off < y->at.off ? -1 : x->at.off > y->at.off;
}

sk_rc sk_spill_read(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) {
    SK_TRY(threads(sp, err));
    qsort(job->items, job->n, sizeof job->items[0], by_place);
    for (uint32_t i = 0; i < job->n; i++) {
        job->items[i].at.stretch->n_live++; /* the place stays while it is read, though the object may go */
        job->items[i].rc = SK_OK;
    }
    job->what = SK_SPILL_READ;
    job->rc = SK_OK;
    hand_in(sp, job, &sp->reads);
    return SK_OK;
}

struct sk_spill_job *sk_spill_next_done(struct sk_spill *sp) {
    if (atomic_load_explicit(&sp->n_done, memory_order_acquire) == 0) return NULL;
    pthread_mutex_lock(&sp->mu);
    struct sk_list *it = sk_list_first(&sp->done);
    if (it) {
        sk_list_del(it);
        atomic_fetch_sub_explicit(&sp->n_done, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&sp->mu);
    if (!it) return NULL;
    struct sk_spill_job *job = sk_container_of(it, struct sk_spill_job, link);
    sp->n_failed += job->rc != SK_OK;
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        if (job->what == SK_SPILL_READ) {
            unlive(sp, x->at.stretch);
            sp->n_read += x->rc == SK_OK;
            sp->read_bytes += x->rc == SK_OK ? x->len : 0;
        } else if (job->rc != SK_OK) {
            x->rc = job->rc;
            sk_spill_drop(sp, &x->at);
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
    *out = (struct sk_spill_stats){.quota_bytes = sp->quota_bytes,
                                   .disk_bytes = sp->disk_bytes,
                                   .n_written = sp->n_written,
                                   .written_bytes = sp->written_bytes,
                                   .n_read = sp->n_read,
                                   .read_bytes = sp->read_bytes,
                                   .n_failed = sp->n_failed,
                                   .n_files = n_files};
}

uint64_t sk_spill_pos(const struct sk_spill_at *at) { return at->stretch->file->serial << 44 | at->off; }

const char *sk_spill_dir(const struct sk_spill *sp) { return sp->dir; }
