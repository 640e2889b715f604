/* write.c - writes: runs of datasets into sinks, by reports and a commit in the caller's
 * thread. A write that can be resumed keeps the units of its source apart, and records those that
 * are done (resume.c). */
#include <sys/random.h>

#include "api/data_int.h"
#include "base/clock.h"
#include "base/mem.h"

#define TAG SK_TAG_EXEC

void sk_reports_free(struct sk_reports *p) {
    for (uint32_t i = 0; i < p->v.n; i++) sk_free((void *)(uintptr_t)p->v.p[i].data);
    sk_vec_free(&p->v);
}

sk_rc sk_reports_add(struct sk_reports *p, struct sk_bytes report, struct sk_err *err) {
    void *copy = sk_memdup(TAG, report.n ? report.p : "", SK_MAX(report.n, 1));
    if (copy && sk_vec_push(&p->v, TAG, SKATE_BYTES(copy, report.n))) return SK_OK;
    sk_free(copy);
    return SK_ERR(err, SK_ENOMEM, "no memory for a report");
}

/* Reads the reports of a block. */
static sk_rc read_reports(struct sk_data_run *r, const struct sk_bref *b, struct sk_reports *p,
                          struct sk_err *err) {
    struct ArrowSchema schema;
    struct ArrowArray a;
    SK_TRY(sk_data_run_open(r, b, &schema, &a, err));
    sk_rc rc = schema.n_children == 1 && strcmp(schema.children[0]->format, "z") == 0
                   ? SK_OK
                   : SK_ERR(err, SK_EINVAL,
                            "write: the functions of a sink emit nothing but reports "
                            "(skate_report)");
    for (int64_t i = 0; rc == SK_OK && i < a.length; i++) {
        const struct ArrowArray *c = a.children[0];
        const int32_t *at = (const int32_t *)c->buffers[1] + c->offset + i;
        struct sk_bytes one = {(const uint8_t *)c->buffers[2] + at[0], (size_t)(at[1] - at[0])};
        rc = sk_reports_add(p, one, err);
    }
    a.release(&a);
    schema.release(&schema);
    return rc;
}

static uint64_t write_number(void) {
    uint64_t n = 0;
    while (!n)
        if (getrandom(&n, sizeof n, 0) != sizeof n) n = (uint64_t)sk_now_ns();
    return n;
}

/* The node of a write into a sink. NULL: the message is set. */
static skate_dataset *write_of(skate_dataset *ds, const struct skate_sink *sink,
                               const struct skate_map_opts *m) {
    if (!sink || sink->size != sizeof *sink || !sink->write) {
        SK_ERR(sk_api_err(), SK_EINVAL,
               "write: a sink is needed that begins with its size, %zu, and has functions",
               sizeof *sink);
        return NULL;
    }
    return sk_dataset_writes(skate_dataset_retain(ds), sink->write, m, write_number());
}

static sk_rc no_write(void) { return sk_api_err()->code ? sk_api_err()->code : SK_EINVAL; }

int skate_write(skate_dataset *ds, const struct skate_sink *sink, const struct skate_map_opts *m,
                const struct skate_run_opts *o) {
    struct sk_data_run *r;
    struct sk_bref b;
    struct sk_reports p = {.v = {NULL, 0, 0}};
    struct sk_err err = {.code = 0};
    skate_dataset *w = write_of(ds, sink, m);
    if (!w) return no_write();
    sk_rc rc = sk_data_run_start(w, o, (struct sk_bytes){NULL, 0}, &r, sk_api_err());
    skate_dataset_release(w);
    if (rc != SK_OK) return rc;
    while ((rc = sk_data_run_next(r, &b, &err)) == SK_OK)
        if ((rc = read_reports(r, &b, &p, &err)) != SK_OK) break;
    sk_data_run_free(r);
    if (rc == SK_EDONE) rc = sink->commit ? sink->commit(sink->ctx, p.v.p, p.v.n) : SK_OK;
    else {
        if (sink->abort) sink->abort(sink->ctx, p.v.p, p.v.n);
        *sk_api_err() = err;
    }
    sk_reports_free(&p);
    return rc;
}

/* Runs the units that are not done. Blocks come in the order of units, so the first block of a
 * later one says that all earlier units are done. After a failure *p has the reports of the unit
 * that is not. */
static sk_rc run_units(skate_dataset *w, const struct skate_run_opts *o, struct sk_resume *job,
                       struct sk_reports *p, struct sk_err *err) {
    struct sk_data_run *r;
    struct sk_bref b;
    uint64_t at = 0;
    SK_TRY(sk_data_run_start(w, o, sk_resume_done(job), &r, err));
    sk_rc rc;
    while ((rc = sk_data_run_next(r, &b, err)) == SK_OK) {
        uint64_t unit = b.origin;
        if (unit != at) rc = sk_resume_units(job, at, p, unit, err);
        at = unit;
        if (rc == SK_OK) rc = read_reports(r, &b, p, err);
        else sk_data_run_drop(r, &b);
        if (rc != SK_OK) break;
    }
    sk_data_run_free(r);
    return rc == SK_EDONE ? sk_resume_units(job, at, p, sk_resume_done(job).n, err) : rc;
}

int skate_write_resumable(skate_dataset *ds, const struct skate_sink *sink,
                          const struct skate_resume *resume, const struct skate_map_opts *m,
                          const struct skate_run_opts *o) {
    struct sk_reports p = {.v = {NULL, 0, 0}};
    struct sk_resume *job = NULL;
    struct sk_err err = {.code = 0};
    skate_dataset *w = write_of(ds, sink, m);
    if (!w) return no_write();
    sk_rc rc = sk_resume_open(w, sink, m, resume, &job, &err);
    if (rc == SK_OK && !sk_resume_all(job)) rc = run_units(w, o, job, &p, &err);
    if (rc != SK_OK && job && sink->abort) sink->abort(sink->ctx, p.v.p, p.v.n);
    if (rc == SK_OK && !sk_resume_over(job)) rc = sk_resume_commit(job, sink, &err);
    if (rc != SK_OK && err.code) *sk_api_err() = err;
    sk_resume_close(job);
    sk_reports_free(&p);
    skate_dataset_release(w);
    return rc;
}
