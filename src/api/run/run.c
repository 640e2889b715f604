/* run.c - runs of datasets: streams of Arrow batches out of a run, counts, statistics.
 *
 * A run is freed when its stream is released; batches that the stream has given keep their blocks
 * by themselves. The schema of a stream is that of its first block, so get_schema waits for it. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/data_int.h"
#include "base/mem.h"
#include "base/clock.h"
#include "exec/exec.h"
#include "shuffle/exchange.h"

#define TAG SK_TAG_EXEC

enum { BLOCK_BYTES = 16 << 20, LEAST_BYTES = 1 << 20 };

struct sk_data_run {
    struct sk_engine *e;
    uint64_t number;                          /* of its engine */
    struct sk_data_run *next_run, **prev_run; /* in the list of all runs */
    /* Held inside x, and while blocks are opened: another thread may close the engine, which stops
     * the run (x NULL) before. Also guards `first`. */
    pthread_mutex_t mu;
    skate_dataset *ds;
    struct sk_plan *plan;
    struct sk_exec *x;
    struct sk_gathers gathers;
    struct sk_dataset_run also;
    int64_t timeout_ms;
    int64_t tell_ns;         /* when the watch is called next */
    struct ArrowArray first; /* a batch that get_schema has opened already; release NULL: none */
    bool ended;
    sk_rc failed;              /* the run's failure, which later calls return again */
    struct ArrowSchema schema; /* of the first block; release NULL: not yet known */
    uint64_t rows, bytes;
    struct sk_exec_stats last; /* of the run when it was stopped */
    struct sk_err err;         /* of the last call that failed */
};

static void release_block(void *e, uint64_t oid) {
    ((struct sk_engine *)e)->ops->release(e, (sk_oid){oid});
}

static struct sk_data_run *runs;
static pthread_mutex_t runs_mu = PTHREAD_MUTEX_INITIALIZER; /* guards the list; taken before mu */

static void unlink_run(struct sk_data_run *r) {
    if (!r->prev_run) return;
    *r->prev_run = r->next_run;
    if (r->next_run) r->next_run->prev_run = r->prev_run;
    r->prev_run = NULL;
}

/* Stops a run whose engine is open. */
static void stop(struct sk_data_run *r) {
    pthread_mutex_lock(&r->mu);
    if (r->first.release) r->first.release(&r->first);
    if (r->x) sk_exec_get_stats(r->x, &r->last, NULL, 0);
    sk_feeders_cut(r->also.feeders);
    sk_exec_stop(&r->x);
    if (r->plan) sk_plan_destroy(r->plan, release_block, r->e);
    r->plan = NULL;
    pthread_mutex_unlock(&r->mu);
}

/* Stops the runs of an engine, before it closes. */
static void stop_all(uint64_t number) {
    pthread_mutex_lock(&runs_mu);
    for (struct sk_data_run *r = runs, *next; r; r = next) {
        next = r->next_run;
        if (r->number != number) continue;
        struct sk_err err = {.code = 0};
        unlink_run(r);
        /* a thread that waits for a batch holds r->mu: it returns now */
        if (r->x) sk_exec_fail(r->x, SK_ERR(&err, SK_ECLOSED, "skate was shut down"), &err);
        stop(r);
    }
    pthread_mutex_unlock(&runs_mu);
}

void sk_data_run_free(struct sk_data_run *r) {
    if (!r) return;
    pthread_mutex_lock(&runs_mu);
    bool open = r->prev_run != NULL;
    unlink_run(r);
    if (open && sk_api_numbered(r->number)) stop(r); /* not in a forked child */
    pthread_mutex_unlock(&runs_mu);
    if (r->first.release) r->first.release(&r->first);
    if (r->schema.release) r->schema.release(&r->schema);
    sk_feeders_free(r->also.feeders);
    skate_dataset_release(r->ds);
    pthread_mutex_destroy(&r->mu);
    sk_free(r);
}

/* The functions of the engine that run stages. */
static sk_rc stage_functions(struct sk_engine *e, struct sk_exec_conf *c) {
    SK_TRY(sk_api_define(e, sk_api_run_stage, &c->run_stage));
    SK_TRY(sk_api_define(e, sk_api_stage_init, &c->stage_init));
    return sk_api_define(e, sk_api_stage_call, &c->stage_call);
}

