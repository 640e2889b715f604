/* resume.c - the log of a write that can be resumed (base/log/joblog.h): which job it is, the
 * reports of each unit that is done, and whether the commit has begun and ended.
 *
 * The job is known by the caller's text and by a digest of each node: its operator, the name and
 * the arguments of its function, the units. What functions do cannot be seen, so the text has to
 * change with it.
 *
 * Durability: records are appended when a unit is done, and synced at most 20 times a second, which
 * matters only if the machine dies; COMMIT is synced before the commit, DONE behind it. */
#include <stdio.h>
#include <string.h>

#include "api/data_int.h"
#include "base/clock.h"
#include "base/containers/vec.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/log/joblog.h"
#include "base/mem.h"

#define TAG SK_TAG_EXEC
#define SYNC_NS (50 * SK_MS) /* ns between two syncs of records of units */

struct unit {
    struct sk_reports reports;
    bool done;
};
struct sk_resume {
    struct sk_joblog *log;
    struct unit *units;
    uint8_t *skip; /* what was done when the log was opened */
    uint64_t n_units, n_done;
    uint64_t from; /* all units before it are done */
    bool committed, over;
    int64_t synced_ns;
};

struct sk_bytes sk_resume_done(const struct sk_resume *r) {
    return (struct sk_bytes){r->skip, r->n_units};
}
bool sk_resume_all(const struct sk_resume *r) { return r->n_done == r->n_units; }
bool sk_resume_over(const struct sk_resume *r) { return r->over; }

void sk_resume_close(struct sk_resume *r) {
    if (!r) return;
    for (uint64_t i = 0; r->units && i < r->n_units; i++) sk_reports_free(&r->units[i].reports);
    if (r->log) sk_joblog_close(&r->log);
    sk_free(r->units);
    sk_free(r->skip);
    sk_free(r);
}

/* ---- which job it is ------------------------------------------------------------------------- */

struct digest {
    uint64_t hash;
    uint32_t crc;
};
struct part {
    const char *label;
    struct digest digest;
};
struct parts {
    SK_VEC(struct part) v;
};

static void mix(struct digest *d, const void *p, size_t n) {
    uint64_t size = n, both = 31 * d->hash + sk_hash(p, n);
    d->hash = sk_hash(&both, sizeof both);
    d->crc = sk_crc32c(sk_crc32c(d->crc, &size, sizeof size), p, n);
}

static bool add_part(struct parts *p, const char *label, struct digest d) {
    return sk_vec_push(&p->v, TAG, ((struct part){label, d}));
}

/* The node of a write has its number among its parameters, which each run draws anew. */
static struct digest digest_of(const skate_dataset *ds, const struct skate_map_opts *m) {
    struct digest d = {0, 0};
    mix(&d, ds->op, strlen(ds->op));
    if (ds->props & SK_OP_WRITES) {
        mix(&d, ds->label, strlen(ds->label));
        if (m) mix(&d, m->arg, m->arg_size);
        if (m) mix(&d, &m->batch_rows, sizeof m->batch_rows);
        if (m) mix(&d, &m->on_error, sizeof m->on_error);
    } else {
        mix(&d, ds->params.p, ds->params.n);
    }
    for (uint32_t i = 0; i < ds->n_units; i++)
        mix(&d, ds->units[i].params.p, ds->units[i].params.n);
    return d;
}

/* Lists the parts of the job, from the write to its source, whose number of units is *n_units. */
static sk_rc parts_of(const skate_dataset *ds, const struct skate_map_opts *m, const char *job,
                      struct parts *out, uint64_t *n_units, struct sk_err *err) {
    struct digest d = {0, 0};
    mix(&d, job, strlen(job));
    bool ok = add_part(out, "job", d);
    for (; ds; ds = ds->n_inputs ? ds->inputs[0] : NULL) {
        if (ds->watch) continue;
        if (ds->exchange || ds->n_inputs > 1 || ds->limit >= 0 || ds->blocks || ds->stream)
            return SK_ERR(err, SK_EINVAL,
                          "write: %s cannot be part of a write that is resumed, which takes maps, "
                          "filters and selects over one source with units (skate_source, "
                          "skate_range, skate_read_records)",
                          ds->label);
        ok = ok && add_part(out, ds->label, digest_of(ds, m));
        *n_units = ds->n_units;
    }
    return ok ? SK_OK : SK_ERR(err, SK_ENOMEM, "write: no memory to resume it");
}

