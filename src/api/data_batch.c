/* data_batch.c - operators that call functions of batches: map, filter, map_groups, source.
 *
 * A function gets a struct skate_task whose `batch` is the operator's context. Where failures are
 * skipped or quarantined, what a call emits is held until it has succeeded, and a batch whose call
 * failed is tried again by halves down to single rows: about 2 log2(n) calls for one bad row among
 * n. Dead letters leave the task as blocks of their own (exec.h). */
#include <stdio.h>
#include <stdlib.h>

#include "api/data_int.h"
#include "base/containers/vec.h"
#include "data/groups.h"

#define TAG SK_TAG_EXEC

enum { MAX_FNS = 1024, LETTERS_MAX = 256 };

/* ---- registered functions -------------------------------------------------------------------- */

static struct {
    const char *name;
    const struct skate_batch_fns *f;
} fns[MAX_FNS];
static uint32_t n_fns;

int skate_register_batches(const char *name, const struct skate_batch_fns *f) {
    if (!name || !*name || !f || f->size != sizeof *f || !f->batch)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "register_batches %s: a name and functions (with their size, %zu) are needed",
                      name ? name : "(null)", sizeof *f);
    for (uint32_t i = 0; i < n_fns; i++)
        if (strcmp(fns[i].name, name) == 0)
            return fns[i].f == f ? SK_OK
                                 : SK_ERR(sk_api_err(), SK_EINVAL,
                                          "register_batches %s: the name is in use", name);
    if (n_fns == MAX_FNS)
        return SK_ERR(sk_api_err(), SK_EFULL, "register_batches %s: more than %d functions", name,
                      MAX_FNS);
    fns[n_fns].name = name;
    fns[n_fns++].f = f;
    return SK_OK;
}

sk_rc sk_batches_find(const char *name, const struct skate_batch_fns **out, struct sk_err *err) {
    for (uint32_t i = 0; i < n_fns; i++)
        if (strcmp(fns[i].name, name) == 0) {
            *out = fns[i].f;
            return SK_OK;
        }
    return SK_ERR(err, SK_ENOENT, "no function of batches '%s' is registered in this process",
                  name);
}

/* ---- parameters ------------------------------------------------------------------------------ */

size_t sk_batch_call_write(const struct sk_batch_call *c, void *buf, size_t cap) {
    struct sk_wr w = sk_wr_init(buf, cap);
    sk_wr_i64(&w, c->batch_rows);
    sk_wr_u32(&w, c->on_error);
    sk_wr_u64(&w, c->write);
    sk_wr_bytes(&w, c->name, strlen(c->name) + 1);
    sk_wr_bytes(&w, c->arg.p, c->arg.n);
    sk_wr_bytes(&w, c->keys.p, c->keys.n);
    return w.n;
}

static bool call_read(struct sk_bytes wire, struct sk_batch_call *c) {
    struct sk_rd r = sk_rd_init(wire.p, wire.n);
    c->batch_rows = sk_rd_i64(&r);
    c->on_error = sk_rd_u32(&r);
    c->write = sk_rd_u64(&r);
    struct sk_bytes name = sk_rd_bytes(&r);
    c->arg = sk_rd_bytes(&r);
    c->keys = sk_rd_bytes(&r);
    c->name = name.p;
    return sk_rd_ok(&r) && name.n && !c->name[name.n - 1];
}

/* ---- an operator's state --------------------------------------------------------------------- */

struct letter {
    char *message;
    int code;
    struct sk_batch *row; /* NULL: rows are skipped */
};
struct op {
    struct sk_batch_ctx ctx;
    struct sk_batch_call call;
    const struct skate_batch_fns *f; /* not of a source */
    struct sk_api_fn *source;
    SK_VEC(struct sk_batch *) in; /* batches that wait to make one of batch_rows rows */
    int64_t in_rows;
    SK_VEC(struct letter) letters;
    bool begun;               /* f->begin was called for this task */
    struct sk_groups *groups; /* of map_groups */
};

