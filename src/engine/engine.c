/* engine.c - finds engines by name, and offers the calls of a running task, with the checks that
 * all engines need.
 *
 * Not here: any behaviour of an engine (engine/by/). Invariant: a function behind a sk_task_*
 * call never gets an index out of range, a value without an error kind as an error, or a note
 * that is too long. Cost: one indirect call. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine_int.h"
#include "engine/host.h"
#include "engine/windows.h"
#include "ipc/ipc.h"

const struct sk_engine_class *sk_engine_find(const char *name) {
    for (unsigned i = 0; i < sk_engine_table_n; i++)
        if (!strcmp(sk_engine_table[i]->name, name)) return sk_engine_table[i];
    return NULL;
}

sk_rc sk_engine_machine(struct sk_res *out, struct sk_err *err) {
    struct sk_sysmem *m;
    struct sk_sysmem_now now;
    cpu_set_t set;
    SK_TRY(sk_sysmem_create(&m, NULL, err));
    sk_rc rc = sk_sysmem_read(m, 1000, &now, err);
    uint64_t milli = sk_sysmem_cpu_milli(m);
    sk_sysmem_destroy(m);
    if (rc != SK_OK) return rc;
    /* the call fails on a machine with more than 1,024 CPUs */
    bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    int64_t cpus = SK_MAX(known ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN), 1);
    if (milli) cpus = SK_MIN(cpus, SK_MAX((int64_t)(milli / 1000), 1));
    *out = (struct sk_res){
        .amount = {[SK_RES_CPU] = cpus * SK_RES_UNIT, [SK_RES_MEMORY] = (int64_t)now.total_bytes}};
    return SK_OK;
}

const struct sk_task_opts sk_task_no_opts;

sk_rc sk_call_check(bool known, uint32_t n_pending, uint32_t max_pending, struct sk_err *err) {
    if (!known) return SK_ERR(err, SK_EACTOR, "the actor is dead: no handle was left");
    if (SK_LIKELY(!max_pending || n_pending < max_pending)) return SK_OK;
    return SK_ERR(err, SK_EPENDING,
                  "%u calls (max_pending_calls) wait for the actor already; wait for some of their "
                  "results, then call again",
                  max_pending);
}

sk_rc sk_spec_check(const struct sk_task_spec *s, bool there, struct sk_err *err) {
    if (s->node_only && s->node && !there && !s->actor.v)
        return SK_ERR(
            err, SK_EINFEASIBLE,
            "it is to be on node %u and nowhere else, and there is no such node, or no more",
            s->node);
    for (uint32_t i = 0; i < s->n_args; i++) {
        const struct sk_arg *a = &s->args[i];
        if (SK_LIKELY(!a->part)) continue;
        if (!a->ref.v)
            return SK_ERR(
                err, SK_EINVAL,
                "argument %u: a part is of an object, and this is a value; pass its bytes", i);
        if (a->offset > UINT64_MAX - a->length)
            return SK_ERR(err, SK_EINVAL, "argument %u: a part of %llu bytes at %llu has no end", i,
                          (unsigned long long)a->length, (unsigned long long)a->offset);
    }
    return SK_OK;
}

bool sk_part_within(uint32_t arg, uint64_t offset, uint64_t length, uint64_t len, char *text,
                    size_t cap) {
    if (offset <= len && length <= len - offset) return true;
    unsigned long long end = offset + length;
    (void)snprintf(text, cap,
                   "argument %u: bytes %llu to %llu were asked for, of an object of %llu bytes",
                   arg, (unsigned long long)offset, end, (unsigned long long)len);
    return false;
}

void sk_engine_close(struct sk_engine **e) {
    struct sk_engine *x = *e;
    *e = NULL;
    if (x) x->cls->close(x);
}

enum { FEW = 8 };

