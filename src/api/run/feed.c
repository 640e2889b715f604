/* feed.c - streams as sources: a run that is asked for a block pulls a batch of an Arrow
 * stream and puts it into the store, on a thread of its own for each stream.
 *
 *     exec --ask--> thread: get_next (the user's code), put, sk_exec_fed --> exec, which may ask
 * again
 *
 * The thread holds `busy` while it touches the run or the engine, and never while it is in the
 * user's code. So a run can be stopped, and the engine be closed, while the stream takes its time:
 * the thread finds then that there is no run any more. Only the end of the run's owner waits for
 * the thread, so that nothing calls the stream afterwards.
 *
 * Order of locks: `busy`, then those of the run and the engine, then `mu`. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "api/data_int.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"

#define TAG SK_TAG_EXEC

struct sk_feeder {
    struct sk_feed base;
    struct sk_feeder *next;
    struct sk_engine *e;
    skate_dataset *ds; /* has the stream; the run holds it */
    uint64_t used;     /* the engine that the thread's calls use (sk_api_used) */
    pthread_t thread;
    int32_t pid;  /* of the process that has the thread */
    bool started; /* the thread exists, and the stream is the run's */
    pthread_mutex_t mu;
    pthread_cond_t asked;
    uint64_t ticket; /* of the ask that was not begun; 0: none */
    bool over;       /* there will be no more asks */
    pthread_mutex_t busy;
    struct sk_exec *x; /* guarded by busy; NULL: the run was stopped */
    /* the thread's own */
    struct ArrowSchema schema;
    bool gave;  /* a block was given, so the columns are known downstream */
    bool ended; /* the stream has no more batches, and is not called again */
};

static void ask(struct sk_feed *base, uint64_t ticket) {
    struct sk_feeder *f = (struct sk_feeder *)(void *)base;
    pthread_mutex_lock(&f->mu);
    f->ticket = ticket;
    pthread_cond_signal(&f->asked);
    pthread_mutex_unlock(&f->mu);
}

/* Waits for the next ask. 0: there will be none. */
static uint64_t next_ask(struct sk_feeder *f) {
    pthread_mutex_lock(&f->mu);
    while (!f->ticket && !f->over) pthread_cond_wait(&f->asked, &f->mu);
    uint64_t ticket = f->over ? 0 : f->ticket;
    f->ticket = 0;
    pthread_mutex_unlock(&f->mu);
    return ticket;
}

static sk_rc failed(const struct sk_feeder *f, int code, const char *call, struct sk_err *err) {
    struct ArrowArrayStream *s = &f->ds->stream->s;
    const char *why = s->get_last_error ? s->get_last_error(s) : NULL;
    return SK_ERR(err,
                  code == ENOMEM   ? SK_ENOMEM
                  : code == EINVAL ? SK_EINVAL
                                   : SK_EIO,
                  "%s: the stream's %s failed: %s", f->ds->label, call, why ? why : strerror(code));
}

/* Calls the stream. SK_EDONE: it has no more batches. */
static sk_rc pull(struct sk_feeder *f, struct ArrowArray *out, struct sk_err *err) {
    struct ArrowArrayStream *s = &f->ds->stream->s;
    if (f->ended) return SK_EDONE;
    if (!f->schema.release) {
        int code = s->get_schema(s, &f->schema);
        if (code) {
            f->schema.release = NULL;
            return failed(f, code, "get_schema", err);
        }
        if (!f->schema.release || !f->schema.format)
            return SK_ERR(err, SK_EINVAL, "%s: the stream's get_schema gave no schema",
                          f->ds->label);
    }
    int code = s->get_next(s, out);
    if (!code) {
        f->ended = !out->release;
        return f->ended ? SK_EDONE : SK_OK;
    }
    out->release = NULL;
    return failed(f, code, "get_next", err);
}

/* Puts what was pulled into the store, and answers the ask. A stream without batches gives a block
 * without rows, which has its columns, and ends with the next ask. Call with `busy` held. */