static struct op *op_of(struct sk_data_node *n) { return sk_data_state(n); }
static struct skate_task *task_of(struct sk_data_node *n) { return sk_data_ctx(n); }

/* The code of a failed function: its own if it is a public one. Others mean something to the
 * engine; SKATE_ECANCEL has a meaning only behind an emit that returned it. */
static int code_of(int rc) {
    return rc < 0 && rc >= SK_ENOENT && rc != SK_EAGAIN && rc != SK_ECANCEL ? rc : SK_ETASK;
}

static sk_rc failed(int rc, const char *what, struct sk_err *err) {
    const struct sk_err *e = sk_api_err();
    if (!e->msg[0]) return SK_ERR(err, code_of(rc), "%s returned %d", what, rc);
    return SK_ERR(err, code_of(rc), "%s: %s", what, e->msg);
}

/* Makes the operator's context that of the task, for a call of a function. Returns the context
 * that leave() restores. */
static struct sk_batch_ctx *enter(struct sk_data_node *n, bool emits) {
    struct sk_batch_ctx *c = &op_of(n)->ctx;
    struct skate_task *t = task_of(n);
    struct sk_batch_ctx *outer = t->batch;
    c->emits = emits;
    c->emit_rc = SK_OK;
    c->passed = false;
    sk_api_err()->msg[0] = 0;
    t->batch = c;
    return outer;
}

/* Ends a call that returned *rc_of. A failure of the operators behind is returned as it is, with
 * its own message, whatever the function made of it; SK_EDONE if they need no more rows. A batch
 * that could not be emitted is a failure of the function: *rc_of. */
static sk_rc leave(struct sk_data_node *n, struct sk_batch_ctx *outer, int *rc_of,
                   struct sk_err *err) {
    struct sk_batch_ctx *c = &op_of(n)->ctx;
    task_of(n)->batch = outer;
    c->emits = false;
    if (!c->emit_rc) return SK_OK;
    if (c->passed && c->emit_rc == SK_EDONE)
        return *rc_of && *rc_of != SK_ECANCEL ? SK_OK : SK_EDONE;
    if (!c->passed && *rc_of) return SK_OK;
    *sk_api_err() = c->emit_err;
    if (c->passed) {
        if (err != sk_api_err()) *err = c->emit_err;
        return c->emit_rc;
    }
    *rc_of = c->emit_rc;
    return SK_OK;
}

static sk_rc open_call(struct sk_data_node *n, struct sk_err *err) {
    struct op *o = op_of(n);
    o->ctx.node = n;
    if (!call_read(sk_data_params(n), &o->call))
        return SK_ERR(err, SK_ECORRUPT, "the parameters are damaged");
    o->ctx.arg = o->call.arg;
    o->ctx.writes = o->call.write != 0;
    return SK_OK;
}

static sk_rc open_batches(struct sk_data_node *n, struct sk_err *err) {
    struct op *o = op_of(n);
    SK_TRY(open_call(n, err));
    SK_TRY(sk_batches_find(o->call.name, &o->f, err));
    if (!o->f->init) return SK_OK;
    struct sk_batch_ctx *outer = enter(n, false);
    int rc = o->f->init(task_of(n), &o->ctx.state);
    SK_TRY(leave(n, outer, &rc, err));
    return rc ? failed(rc, "init", err) : SK_OK;
}

static void drop_held(struct sk_batch_ctx *c) {
    for (uint32_t i = 0; i < c->n_held; i++) sk_batch_destroy(c->held[i]);
    c->n_held = 0;
}

static void reset(struct sk_data_node *n) {
    struct op *o = op_of(n);
    if (o->begun && o->f->drop && o->ctx.task_state) o->f->drop(o->ctx.task_state);
    o->ctx.task_state = NULL;
    o->begun = false;
    drop_held(&o->ctx);
    for (uint32_t i = 0; i < o->in.n; i++) sk_batch_destroy(o->in.p[i]);
    for (uint32_t i = 0; i < o->letters.n; i++) {
        sk_free(o->letters.p[i].message);
        sk_batch_destroy(o->letters.p[i].row);
    }
    sk_vec_free(&o->in);
    sk_vec_free(&o->letters);
    sk_schema_drop(o->ctx.given);
    o->ctx.given = NULL;
    o->in_rows = 0;
}