/* Gives all nodes: in `few` or, if there are more, in allocated memory that the caller frees. */
static sk_rc all_nodes(struct sk_engine *e, struct sk_node few[FEW], struct sk_node **out,
                       size_t *n, struct sk_err *err) {
    struct sk_node *p = few;
    for (size_t cap = FEW;;) {
        sk_rc rc = e->ops->nodes(e, p, cap, n, err);
        if (rc == SK_OK && *n <= cap) break;
        if (p != few) sk_free(p);
        if (rc != SK_OK) return rc;
        cap = *n;
        p = sk_alloc(SK_TAG_ENGINE, cap * sizeof *p);
        if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for the rows of %zu nodes", cap);
    }
    *out = p;
    return SK_OK;
}

sk_rc sk_engine_most(struct sk_engine *e, struct sk_res *out, struct sk_err *err) {
    struct sk_node few[FEW], *p;
    size_t n = 0;
    SK_TRY(all_nodes(e, few, &p, &n, err));
    *out = (struct sk_res){0};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; p[i].alive && k < SK_RES_MAX; k++)
            out->amount[k] = SK_MAX(out->amount[k], p[i].total.amount[k]);
    if (p != few) sk_free(p);
    return SK_OK;
}

sk_rc sk_engine_sum(struct sk_engine *e, struct sk_node *out, struct sk_err *err) {
    struct sk_node few[FEW], *p;
    size_t n = 0;
    SK_TRY(all_nodes(e, few, &p, &n, err));
    *out = (struct sk_node){0};
    for (size_t i = 0; i < n; i++) {
        if (!p[i].alive) continue;
        out->alive = true;
        for (int k = 0; k < SK_RES_MAX; k++) {
            out->total.amount[k] += p[i].total.amount[k];
            out->free.amount[k] += p[i].free.amount[k];
        }
        out->capacity_bytes += p[i].capacity_bytes;
        out->resident_bytes += p[i].resident_bytes;
        out->disk_bytes += p[i].disk_bytes;
        out->promised_bytes += p[i].promised_bytes;
        bool endless = out->disk_limit_bytes == UINT64_MAX || p[i].disk_limit_bytes == UINT64_MAX;
        out->disk_limit_bytes =
            endless ? UINT64_MAX : out->disk_limit_bytes + p[i].disk_limit_bytes;
        const struct sk_load *l = &p[i].load;
        out->load.workers += l->workers;
        out->load.running += l->running;
        out->load.queued += l->queued;
        out->load.done += l->done;
        out->load.failed += l->failed;
        out->load.objects += l->objects;
        out->load.spilled_bytes += l->spilled_bytes;
        out->load.restored_bytes += l->restored_bytes;
    }
    if (p != few) sk_free(p);
    return SK_OK;
}

void sk_window_close(void *at, size_t len) { sk_seg_window_close(at, len); }

static struct sk_task_priv *priv_of(struct sk_task *t) {
    return sk_container_of(t, struct sk_task_priv, t);
}

/* Refuses a payload. Takes p->buf over, as the calls of engine.h do on success and on failure, so
 * that a caller need not find out whether it still owns the buffer. */
static sk_rc refuse(struct sk_task *t, const struct sk_payload *p, sk_rc rc) {
    if (p->buf) t->engine->ops->buf_abort(t->engine, p->buf);
    return rc;
}

sk_rc sk_task_return(struct sk_task *t, uint32_t i, const struct sk_payload *p,
                     struct sk_err *err) {
    if (t->n_returns == SK_STREAMING || i >= t->n_returns)
        return refuse(t, p,
                      SK_ERR(err, SK_EINVAL, "task %s: return %u of %d", t->name, i,
                             t->n_returns == SK_STREAMING ? 0 : (int)t->n_returns));
    if (p->note.n > SK_NOTE_MAX)
        return refuse(t, p,
                      SK_ERR(err, SK_EINVAL, "task %s: a note of %zu bytes (at most %u)", t->name,
                             p->note.n, SK_NOTE_MAX));
    return priv_of(t)->ops->ret(t, i, p, err);
}