static sk_rc opts_of(const struct skate_run_opts *o, struct sk_exec_conf *c,
                     const struct sk_shuffle_ops **strategy, struct sk_err *err) {
    static const struct skate_run_opts none = SKATE_OPTS(struct skate_run_opts);
    if (!o) o = &none;
    SK_TRY(sk_api_sized("run", o, sizeof *o, err));
    *strategy = sk_shuffle_find(o->strategy ? o->strategy : "auto");
    if (!*strategy)
        return SK_ERR(err, SK_EINVAL,
                      "run: no shuffle strategy is called '%s'; skate_strategy_name lists them",
                      o->strategy);
    if (o->block_bytes > UINT64_C(1) << 40)
        return SK_ERR(err, SK_EINVAL, "run: block_bytes is %llu; the most are 2^40",
                      (unsigned long long)o->block_bytes);
    *c = (struct sk_exec_conf){.policy = o->policy,
                               .memory_bytes = o->memory_bytes,
                               .target_max_bytes = o->block_bytes ? o->block_bytes : BLOCK_BYTES,
                               .preserve_order = !o->any_order,
                               .max_bad_rows = o->max_bad_rows ? o->max_bad_rows : -1};
    c->target_min_bytes = SK_MIN((uint64_t)LEAST_BYTES, c->target_max_bytes);
    return SK_OK;
}

static int64_t watch_ns(const struct sk_data_run *r) {
    int64_t ms = r->also.watch->every_ms;
    return SK_MIN(ms ? ms : 100, INT64_MAX / SK_SEC) * SK_MS;
}

/* Calls the watch, if it is time. */
static void tell(struct sk_data_run *r, bool last) {
    struct skate_progress p;
    if (!r->also.watch || (!last && sk_now_ns() < r->tell_ns)) return;
    pthread_mutex_lock(&r->mu);
    bool known = r->x && sk_data_progress(r->x, &p);
    pthread_mutex_unlock(&r->mu);
    r->tell_ns = sk_now_ns() + watch_ns(r);
    if (!known) return;
    p.rows_out = r->rows;
    p.bytes_out = r->bytes;
    p.done = p.done && last; /* tasks may be over before the consumer has their blocks */
    r->also.watch->progress(r->also.watch->ctx, &p);
}

sk_rc sk_data_run_start(skate_dataset *ds, const struct skate_run_opts *o, struct sk_bytes units,
                        struct sk_data_run **out, struct sk_err *err) {
    struct sk_exec_conf c;
    const struct sk_shuffle_ops *strategy;
    struct sk_engine *e = sk_api_engine();
    if (!e) return SK_ECLOSED;
    if (sk_api_in_worker())
        return SK_ERR(err, SK_EINVAL,
                      "a task cannot run a dataset: run it in the process that called skate_init");
    if (!ds) return SK_EINVAL; /* the message is that of the operator that failed */
    SK_TRY(opts_of(o, &c, &strategy, err));
    SK_TRY(stage_functions(e, &c));
    struct sk_data_run *r = sk_calloc(TAG, sizeof *r);
    if (!r) return SK_ERR(err, SK_ENOMEM, "no memory for a run");
    pthread_mutex_init(&r->mu, NULL);
    r->e = e;
    r->number = sk_api_number(e);
    r->ds = skate_dataset_retain(ds);
    r->timeout_ms = o && o->timeout_ms ? o->timeout_ms : -1;
    r->gathers = sk_shuffle_gathers(strategy);
    c.gathers = &r->gathers;
    c.keep_units = units.p != NULL;
    c.skip_units = units.p;
    c.n_skip = (uint32_t)units.n;
    sk_api_before_close(stop_all);
    pthread_mutex_lock(&runs_mu);
    r->next_run = runs;
    r->prev_run = &runs;
    if (runs) runs->prev_run = &r->next_run;
    runs = r;
    pthread_mutex_unlock(&runs_mu);
    uint32_t root = 0;
    sk_rc rc = sk_dataset_lower(ds, e, strategy, &r->also, &r->plan, &root, err);
    if (rc == SK_OK) rc = sk_exec_start(e, r->plan, root, &c, &r->x, err);
    if (rc == SK_OK) rc = sk_feeders_begin(r->also.feeders, r->x, err);
    if (rc == SK_OK && r->also.watch) r->tell_ns = sk_now_ns() + watch_ns(r);
    if (rc == SK_OK) *out = r;
    else sk_data_run_free(r);
    return rc;
}