static void close_op(struct sk_data_node *n) {
    struct op *o = op_of(n);
    if (o->f && o->f->fini && o->ctx.state) o->f->fini(o->ctx.state);
    sk_schema_drop(o->ctx.emitted);
    sk_free(o->ctx.held);
    sk_groups_destroy(o->groups);
}

/* ---- what functions call --------------------------------------------------------------------- */

static sk_rc emit(struct sk_batch_ctx *c, const struct ArrowSchema *schema, struct ArrowArray *a,
                  struct sk_err *err) {
    struct sk_schema **known = schema == c->given_s ? &c->given : &c->emitted;
    struct sk_batch *b;
    SK_TRY(sk_block_check_batch(schema, a, err));
    if (schema != c->given_s && !(c->emitted && sk_block_same_schema(&c->emitted->s, schema))) {
        struct sk_schema *s;
        SK_TRY(sk_schema_copy(schema, &s, err));
        sk_schema_drop(c->emitted);
        c->emitted = s;
    }
    SK_TRY(sk_batch_take(sk_schema_keep(*known), a, &b, err));
    c->passed = !c->holds;
    if (!c->holds) return sk_data_send(c->node, b, err);
    if (c->n_held == c->held_cap) {
        uint32_t cap = 2 * c->held_cap + 8;
        struct sk_batch **held = sk_realloc(TAG, c->held, cap * sizeof(struct sk_batch *));
        if (!held) {
            sk_batch_destroy(b);
            return SK_ERR(err, SK_ENOMEM, "no memory to hold a batch");
        }
        c->held = held;
        c->held_cap = cap;
    }
    c->held[c->n_held++] = b;
    return SK_OK;
}

/* Emits into an operator's context. The first failure stays: later calls return it again. */
static sk_rc emit_into(struct sk_batch_ctx *c, const struct ArrowSchema *schema,
                       struct ArrowArray *batch) {
    if (c->emit_rc) {
        *sk_api_err() = c->emit_err;
        return c->emit_rc;
    }
    c->passed = false;
    if (c->keep)
        c->emit_rc = SK_ERR(sk_api_err(), SK_EINVAL,
                            "emit: the function of a filter emits nothing; set skate_keep(t)[i]");
    else if (!c->emits)
        c->emit_rc = SK_ERR(sk_api_err(), SK_EINVAL,
                            "emit: init makes a state and cannot emit; emit from batch or end");
    else if (!schema || !schema->format || !batch || !batch->release)
        c->emit_rc =
            SK_ERR(sk_api_err(), SK_EINVAL, "emit: a schema and a batch are needed, not released");
    else c->emit_rc = emit(c, schema, batch, sk_api_err());
    if (c->emit_rc) c->emit_err = *sk_api_err();
    if (c->emit_rc == SK_ENOMEM) c->passed = true; /* no row is to blame */
    return c->emit_rc;
}

int skate_emit(struct skate_task *t, const struct ArrowSchema *schema, struct ArrowArray *batch) {
    sk_rc rc = t && t->batch
                   ? emit_into(t->batch, schema, batch)
                   : SK_ERR(sk_api_err(), SK_EINVAL, "emit: this task is none of a pipeline");
    if (batch && batch->release) batch->release(batch);
    if (batch) batch->release = NULL;
    return rc == SK_EDONE ? SK_ECANCEL : rc;
}

const void *skate_arg(const struct skate_task *t, size_t *size) {
    if (!t || !t->batch) return NULL;
    if (size) *size = t->batch->arg.n;
    return t->batch->arg.n ? t->batch->arg.p : NULL;
}
void *skate_state(const struct skate_task *t) { return t && t->batch ? t->batch->state : NULL; }
void *skate_task_state(const struct skate_task *t) {
    return t && t->batch ? t->batch->task_state : NULL;
}
uint8_t *skate_keep(struct skate_task *t) { return t && t->batch ? t->batch->keep : NULL; }