/* Finds the part in which the job of a log differs; NULL: it is the same job. */
static const char *differs(struct sk_job_rec head, const struct parts *mine, uint64_t n_units) {
    static const char OTHER[] = "the number of its operators";
    if (head.mode.n != 7 || memcmp(head.mode.p, "reports", 7) != 0) return "the program";
    for (uint32_t i = 0; i < SK_MIN(head.n, mine->v.n); i++) {
        struct sk_job_part theirs;
        const struct part *p = &mine->v.p[i];
        sk_job_part(&head, &theirs);
        if (theirs.label.n != strlen(p->label) ||
            memcmp(theirs.label.p, p->label, theirs.label.n) != 0 ||
            theirs.digest.n != sizeof p->digest.hash + sizeof p->digest.crc ||
            memcmp(theirs.digest.p, &p->digest.hash, sizeof p->digest.hash) != 0 ||
            memcmp((const char *)theirs.digest.p + sizeof p->digest.hash, &p->digest.crc,
                   sizeof p->digest.crc) != 0)
            return p->label;
    }
    return head.n != mine->v.n ? OTHER : head.unit != n_units ? "the number of units" : NULL;
}

/* ---- the log --------------------------------------------------------------------------------- */

static sk_rc sync_log(struct sk_resume *r, struct sk_err *err) {
    r->synced_ns = sk_now_ns();
    return sk_joblog_sync(r->log, err);
}

static sk_rc sync_folder(const char *path, struct sk_err *err) {
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)SK_MAX(slash - path, 1), path);
    return sk_job_sync_dir(folder, err);
}

static sk_rc begin(struct sk_resume *r, const struct parts *p, const char *path,
                   struct sk_err *err) {
    struct sk_job_rec head = {
        .kind = SK_JOB_HEAD, .n = p->v.n, .unit = r->n_units, .mode = {"reports", 7}};
    struct sk_job_part *parts = sk_calloc(TAG, (p->v.n + 1) * sizeof *parts);
    uint8_t (*digests)[12] = sk_calloc(TAG, (p->v.n + 1) * sizeof *digests);
    sk_rc rc = parts && digests ? SK_OK : SK_ERR(err, SK_ENOMEM, "write: no memory to resume it");
    for (uint32_t i = 0; rc == SK_OK && i < p->v.n; i++) {
        memcpy(digests[i], &p->v.p[i].digest.hash, 8);
        memcpy(digests[i] + 8, &p->v.p[i].digest.crc, 4);
        parts[i] = (struct sk_job_part){{p->v.p[i].label, strlen(p->v.p[i].label)},
                                        {digests[i], sizeof digests[i]}};
    }
    head.prefix = (struct sk_bytes){"", 0};
    if (rc == SK_OK) rc = sk_joblog_append(r->log, &head, parts, NULL, err);
    if (rc == SK_OK) rc = sync_log(r, err);
    if (rc == SK_OK) rc = sync_folder(path, err);
    sk_free(parts);
    sk_free(digests);
    return rc;
}

static sk_rc take_unit(struct sk_resume *r, struct sk_job_rec rec, struct sk_err *err) {
    if (rec.unit >= r->n_units) return SK_OK;
    struct unit *u = &r->units[rec.unit];
    sk_reports_free(&u->reports);
    u->done = true;
    for (uint32_t i = 0; i < rec.n; i++) {
        struct sk_job_part one;
        sk_job_part(&rec, &one);
        SK_TRY(sk_reports_add(&u->reports, one.label, err));
    }
    return SK_OK;
}

/* Reads what is done, and asks the program whether it is still there. */
static sk_rc take_done(struct sk_resume *r, const struct skate_sink *sink,
                       const struct skate_resume *o, size_t at, uint32_t crc, struct sk_err *err) {
    struct sk_bytes all = sk_joblog_bytes(r->log);
    struct sk_job_rec rec;
    while (sk_job_next(all.p, all.n, &at, &crc, &rec)) {
        if (rec.kind == SK_JOB_REPORTS) SK_TRY(take_unit(r, rec, err));
        r->committed = r->committed || rec.kind == SK_JOB_COMMIT;
        r->over = r->over || rec.kind == SK_JOB_DONE;
    }
    for (uint64_t i = 0; i < r->n_units; i++) {
        struct unit *u = &r->units[i];
        if (u->done && !r->committed && o->check &&
            o->check(sink->ctx, u->reports.v.p, u->reports.v.n)) {
            sk_reports_free(&u->reports);
            u->done = false;
        }
        r->n_done += u->done;
        r->skip[i] = u->done;
    }
    return SK_OK;
}

/* Goes on with the job of the log, or begins one where there is none, or another one has ended. */
static sk_rc go_on(struct sk_resume *r, const struct parts *p, const struct skate_sink *sink,
                   const struct skate_resume *o, struct sk_err *err) {
    struct sk_bytes all = sk_joblog_bytes(r->log);
    struct sk_job_rec head, rec;
    size_t at = 0;
    uint32_t crc = 0;
    if (!sk_job_next(all.p, all.n, &at, &crc, &head)) return begin(r, p, o->log, err);
    const char *what = differs(head, p, r->n_units);
    if (!what) return take_done(r, sink, o, at, crc, err);
    rec = head;
    while (sk_job_next(all.p, all.n, &at, &crc, &rec)) {}
    if (rec.kind != SK_JOB_DONE)
        return SK_ERR(err, SK_EINVAL,
                      "write: %s is the log of another job, which has not ended; what differs: %s. "
                      "End that job with the program and the input that began it, or remove the "
                      "log to begin anew",
                      o->log, what);
    SK_TRY(sk_joblog_clear(r->log, err));
    return begin(r, p, o->log, err);
}