/* Makes the error of a run from the error value of the task that failed. */
static sk_rc failure(struct sk_data_run *r, sk_rc rc, sk_oid bad, struct sk_err *err) {
    struct sk_view v;
    struct sk_err unused;
    if (!bad.v) return rc;
    if (r->e->ops->get(r->e, &bad, 1, 0, &v, &unused) == SK_OK) {
        rc = sk_api_failure(&v, err);
        r->e->ops->view_release(r->e, &v);
    }
    release_block(r->e, bad.v);
    return rc;
}

/* Notes that the run has failed: rows are missing from here on, so that no call may go on. */
static sk_rc fails(struct sk_data_run *r, sk_rc rc, const struct sk_err *err) {
    if (err != &r->err) r->err = *err;
    return r->failed = rc;
}

/* Takes the next block. SK_EDONE: there are no more. */
sk_rc sk_data_run_next(struct sk_data_run *r, struct sk_bref *b, struct sk_err *err) {
    sk_oid bad = {0};
    if (r->ended) return SK_EDONE;
    if (r->failed) {
        if (err != &r->err) *err = r->err;
        return r->failed;
    }
    int64_t deadline_ns = sk_api_deadline(r->timeout_ms);
    bool again = true;
    sk_rc rc = SK_OK;
    while (again) {
        int64_t until_ns = r->also.watch ? SK_MIN(deadline_ns, r->tell_ns) : deadline_ns;
        pthread_mutex_lock(&r->mu);
        rc = r->x ? sk_exec_next(r->x, until_ns, b, &bad, err)
                  : SK_ERR(err, SK_ECLOSED, "skate was shut down");
        pthread_mutex_unlock(&r->mu);
        if (rc == SK_OK) {
            r->rows += b->n_rows;
            r->bytes += b->bytes;
        }
        again = rc == SK_ETIMEOUT && until_ns < deadline_ns;
        tell(r, rc != SK_OK && rc != SK_ETIMEOUT);
    }
    if (rc == SK_EDONE) r->ended = true;
    if (rc != SK_OK && rc != SK_EDONE && rc != SK_ETIMEOUT) {
        rc = failure(r, rc, bad, err);
        return fails(r, rc, err);
    }
    if (rc == SK_ETIMEOUT)
        SK_ERR(err, SK_ETIMEOUT, "no batch within %lld ms", (long long)r->timeout_ms);
    return rc;
}

void sk_data_run_drop(struct sk_data_run *r, const struct sk_bref *b) {
    release_block(r->e, b->oid);
}

struct given { /* a block that a consumer has */
    struct sk_engine *e;
    uint64_t number;
    struct sk_view v;
    sk_oid oid;
    void *copy; /* of a value that is not aligned; NULL: the view is used */
};

static void release_given(void *p) {
    struct given *g = p;
    if (sk_api_numbered(g->number)) {
        g->e->ops->view_release(g->e, &g->v);
        release_block(g->e, g->oid.v);
    }
    sk_free(g->copy);
    sk_free(g);
}

/* Finds bytes of the view that are aligned as a block has to be; small values lie in messages. */
static sk_rc align(struct given *g, const uint8_t **data, struct sk_err *err) {
    *data = g->v.data;
    if (!((uintptr_t)*data & (SK_BLOCK_ALIGN - 1))) return SK_OK;
    if (!(g->copy = sk_alloc_aligned(TAG, SK_BLOCK_ALIGN, SK_MAX(g->v.len, 1))))
        return SK_ERR(err, SK_ENOMEM, "no memory for a batch of %zu bytes", (size_t)g->v.len);
    *data = memcpy(g->copy, g->v.data, g->v.len);
    return SK_OK;
}

/* Call with r->mu held, while the run is not stopped. */
static sk_rc open_block(struct sk_data_run *r, const struct sk_bref *b, struct ArrowSchema *schema,
                        struct ArrowArray *array, struct sk_err *err) {
    struct given *g = sk_alloc(TAG, sizeof *g);
    sk_rc rc = g ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for a batch");
    if (rc == SK_OK) {
        *g = (struct given){.e = r->e, .number = r->number, .oid = {b->oid}};
        rc = r->e->ops->get(r->e, &g->oid, 1, INT64_MAX, &g->v, err);
        if (rc == SK_OK && SK_KIND_IS_ERROR(g->v.kind)) {
            rc = sk_api_failure(&g->v, err);
            r->e->ops->view_release(r->e, &g->v);
        }
    }
    if (rc != SK_OK) {
        release_block(r->e, b->oid);
        sk_free(g);
        return rc;
    }
    const uint8_t *data;
    if ((rc = align(g, &data, err)) != SK_OK) {
        release_given(g);
        return rc;
    }
    return sk_block_export(data, g->v.len, b->row0, b->n_rows,
                           (struct sk_block_owner){release_given, g}, schema, array, err);
}