/* ---- dead letters ---------------------------------------------------------------------------- */

struct texts { /* a column of texts that is being made */
    int32_t *offsets;
    char *bytes;
};

static void release_column(struct ArrowArray *a) {
    for (int64_t i = 0; i < a->n_buffers; i++) sk_free((void *)(uintptr_t)a->buffers[i]);
    sk_free(a->buffers);
    a->release = NULL;
}
static void release_struct(struct ArrowArray *a) {
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i] && a->children[i]->release) a->children[i]->release(a->children[i]);
        sk_free(a->children[i]);
    }
    sk_free(a->children);
    sk_free(a->buffers);
    a->release = NULL;
}

static struct ArrowArray *new_column(int64_t rows, uint32_t n_buffers) {
    struct ArrowArray *a = sk_calloc(TAG, sizeof *a);
    if (a && !(a->buffers = sk_calloc(TAG, n_buffers * sizeof *a->buffers))) {
        sk_free(a);
        return NULL;
    }
    if (a) {
        a->length = rows;
        a->n_buffers = n_buffers;
        a->release = release_column;
    }
    return a;
}

static struct ArrowArray *texts(const struct letter *l, uint32_t n, struct sk_bytes same) {
    struct ArrowArray *a = new_column(n, 3);
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) bytes += same.p ? same.n : strlen(l[i].message);
    int32_t *offsets = a ? sk_alloc(TAG, (n + 1) * sizeof *offsets) : NULL;
    char *text = a ? sk_alloc(TAG, bytes + 1) : NULL;
    if (a) a->buffers[1] = offsets, a->buffers[2] = text;
    if (!offsets || !text) {
        if (a) a->release(a);
        sk_free(a);
        return NULL;
    }
    offsets[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t len = same.p ? same.n : strlen(l[i].message);
        memcpy(text + offsets[i], same.p ? same.p : l[i].message, len);
        offsets[i + 1] = offsets[i] + (int32_t)len;
    }
    return a;
}

static struct ArrowArray *codes(const struct letter *l, uint32_t n) {
    struct ArrowArray *a = new_column(n, 2);
    int32_t *v = a ? sk_alloc(TAG, n * sizeof *v) : NULL;
    if (a) a->buffers[1] = v;
    for (uint32_t i = 0; v && i < n; i++) v[i] = l[i].code;
    if (a && !v) {
        a->release(a);
        sk_free(a);
        return NULL;
    }
    return a;
}

/* Joins the rows of letters into a column of structs. */
static sk_rc rows_of(const struct letter *l, uint32_t n, struct ArrowArray **out,
                     struct sk_err *err) {
    struct sk_batch **rows = sk_alloc(TAG, n * sizeof(struct sk_batch *)), *all = NULL;
    sk_rc rc = rows ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for bad rows");
    for (uint32_t i = 0; rc == SK_OK && i < n; i++) rows[i] = l[i].row;
    if (rc == SK_OK) rc = sk_batch_concat(rows, n, &all, err);
    sk_free(rows);
    *out = rc == SK_OK ? sk_alloc(TAG, sizeof **out) : NULL;
    if (rc == SK_OK)
        rc = *out ? sk_batch_export(all, *out, err)
                  : SK_ERR(err, SK_ENOMEM, "no memory for bad rows");
    sk_batch_destroy(all);
    return rc;
}