sk_rc sk_resume_open(skate_dataset *ds, const struct skate_sink *sink,
                     const struct skate_map_opts *m, const struct skate_resume *o,
                     struct sk_resume **out, struct sk_err *err) {
    struct parts p = {0};
    SK_TRY(sk_api_sized("write", o, sizeof *o, err));
    if (!o || !o->log || !o->job)
        return SK_ERR(err, SK_EINVAL,
                      "write: to be resumed, it needs the path of a log, and a text that says "
                      "which job it is");
    struct sk_resume *r = sk_calloc(TAG, sizeof *r);
    sk_rc rc = r ? SK_OK : SK_ERR(err, SK_ENOMEM, "write: no memory to resume it");
    if (rc == SK_OK) rc = parts_of(ds, m, o->job, &p, &r->n_units, err);
    if (rc == SK_OK) {
        r->units = sk_calloc(TAG, (r->n_units + 1) * sizeof *r->units);
        r->skip = sk_calloc(TAG, r->n_units + 1);
        if (!r->units || !r->skip) rc = SK_ERR(err, SK_ENOMEM, "write: no memory to resume it");
    }
    if (rc == SK_OK) rc = sk_joblog_open(o->log, &r->log, err);
    if (rc == SK_EAGAIN) err->code = rc = SK_EEXIST;
    if (rc == SK_OK) rc = go_on(r, &p, sink, o, err);
    sk_vec_free(&p.v);
    if (rc == SK_OK) *out = r;
    else sk_resume_close(r);
    return rc;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static sk_rc record(struct sk_resume *r, uint64_t unit, struct sk_err *err) {
    const struct sk_reports *p = &r->units[unit].reports;
    struct sk_job_rec rec = {.kind = SK_JOB_REPORTS, .unit = unit, .n = p->v.n};
    struct sk_job_part *parts = sk_calloc(TAG, (p->v.n + 1) * sizeof *parts);
    if (!parts) return SK_ERR(err, SK_ENOMEM, "write: no memory to record a unit");
    for (size_t i = 0; i < p->v.n; i++)
        parts[i] = (struct sk_job_part){{p->v.p[i].data, p->v.p[i].size}, {"", 0}};
    sk_rc rc = sk_joblog_append(r->log, &rec, parts, NULL, err);
    sk_free(parts);
    if (rc == SK_OK && sk_now_ns() - r->synced_ns >= SYNC_NS) rc = sync_log(r, err);
    return rc;
}

sk_rc sk_resume_units(struct sk_resume *r, uint64_t at, struct sk_reports *reports, uint64_t upto,
                      struct sk_err *err) {
    for (; r->from < upto; r->from++) {
        struct unit *u = &r->units[r->from];
        if (u->done) continue;
        if (r->from == at) {
            u->reports = *reports;
            *reports = (struct sk_reports){.v = {NULL, 0, 0}};
        }
        SK_TRY(record(r, r->from, err));
        u->done = true;
        r->n_done++;
    }
    return SK_OK;
}

static sk_rc mark(struct sk_resume *r, uint32_t kind, struct sk_err *err) {
    SK_TRY(sk_joblog_append(r->log, &(struct sk_job_rec){.kind = kind}, NULL, NULL, err));
    return sync_log(r, err);
}

sk_rc sk_resume_commit(struct sk_resume *r, const struct skate_sink *sink, struct sk_err *err) {
    struct skate_arg *all;
    size_t n = 0, k = 0;
    for (uint64_t i = 0; i < r->n_units; i++) n += r->units[i].reports.v.n;
    if (!(all = sk_calloc(TAG, (n + 1) * sizeof *all)))
        return SK_ERR(err, SK_ENOMEM, "write: no memory for %zu reports", n);
    for (uint64_t i = 0; i < r->n_units; i++)
        for (size_t j = 0; j < r->units[i].reports.v.n; j++) all[k++] = r->units[i].reports.v.p[j];
    sk_rc rc = r->committed ? SK_OK : mark(r, SK_JOB_COMMIT, err);
    SK_FAULT_HERE("resume.commit");
    if (rc == SK_OK && sink->commit) rc = sink->commit(sink->ctx, all, n);
    SK_FAULT_HERE("resume.committed");
    if (rc == SK_OK) rc = mark(r, SK_JOB_DONE, err);
    sk_free(all);
    return rc;
}