sk_rc sk_data_run_open(struct sk_data_run *r, const struct sk_bref *b, struct ArrowSchema *schema,
                       struct ArrowArray *array, struct sk_err *err) {
    pthread_mutex_lock(&r->mu);
    sk_rc rc = r->x ? open_block(r, b, schema, array, err)
                    : SK_ERR(err, SK_ECLOSED, "skate was shut down");
    pthread_mutex_unlock(&r->mu);
    return rc;
}

/* ---- streams --------------------------------------------------------------------------------- */

static int errno_of(struct sk_data_run *r, sk_rc rc) {
    *sk_api_err() = r->err;
    switch (rc) {
    case SK_OK: return 0;
    case SK_ENOMEM:
    case SK_EFULL: return ENOMEM;
    case SK_EINVAL: return EINVAL;
    case SK_ETIMEOUT: return ETIMEDOUT;
    case SK_ECANCEL:
    case SK_ECLOSED: return ECANCELED;
    default: return EIO;
    }
}

/* Opens the next block. The schema of the first one is the stream's. SK_EDONE: there are no more.
 */
static sk_rc next_batch(struct sk_data_run *r, struct ArrowArray *out) {
    struct ArrowSchema schema;
    struct sk_bref b;
    SK_TRY(sk_data_run_next(r, &b, &r->err));
    sk_rc rc = sk_data_run_open(r, &b, &schema, out, &r->err);
    if (rc != SK_OK) return fails(r, rc, &r->err);
    if (!r->schema.release) {
        r->schema = schema;
    } else {
        rc = sk_schema_changed(&r->schema, &schema, &r->err);
        schema.release(&schema);
    }
    if (rc != SK_OK) {
        sk_err_prefix(&r->err, "%s", r->ds->label);
        out->release(out);
        out->release = NULL;
        return fails(r, rc, &r->err);
    }
    return SK_OK;
}

static int get_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
    struct sk_data_run *r = s->private_data;
    sk_rc rc = SK_OK;
    out->release = NULL;
    if (!r->schema.release) {
        struct ArrowArray first = {.release = NULL};
        rc = next_batch(r, &first);
        pthread_mutex_lock(&r->mu);
        r->first = first;
        pthread_mutex_unlock(&r->mu);
        if (rc == SK_EDONE) {
            struct ArrowSchema none = {.format = "+s"};
            return errno_of(r, sk_schema_export(&none, out, &r->err));
        }
    }
    if (rc == SK_OK) rc = sk_schema_export(&r->schema, out, &r->err);
    return errno_of(r, rc);
}

static int get_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
    struct sk_data_run *r = s->private_data;
    pthread_mutex_lock(&r->mu);
    *out = r->first;
    r->first.release = NULL;
    pthread_mutex_unlock(&r->mu);
    if (out->release) return 0;
    sk_rc rc = next_batch(r, out);
    if (rc != SK_OK) out->release = NULL;
    return rc == SK_EDONE ? 0 : errno_of(r, rc);
}

static const char *last_error(struct ArrowArrayStream *s) {
    struct sk_data_run *r = s->private_data;
    return r->err.msg[0] ? r->err.msg : NULL;
}

static void release_stream(struct ArrowArrayStream *s) {
    sk_data_run_free(s->private_data);
    s->release = NULL;
}

int skate_stream(skate_dataset *ds, const struct skate_run_opts *o, struct ArrowArrayStream *out) {
    struct sk_data_run *r;
    if (!out) return SK_ERR(sk_api_err(), SK_EINVAL, "stream: `out` is NULL");
    out->release = NULL;
    SK_TRY(sk_data_run_start(ds, o, (struct sk_bytes){NULL, 0}, &r, sk_api_err()));
    *out = (struct ArrowArrayStream){.get_schema = get_schema,
                                     .get_next = get_next,
                                     .get_last_error = last_error,
                                     .release = release_stream,
                                     .private_data = r};
    return SK_OK;
}