/* Gives the first n letters out as one block. Their rows, if there are any, have one schema. */
static sk_rc give_letters(struct sk_data_node *node, uint32_t n, struct sk_err *err) {
    struct op *o = op_of(node);
    const struct letter *l = o->letters.p;
    struct ArrowSchema child[4] = {{.format = "u", .name = "operator"},
                                   {.format = "u", .name = "message"},
                                   {.format = "i", .name = "code"}},
                       *children[4] = {&child[0], &child[1], &child[2], &child[3]},
                       top = {.format = "+s", .children = children, .n_children = l->row ? 4 : 3};
    struct sk_schema *schema;
    struct sk_batch *b;
    if (l->row) {
        child[3] = l->row->schema->s;
        child[3].name = "row";
    }
    SK_TRY(sk_schema_copy(&top, &schema, err));
    struct ArrowArray a = {.length = n, .n_buffers = 1, .release = release_struct};
    a.buffers = sk_calloc(TAG, sizeof *a.buffers);
    a.children = sk_calloc(TAG, 4 * sizeof *a.children);
    sk_rc rc = a.buffers && a.children ? SK_OK : SK_ENOMEM;
    if (rc == SK_OK) {
        a.n_children = top.n_children;
        a.children[0] = texts(l, n, sk_data_label(node));
        a.children[1] = texts(l, n, (struct sk_bytes){NULL, 0});
        a.children[2] = codes(l, n);
        rc = a.children[0] && a.children[1] && a.children[2] ? SK_OK : SK_ENOMEM;
    }
    if (rc == SK_ENOMEM) SK_ERR(err, SK_ENOMEM, "no memory for bad rows");
    if (rc == SK_OK && l->row) rc = rows_of(l, n, &a.children[3], err);
    if (rc == SK_OK) {
        rc = sk_batch_take(schema, &a, &b, err);
        if (rc == SK_OK) rc = sk_data_dead(node, b, n, err);
    } else {
        release_struct(&a);
        sk_schema_drop(schema);
    }
    return rc;
}

static sk_rc flush_letters(struct sk_data_node *node, struct sk_err *err) {
    struct op *o = op_of(node);
    while (o->letters.n) {
        const struct letter *l = o->letters.p;
        uint32_t n = 1;
        while (n < o->letters.n && (l[n].row == NULL) == (l->row == NULL) &&
               (!l->row || sk_block_same_schema(&l->row->schema->s, &l[n].row->schema->s)))
            n++;
        SK_TRY(give_letters(node, n, err));
        for (uint32_t i = 0; i < n; i++) {
            sk_free(o->letters.p[i].message);
            sk_batch_destroy(o->letters.p[i].row);
        }
        memmove(o->letters.p, o->letters.p + n, (o->letters.n - n) * sizeof *o->letters.p);
        o->letters.n -= n;
    }
    return SK_OK;
}

/* Notes a row whose call failed. Takes row over. */
static sk_rc add_letter(struct sk_data_node *node, struct sk_batch *row, int code,
                        const char *message, struct sk_err *err) {
    struct op *o = op_of(node);
    struct letter l = {.message = sk_memdup(TAG, message, strlen(message) + 1), .code = code};
    if (o->call.on_error == SKATE_QUARANTINE) l.row = row;
    else sk_batch_destroy(row);
    if (!l.message || !sk_vec_push(&o->letters, TAG, l)) {
        sk_free(l.message);
        sk_batch_destroy(l.row);
        return SK_ERR(err, SK_ENOMEM, "no memory for a bad row");
    }
    return o->letters.n >= LETTERS_MAX ? flush_letters(node, err) : SK_OK;
}

/* ---- calling a function ---------------------------------------------------------------------- */

/* Calls the function for a batch, which stays the caller's. *rc_of: how the function failed. */
static sk_rc call_fn(struct sk_data_node *n, struct sk_batch *b, int *rc_of, struct sk_err *err) {
    struct op *o = op_of(n);
    struct ArrowArray a;
    SK_TRY(sk_batch_export(b, &a, err));
    if (o->ctx.given != b->schema) {
        sk_schema_drop(o->ctx.given);
        o->ctx.given = sk_schema_keep(b->schema);
    }
    o->ctx.given_s = &b->schema->s;
    o->ctx.holds = o->call.on_error != SKATE_RAISE;
    struct sk_batch_ctx *outer = enter(n, true);
    *rc_of = o->f->batch(task_of(n), &b->schema->s, &a);
    o->ctx.given_s = NULL;
    if (a.release) a.release(&a);
    return leave(n, outer, rc_of, err);
}