static sk_rc answer(struct sk_feeder *f, uint64_t ticket, sk_rc rc, const struct ArrowArray *a,
                    int64_t began_ns, struct sk_err *err) {
    struct sk_fed fed = {.rc = rc, .err = err};
    if (rc == SK_OK || (rc == SK_EDONE && !f->gave)) {
        fed.rc = sk_data_put(f->e, &f->schema, rc == SK_OK ? a : NULL, &fed.block, &fed.cost, err);
        if (fed.rc != SK_OK) sk_err_prefix(err, "%s", f->ds->label);
        f->gave = fed.rc == SK_OK;
        rc = fed.rc;
    }
    fed.ns = sk_now_ns() - began_ns;
    sk_exec_fed(f->x, ticket, &fed);
    return rc;
}

static void release_stream(struct sk_feeder *f) {
    struct ArrowArrayStream *s = &f->ds->stream->s;
    if (f->schema.release) f->schema.release(&f->schema);
    f->schema.release = NULL;
    if (s->release) s->release(s);
    s->release = NULL;
}

static void *feeder_main(void *arg) {
    struct sk_feeder *f = arg;
    sk_rc rc = SK_OK;
    (void)skate_use((skate_engine *)(uintptr_t)f->used);
    for (uint64_t ticket; rc == SK_OK && (ticket = next_ask(f));) {
        struct sk_err err = {.code = 0};
        struct ArrowArray a = {.release = NULL};
        int64_t began_ns = sk_now_ns();
        rc = pull(f, &a, &err);
        pthread_mutex_lock(&f->busy);
        rc = f->x ? answer(f, ticket, rc, &a, began_ns, &err) : SK_ECLOSED;
        pthread_mutex_unlock(&f->busy);
        if (a.release) a.release(&a);
    }
    release_stream(f);
    return NULL;
}

sk_rc sk_feeder_create(skate_dataset *ds, struct sk_engine *e, struct sk_feeder **list,
                       struct sk_feed **out, struct sk_err *err) {
    if (ds->stream->read)
        return SK_ERR(
            err, SK_EINVAL,
            "%s: an earlier run has read the stream, and it can be read only once: make a "
            "new dataset of a new stream, or keep the batches (skate_from_arrays)",
            ds->label);
    struct sk_feeder *f = sk_calloc(TAG, sizeof *f);
    if (!f) return SK_ERR(err, SK_ENOMEM, "%s: no memory to read the stream", ds->label);
    f->base.ask = ask;
    f->e = e;
    f->ds = ds;
    pthread_mutex_init(&f->mu, NULL);
    pthread_mutex_init(&f->busy, NULL);
    pthread_cond_init(&f->asked, NULL);
    f->next = *list;
    *list = f;
    *out = &f->base;
    return SK_OK;
}

sk_rc sk_feeders_begin(struct sk_feeder *list, struct sk_exec *x, struct sk_err *err) {
    sigset_t all, old;
    for (struct sk_feeder *f = list; f; f = f->next) {
        f->x = x;
        f->pid = getpid();
        f->used = sk_api_used();
        sigfillset(&all); /* signals are for the program's own threads */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        int e = SK_FAULT("feed.thread") ? EAGAIN : pthread_create(&f->thread, NULL, feeder_main, f);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        f->started = f->ds->stream->read = !e;
        if (!e) continue;
        errno = e;
        return SK_ERR_SYS(err, "%s: starting a thread that reads the stream", f->ds->label);
    }
    return SK_OK;
}

void sk_feeders_cut(struct sk_feeder *list) {
    for (struct sk_feeder *f = list; f; f = f->next) {
        pthread_mutex_lock(&f->busy);
        f->x = NULL;
        pthread_mutex_unlock(&f->busy);
    }
}

void sk_feeders_free(struct sk_feeder *list) {
    for (struct sk_feeder *f; (f = list);) {
        list = f->next;
        if (f->started && f->pid == getpid()) {
            pthread_mutex_lock(&f->mu);
            f->over = true;
            pthread_cond_signal(&f->asked);
            pthread_mutex_unlock(&f->mu);
            pthread_join(f->thread, NULL);
        } else if (f->started) {
            f->ds->stream->s.release = NULL; /* a forked child: the thread is the parent's */
        }
        sk_free(f);
    }
}