int skate_count(skate_dataset *ds, const struct skate_run_opts *o, int64_t *rows) {
    struct sk_data_run *r;
    struct sk_bref b;
    sk_rc rc;
    if (!rows) return SK_ERR(sk_api_err(), SK_EINVAL, "count: `rows` is NULL");
    SK_TRY(sk_data_run_start(ds, o, (struct sk_bytes){NULL, 0}, &r, sk_api_err()));
    int64_t n = 0;
    while ((rc = sk_data_run_next(r, &b, sk_api_err())) == SK_OK) {
        n += (int64_t)b.n_rows;
        sk_data_run_drop(r, &b);
    }
    sk_data_run_free(r);
    if (rc != SK_EDONE) return rc;
    *rows = n;
    return SK_OK;
}

static sk_rc run_of(struct ArrowArrayStream *s, struct sk_data_run **out) {
    if (!s || s->release != release_stream)
        return SK_ERR(sk_api_err(), SK_EINVAL, "this stream is none of skate_stream");
    *out = s->private_data;
    return SK_OK;
}

/* ---- dead letters ------------------------------------------------------------------------------
 */

int skate_stream_dead(struct ArrowArrayStream *stream, struct ArrowSchema *schema,
                      struct ArrowArray *batch) {
    struct sk_data_run *r = NULL;
    struct sk_exec_failure dead;
    SK_TRY(run_of(stream, &r));
    if (!schema || !batch)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "stream_dead: a schema and a batch to fill are needed");
    schema->release = NULL;
    batch->release = NULL;
    pthread_mutex_lock(&r->mu);
    sk_rc rc = r->x ? sk_exec_next_failure(r->x, &dead) : SK_EAGAIN;
    pthread_mutex_unlock(&r->mu);
    if (rc == SK_EAGAIN || (rc == SK_OK && !dead.oid.v)) return SK_OK;
    if (rc != SK_OK) return SK_ERR(sk_api_err(), rc, "stream_dead: the run is over");
    return sk_data_run_open(r, &(struct sk_bref){dead.oid.v, 0, UINT64_MAX, 0, 0, 0}, schema, batch,
                            sk_api_err());
}

/* ---- statistics and plans -------------------------------------------------------------------- */

/* Returns the statistics of the operators, which the caller frees; NULL: no memory. Their labels
 * are the run's. Call with r->mu held. */
static struct sk_exec_op_stats *get_stats(struct sk_data_run *r, struct sk_exec_stats *s,
                                          uint32_t *n) {
    *s = r->last;
    *n = 0;
    if (!r->x) return sk_calloc(TAG, sizeof(struct sk_exec_op_stats));
    struct sk_exec_op_stats *ops = sk_data_op_stats(r->x, s);
    if (ops) *n = s->n_ops;
    return ops;
}

int skate_stream_stats(struct ArrowArrayStream *stream, struct skate_run_stats *out) {
    struct sk_data_run *r = NULL;
    struct sk_exec_stats s;
    uint32_t n;
    SK_TRY(run_of(stream, &r));
    if (!out || out->size != sizeof *out)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "stream_stats: a struct is needed that begins with its size, %zu",
                      sizeof *out);
    pthread_mutex_lock(&r->mu); /* another thread may close the engine */
    struct sk_exec_op_stats *ops = get_stats(r, &s, &n);
    pthread_mutex_unlock(&r->mu);
    if (!ops) return SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for statistics");
    *out = (struct skate_run_stats){.size = sizeof *out,
                                    .wall_ns = s.wall_ns,
                                    .rows = r->rows,
                                    .bytes = r->bytes,
                                    .memory_limit = s.memory_limit,
                                    .memory_peak = s.memory_peak,
                                    .disk_bytes = s.memory_disk,
                                    .bad_rows = s.bad_rows,
                                    .done = s.done};
    for (uint32_t i = 0; i < n; i++) {
        out->tasks_done += ops[i].tasks_done;
        out->retries += ops[i].retries;
    }
    sk_free(ops);
    return SK_OK;
}

struct text { /* grows; p NULL: there was no memory */
    char *p;
    size_t n, cap;
};