/* Sends what a successful call has emitted. */
static sk_rc send_held(struct sk_data_node *n, struct sk_err *err) {
    struct sk_batch_ctx *c = &op_of(n)->ctx;
    sk_rc rc = SK_OK;
    uint32_t i = 0;
    for (; rc == SK_OK && i < c->n_held; i++) rc = sk_data_send(n, c->held[i], err);
    for (; i < c->n_held; i++) sk_batch_destroy(c->held[i]);
    c->n_held = 0;
    return rc;
}

/* Calls the function; takes b over. Levels of recursion: log2 of the rows. */
static sk_rc call(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct op *o = op_of(n);
    int rc_of = 0;
    sk_rc rc = call_fn(n, b, &rc_of, err);
    if (rc != SK_OK || (rc_of && o->call.on_error == SKATE_RAISE)) {
        sk_batch_destroy(b);
        return rc != SK_OK ? rc : failed(rc_of, o->call.name, err);
    }
    if (!rc_of) {
        sk_batch_destroy(b);
        return send_held(n, err);
    }
    drop_held(&o->ctx);
    int64_t rows = b->array.length;
    if (!rows) { /* there is no row to set apart */
        sk_batch_destroy(b);
        return SK_OK;
    }
    if (rows == 1) {
        char message[1008];
        snprintf(message, sizeof message, "%s", sk_api_err()->msg);
        return add_letter(n, b, code_of(rc_of), message, err);
    }
    for (int half = 0; rc == SK_OK && half < 2; half++) {
        struct sk_batch *part;
        int64_t from = half ? rows / 2 : 0, to = half ? rows : rows / 2;
        rc = sk_batch_slice(b, from, to - from, &part, err);
        if (rc == SK_OK) rc = call(n, part, err);
    }
    sk_batch_destroy(b);
    return rc;
}

/* ---- map ------------------------------------------------------------------------------------- */

/* Joins the waiting batches and calls the function for `rows` rows at a time; the rest waits. */
static sk_rc call_full(struct sk_data_node *n, bool rest, struct sk_err *err) {
    struct op *o = op_of(n);
    struct sk_batch *all;
    int64_t size = o->call.batch_rows, at = 0;
    if (!o->in.n || (!rest && o->in_rows < size)) return SK_OK;
    if (o->in.n == 1) all = o->in.p[0];
    else SK_TRY(sk_batch_concat(o->in.p, o->in.n, &all, err));
    for (uint32_t i = 0; o->in.n > 1 && i < o->in.n; i++) sk_batch_destroy(o->in.p[i]);
    o->in.n = 0;
    o->in_rows = 0;
    int64_t rows = all->array.length;
    sk_rc rc = SK_OK;
    struct sk_batch *part;
    if (rest && !rows) return call(n, all, err); /* the function makes the columns of no rows */
    for (; rc == SK_OK && rows - at >= size; at += size) {
        rc = sk_batch_slice(all, at, size, &part, err);
        if (rc == SK_OK) rc = call(n, part, err);
    }
    if (rc == SK_OK && at < rows) {
        rc = sk_batch_slice(all, at, rows - at, &part, err);
        if (rc == SK_OK && rest) rc = call(n, part, err);
        else if (rc == SK_OK) {
            if (sk_vec_push(&o->in, TAG, part)) o->in_rows = rows - at;
            else {
                sk_batch_destroy(part);
                rc = SK_ERR(err, SK_ENOMEM, "no memory to collect batches");
            }
        }
    }
    sk_batch_destroy(all);
    return rc;
}

static sk_rc map_push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct op *o = op_of(n);
    if (!o->call.batch_rows) return call(n, b, err);
    struct sk_batch *before = o->in.n ? o->in.p[0] : NULL;
    sk_rc rc = SK_OK;
    if (before && !sk_block_same_schema(&before->schema->s, &b->schema->s))
        rc = call_full(n, true, err);
    if (rc == SK_OK && !sk_vec_push(&o->in, TAG, b))
        rc = SK_ERR(err, SK_ENOMEM, "no memory to collect batches");
    if (rc != SK_OK) {
        sk_batch_destroy(b);
        return rc;
    }
    o->in_rows += b->array.length;
    return call_full(n, false, err);
}