/* Yields a note as a value of its own, on an engine without notes. */
static sk_rc yield_note(struct sk_task *t, struct sk_bytes note, bool end, struct sk_err *err) {
    struct sk_task_priv *p = priv_of(t);
    uint8_t bytes[sizeof(struct sk_note_value) + SK_NOTE_MAX];
    SK_ASSERT(note.n <= SK_NOTE_MAX && t->n_returns == SK_STREAMING);
    if (!t->n_yielded) p->noted = p->n_noted = 0;
    if (!end) p->noted = sk_note_hash(p->noted, note);
    struct sk_note_value head = {.hash = p->noted, .n = p->n_noted, .end = end};
    p->n_noted += !end;
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, note.p, note.n);
    return p->ops->yield(
        t, &(struct sk_payload){.kind = SK_KIND_NOTE, .bytes = {bytes, sizeof head + note.n}}, err);
}

sk_rc sk_task_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) {
    if (t->n_returns != SK_STREAMING)
        return refuse(t, p,
                      SK_ERR(err, SK_EINVAL, "task %s yields, but was submitted with %u returns",
                             t->name, t->n_returns));
    if (p->note.n > SK_NOTE_MAX)
        return refuse(t, p,
                      SK_ERR(err, SK_EINVAL, "task %s: a note of %zu bytes (at most %u)", t->name,
                             p->note.n, SK_NOTE_MAX));
    struct sk_payload alone = *p;
    if (t->engine->no_notes && p->note.n) {
        sk_rc rc = yield_note(t, p->note, false, err);
        if (rc != SK_OK) return refuse(t, p, rc);
        alone.note.n = 0;
    }
    return priv_of(t)->ops->yield(t, &alone, err);
}

/* Returns how many yields a retry may skip. On an engine whose notes are yields, only whole pairs
 * of note and value are skipped. */
uint32_t sk_task_skip(const struct sk_task *t) {
    uint32_t n = sk_container_of(t, const struct sk_task_priv, t)->ops->skip(t);
    return t->engine->no_notes ? n & ~1u : n;
}

sk_rc sk_task_fail(struct sk_task *t, const struct sk_payload *error, struct sk_err *err) {
    if (!SK_KIND_IS_ERROR(error->kind))
        return refuse(
            t, error,
            SK_ERR(err, SK_EINVAL, "task %s: kind %#x is no error kind", t->name, error->kind));
    return priv_of(t)->ops->fail(t, error, err);
}

void sk_task_note(struct sk_task *t, struct sk_bytes note) {
    note.n = SK_MIN(note.n, (size_t)SK_NOTE_MAX);
    if (!t->engine->no_notes) priv_of(t)->ops->note(t, note);
    /* if this fails, the note is missing, and the stream's reader reports that at the end */
    else if (t->n_returns == SK_STREAMING) (void)!yield_note(t, note, true, NULL);
}

struct sk_view sk_task_keep_arg(struct sk_task *t, uint32_t i) {
    SK_ASSERT(i < t->n_args);
    return priv_of(t)->ops->keep_arg(t, i);
}

void sk_task_end(struct sk_task *t, sk_rc rc, const struct sk_err *err) {
    SK_ASSERT(t->is_async);
    priv_of(t)->ops->end(t, rc, err);
}

bool sk_task_interrupt(struct sk_task *t) {
    const struct sk_task_ops *ops = sk_container_of(t, struct sk_task_priv, t)->ops;
    return ops->interrupt && ops->interrupt(t);
}
bool sk_task_cancelled(const struct sk_task *t) {
    return sk_container_of(t, const struct sk_task_priv, t)->ops->cancelled(t);
}

void sk_task_end_flags(struct sk_task *t, uint32_t flags) { priv_of(t)->end_flags |= flags; }