static void put(struct text *t, const char *fmt, ...) SK_PRINTF(2, 3);
static void put(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->p ? t->p + t->n : NULL, t->p ? t->cap - t->n : 0, fmt, ap);
    va_end(ap);
    if (!t->p || t->n + (size_t)n < t->cap) {
        t->n += t->p ? (size_t)n : 0;
        return;
    }
    size_t cap = 2 * (t->cap + (size_t)n);
    char *p = realloc(t->p, cap);
    if (!p) free(t->p);
    t->p = p;
    t->cap = cap;
    if (!p) return;
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(p + t->n, cap - t->n, fmt, ap);
    va_end(ap);
}

static void put_quoted(struct text *t, const char *s) {
    put(t, "\"");
    for (; *s; s++)
        if (*s == '"' || *s == '\\') put(t, "\\%c", *s);
        else if ((unsigned char)*s < 32) put(t, "\\u%04x", *s);
        else put(t, "%c", *s);
    put(t, "\"");
}

static void put_op(struct text *t, const struct sk_exec_op_stats *o) {
    put(t, "{\"label\": ");
    put_quoted(t, o->label ? o->label : "");
    put(t,
        ", \"tasks_queued\": %llu, \"tasks_running\": %llu, \"tasks_done\": %llu, "
        "\"retries\": %llu, \"rows_in\": %llu, \"bytes_in\": %llu, \"rows_out\": %llu, "
        "\"bytes_out\": %llu, \"blocks_out\": %llu, \"peak_queued_bytes\": %llu, "
        "\"task_ns_total\": %lld, \"n_actors\": %u}",
        (unsigned long long)o->tasks_queued, (unsigned long long)o->tasks_running,
        (unsigned long long)o->tasks_done, (unsigned long long)o->retries,
        (unsigned long long)o->rows_in, (unsigned long long)o->bytes_in,
        (unsigned long long)o->rows_out, (unsigned long long)o->bytes_out,
        (unsigned long long)o->blocks_out, (unsigned long long)o->peak_queued_bytes,
        (long long)o->task_ns_total, o->n_actors);
}

char *skate_stream_stats_json(struct ArrowArrayStream *stream) {
    struct sk_data_run *r = NULL;
    struct sk_exec_stats s;
    if (run_of(stream, &r) != SK_OK) return NULL;
    struct text t = {.p = malloc(4096), .cap = 4096};
    uint32_t n;
    pthread_mutex_lock(&r->mu);
    struct sk_exec_op_stats *ops = get_stats(r, &s, &n);
    put(&t,
        "{\"wall_ns\": %lld, \"rows\": %llu, \"bytes\": %llu, \"memory_limit\": %llu, "
        "\"memory_peak\": %llu, \"disk_bytes\": %llu, \"bad_rows\": %llu, \"done\": %s, "
        "\"ops\": [",
        (long long)s.wall_ns, (unsigned long long)r->rows, (unsigned long long)r->bytes,
        (unsigned long long)s.memory_limit, (unsigned long long)s.memory_peak,
        (unsigned long long)s.memory_disk, (unsigned long long)s.bad_rows,
        s.done ? "true" : "false");
    for (uint32_t i = 0; i < n; i++) {
        if (i) put(&t, ", ");
        put_op(&t, &ops[i]);
    }
    put(&t, "]}");
    pthread_mutex_unlock(&r->mu);
    sk_free(ops);
    if (!t.p) SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for statistics");
    return t.p;
}

char *skate_explain(skate_dataset *ds, const struct skate_run_opts *o) {
    struct sk_exec_conf c;
    const struct sk_shuffle_ops *strategy;
    struct sk_plan *plan;
    uint32_t root;
    struct sk_engine *e = sk_api_engine();
    if (!e || !ds || opts_of(o, &c, &strategy, sk_api_err()) != SK_OK ||
        sk_dataset_lower(ds, e, strategy, NULL, &plan, &root, sk_api_err()) != SK_OK)
        return NULL;
    size_t n = sk_plan_explain(plan, root, NULL, 0);
    char *text = malloc(n + 1);
    if (text) (void)sk_plan_explain(plan, root, text, n + 1);
    else SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for %zu bytes of text", n);
    sk_plan_destroy(plan, release_block, e);
    return text;
}

const char *skate_policy_name(unsigned i) { return sk_policy_name(i); }
const char *skate_strategy_name(unsigned i) { return sk_shuffle_name(i); }