/* Calls one of the functions that have no batch. */
static sk_rc call_plain(struct sk_data_node *n, int (*fn)(struct skate_task *t),
                        struct sk_err *err) {
    struct op *o = op_of(n);
    o->ctx.holds = false;
    struct sk_batch_ctx *outer = enter(n, true);
    int rc = fn(task_of(n));
    SK_TRY(leave(n, outer, &rc, err));
    return rc ? failed(rc, o->call.name, err) : SK_OK;
}

static sk_rc map_begin(struct sk_data_node *n, struct sk_err *err) {
    struct op *o = op_of(n);
    const struct sk_data_task *d = sk_data_task_of(n);
    snprintf(o->ctx.write_id, sizeof o->ctx.write_id, "%016llx-%08llu",
             (unsigned long long)o->call.write, (unsigned long long)d->d.seq);
    if (!o->f->begin) return SK_OK;
    o->begun = true;
    o->ctx.holds = false;
    struct sk_batch_ctx *outer = enter(n, true);
    int rc = o->f->begin(task_of(n), &o->ctx.task_state);
    SK_TRY(leave(n, outer, &rc, err));
    return rc ? failed(rc, o->call.name, err) : SK_OK;
}

static sk_rc map_end(struct sk_data_node *n, struct sk_err *err) {
    struct op *o = op_of(n);
    SK_TRY(call_full(n, true, err));
    if (o->f->end) SK_TRY(call_plain(n, o->f->end, err));
    return flush_letters(n, err);
}

const char *skate_write_id(const struct skate_task *t) {
    return t && t->batch ? t->batch->write_id : "";
}

int skate_report(struct skate_task *t, const void *data, size_t size) {
    struct ArrowSchema child = {.format = "z", .name = "report"}, *kids[] = {&child},
                       schema = {.format = "+s", .children = kids, .n_children = 1};
    if (!t || !t->batch || !t->batch->writes)
        return SK_ERR(sk_api_err(), SK_EINVAL, "report: this task writes nothing");
    if (size > INT32_MAX || (size && !data))
        return SK_ERR(sk_api_err(), SK_EINVAL, "report: %zu bytes", size);
    struct ArrowArray a = {.length = 1, .n_buffers = 1, .release = release_struct};
    a.buffers = sk_calloc(TAG, sizeof *a.buffers);
    a.children = sk_calloc(TAG, sizeof *a.children);
    if (a.children && (a.children[0] = texts(NULL, 1, (struct sk_bytes){data ? data : "", size})))
        a.n_children = 1;
    if (a.buffers && a.n_children) {
        return skate_emit(t, &schema, &a);
    }
    release_struct(&a);
    return SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for a report");
}

static const struct sk_data_op map_op = {.name = "map",
                                         .state_bytes = sizeof(struct op),
                                         .open = open_batches,
                                         .begin = map_begin,
                                         .push = map_push,
                                         .end = map_end,
                                         .reset = reset,
                                         .close = close_op};

/* ---- map_groups ------------------------------------------------------------------------------ */

static sk_rc groups_open(struct sk_data_node *n, struct sk_err *err) {
    SK_TRY(open_batches(n, err));
    return sk_groups_read(op_of(n)->call.keys, &op_of(n)->groups, err);
}

/* Batches have whole groups. */
static sk_rc groups_push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct op *o = op_of(n);
    const uint32_t *start;
    uint32_t groups = 0;
    sk_rc rc = sk_groups_find(o->groups, b, &start, &groups, err);
    for (uint32_t i = 0; rc == SK_OK && i < groups; i++) {
        struct sk_batch *group;
        int64_t from = start[i], to = i + 1 < groups ? start[i + 1] : b->array.length;
        rc = sk_batch_slice(b, from, to - from, &group, err);
        if (rc == SK_OK) rc = call(n, group, err);
    }
    sk_batch_destroy(b);
    return rc;
}

static const struct sk_data_op groups_op = {.name = "map_groups",
                                            .state_bytes = sizeof(struct op),
                                            .open = groups_open,
                                            .begin = map_begin,
                                            .push = groups_push,
                                            .end = map_end,
                                            .reset = reset,
                                            .close = close_op};

/* ---- filter ---------------------------------------------------------------------------------- */

/* Sends the rows of b that `keep` names. Takes b over. */
static sk_rc send_kept(struct sk_data_node *n, struct sk_batch *b, const uint8_t *keep,
                       struct sk_err *err) {
    int64_t rows = b->array.length;
    uint64_t kept = 0;
    for (int64_t i = 0; i < rows; i++) kept += keep[i] != 0;
    if (kept == (uint64_t)rows) return sk_data_send(n, b, err);
    uint32_t *index = sk_alloc(TAG, (kept + 1) * sizeof *index);
    struct sk_batch *out;
    sk_rc rc =
        index ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory to filter %lld rows", (long long)rows);
    uint64_t at = 0;
    for (int64_t i = 0; rc == SK_OK && i < rows; i++) {
        index[at] = (uint32_t)i;
        at += keep[i] != 0;
    }
    if (rc == SK_OK) rc = sk_batch_rows(b, index, kept, &out, err);
    sk_free(index);
    sk_batch_destroy(b);
    return rc == SK_OK ? sk_data_send(n, out, err) : rc;
}

static sk_rc filter_push(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) {
    struct op *o = op_of(n);
    int rc_of = 0;
    uint8_t *keep = sk_alloc(TAG, (size_t)b->array.length + 1);
    if (!keep) {
        SK_ERR(err, SK_ENOMEM, "no memory to filter %lld rows", (long long)b->array.length);
        sk_batch_destroy(b);
        return SK_ENOMEM;
    }
    memset(keep, 1, (size_t)b->array.length + 1);
    o->ctx.keep = keep;
    sk_rc rc = call_fn(n, b, &rc_of, err);
    o->ctx.keep = NULL;
    if (rc == SK_OK && rc_of) rc = failed(rc_of, o->call.name, err);
    if (rc == SK_OK) rc = send_kept(n, b, keep, err);
    else sk_batch_destroy(b);
    sk_free(keep);
    return rc;
}

static sk_rc filter_end(struct sk_data_node *n, struct sk_err *err) {
    struct op *o = op_of(n);
    return o->f->end ? call_plain(n, o->f->end, err) : SK_OK;
}

static const struct sk_data_op filter_op = {.name = "filter",
                                            .state_bytes = sizeof(struct op),
                                            .open = open_batches,
                                            .begin = map_begin,
                                            .push = filter_push,
                                            .end = filter_end,
                                            .reset = reset,
                                            .close = close_op};

/* ---- source ---------------------------------------------------------------------------------- */

static sk_rc source_open(struct sk_data_node *n, struct sk_err *err) {
    SK_TRY(open_call(n, err));
    return sk_api_fn_find(op_of(n)->call.name, &op_of(n)->source, err);
}

static sk_rc source_begin(struct sk_data_node *n, struct sk_err *err) {
    struct op *o = op_of(n);
    o->ctx.arg = sk_data_task_of(n)->d.unit;
    struct sk_batch_ctx *outer = enter(n, true);
    int rc = sk_api_fn_call(o->source, task_of(n));
    SK_TRY(leave(n, outer, &rc, err));
    return rc ? failed(rc, o->call.name, err) : SK_OK;
}

static const struct sk_data_op source_op = {.name = "source",
                                            .state_bytes = sizeof(struct op),
                                            .open = source_open,
                                            .begin = source_begin,
                                            .reset = reset,
                                            .close = close_op};

const struct sk_data_op *sk_batch_op_find(const char *name, size_t n) {
    static const struct sk_data_op *const ops[] = {&map_op, &filter_op, &groups_op, &source_op};
    for (size_t i = 0; i < SK_COUNT(ops); i++)
        if (strlen(ops[i]->name) == n && memcmp(ops[i]->name, name, n) == 0) return ops[i];
    return NULL;
}
