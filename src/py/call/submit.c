/* submit.c - Template.submit, which users call as f.remote, without a Python frame in between.
 *
 * A call puts arguments over SK_INLINE_MAX into the store, encodes the others into borrowed bytes,
 * and makes one engine call. Cost: 0.3 us and 30 ns a scalar argument, besides the engine. */
#include "base/wire.h"
#include "py/call/template.h"

#define FEW 8

struct call {
    size_t n; /* number of arguments for the engine */
    size_t n_enc;
    struct sk_arg *arg;
    struct py_enc *enc;
    struct py_collector c; /* references inside inline arguments */
    /* Names of the keyword arguments. This is a copy, because user code in an argument may make
     * another call, which changes the template's names. */
    PyObject *kw_bytes;
    uint32_t gen;
    SK_VEC(sk_oid) temp; /* references to large arguments that were put */
    struct sk_arg few_arg[FEW + 1];
    struct py_enc few_enc[FEW];
};

static void call_done(struct py_state *st, struct call *k) {
    for (size_t i = 0; i < k->n_enc; i++)
        if (k->enc[i].x || k->enc[i].has_buf) py_enc_done(st, &k->enc[i]);
    for (uint32_t i = 0; i < k->temp.n && py_open(st, k->gen); i++)
        st->engine->ops->release(st->engine, k->temp.p[i]);
    Py_XDECREF(k->kw_bytes);
    if (SK_UNLIKELY(k->temp.cap)) sk_vec_free(&k->temp);
    if (SK_UNLIKELY(k->c.refs.cap)) py_collector_free(&k->c);
    if (SK_UNLIKELY(k->arg != k->few_arg)) {
        sk_free(k->arg);
        sk_free(k->enc);
    }
}

/* Adds a reference to k->temp, which takes it over, also on failure. */
static int add_temp(struct py_state *st, struct call *k, sk_oid id) {
    if (sk_vec_push(&k->temp, SK_TAG_PY, id)) return 0;
    st->engine->ops->release(st->engine, id);
    PyErr_NoMemory();
    return -1;
}

static int put_large(struct py_state *st, struct call *k, struct py_enc *e, uint32_t mark,
                     struct sk_arg *a) {
    PY_ERR(err);
    sk_oid id = {0};
    struct sk_payload p;
    if (!sk_vec_reserve(&k->temp, SK_TAG_PY, k->temp.n + 1)) {
        PyErr_NoMemory();
        return -1;
    }
    if (py_enc_payload(st, e, &k->c, mark, &p) < 0) return -1;
    py_enc_taken(e);
    sk_rc rc = st->engine->ops->put(st->engine, &p, &id, &err);
    py_collector_cut(&k->c, mark);
    if (rc != SK_OK) {
        py_raise(st, rc, &err);
        return -1;
    }
    SK_DCHECK(k->temp.n < k->temp.cap);
    k->temp.p[k->temp.n++] = id;
    a->ref = id;
    return 0;
}

static int add_kwnames(struct tmpl *t, PyObject *kwnames, struct sk_arg *a) {
    if (t->kw_names != kwnames) {
        /* the names are encoded once for each calling place, where kwnames is the same constant
         * tuple at every call */
        Py_ssize_t n = PyTuple_GET_SIZE(kwnames), len;
        PyObject *b = NULL;
        for (int pass = 0; pass < 2; pass++) {
            struct sk_wr w = b ? sk_wr_init(PyBytes_AS_STRING(b), (size_t)PyBytes_GET_SIZE(b))
                               : sk_wr_init(NULL, 0);
            sk_wr_u32(&w, (uint32_t)n);
            for (Py_ssize_t i = 0; i < n; i++) {
                const char *s = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(kwnames, i), &len);
                if (!s) {
                    Py_XDECREF(b);
                    return -1;
                }
                sk_wr_bytes(&w, s, (size_t)len);
            }
            if (!b && !(b = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)w.n))) return -1;
        }
        Py_XSETREF(t->kw_names, Py_NewRef(kwnames));
        Py_XSETREF(t->kw_bytes, b);
    }
    *a = (struct sk_arg){
        .kind = PY_KWNAMES,
        .bytes = {PyBytes_AS_STRING(t->kw_bytes), (size_t)PyBytes_GET_SIZE(t->kw_bytes)}};
    return 0;
}

static int call_encode(struct py_state *st, struct tmpl *t, struct call *k, PyObject *const *args,
                       size_t n_all, PyObject *kwnames) {
    k->n = k->n_enc = 0;
    k->arg = k->few_arg;
    k->enc = k->few_enc;
    k->c = (struct py_collector){0};
    k->kw_bytes = NULL;
    k->gen = st->gen;
    k->temp.p = NULL;
    k->temp.n = k->temp.cap = 0;
    if (n_all > FEW) {
        k->arg = sk_alloc(SK_TAG_PY, (n_all + 1) * sizeof *k->arg);
        k->enc = sk_alloc(SK_TAG_PY, n_all * sizeof *k->enc);
        if (!k->arg || !k->enc) {
            PyErr_NoMemory();
            return -1;
        }
    }
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        if (add_kwnames(t, kwnames, &k->arg[0]) < 0) return -1;
        k->kw_bytes = Py_NewRef(t->kw_bytes);
        k->n = 1;
    }
    for (size_t i = 0; i < n_all; i++) {
        struct sk_arg *a = &k->arg[k->n];
        PyObject *v = args[i];
        a->ref.v = 0;
        a->part = false;
        if (SK_UNLIKELY(py_result_check(st, v)) && !(v = py_result_object(v))) return -1;
        if (py_ref_check(st, v)) {
            if (!py_ref_alive(st, v)) return -1;
            a->ref.v = ((struct py_ref *)(void *)v)->id;
        } else {
            int room = py_store_array_put(st, v, &a->ref);
            if (SK_UNLIKELY(room)) {
                if (room < 0 || add_temp(st, k, a->ref) < 0) return -1;
                k->n++;
                continue;
            }
            struct py_enc *e = &k->enc[k->n_enc];
            uint32_t mark = k->c.refs.n;
            if (py_encode(st, v, e, &k->c) < 0) return -1;
            k->n_enc++;
            if (SK_UNLIKELY(py_gone(st, k->gen))) return -1;
            if (SK_UNLIKELY(e->has_buf)) {
                if (put_large(st, k, e, mark, a) < 0) return -1;
            } else {
                a->kind = e->kind;
                a->bytes = (struct sk_bytes){e->p, e->n};
            }
        }
        k->n++;
    }
    return 0;
}

static PyObject *results(struct py_state *st, uint32_t n, sk_oid first, sk_tid tid, bool method) {
    if (n == SK_STREAMING) return py_gen_new(st, tid);
    if (method) tid.v |= PY_OF_METHOD;
    if (SK_LIKELY(n == 1)) return py_ref_new(st, first, tid);
    if (n == 0) Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)n);
    /* Each reference gets an ObjectRef, also when making another one failed, so that all are
     * released. */
    for (uint32_t i = 0; i < n; i++) {
        PyObject *r = py_ref_new(st, (sk_oid){first.v + i}, tid);
        if (list && r) PyList_SET_ITEM(list, (Py_ssize_t)i, r);
        else {
            Py_XDECREF(r);
            Py_CLEAR(list);
        }
    }
    return list;
}

/* Returns the shape of a task that is submitted inside a task or a call of an actor: the new task
 * inherits the environment and, if the running task captures its children, the placement group. */
static int shape_inside(struct py_state *st, const struct sk_need *here, const struct tmpl *t,
                        sk_shape *shape) {
    bool captured = here->capture && !t->o.pg && t->capture != STAYS_OUT;
    if (!captured && (t->env_number || !here->env)) return 0;
    struct sk_need need = {.res = t->res,
                           .group = captured ? here->group : t->o.pg,
                           .bundle = captured ? -1 : t->o.bundle,
                           .env = t->env_number ? t->env_number : here->env,
                           .where = t->where_number,
                           .capture = captured || t->capture == CAPTURES};
    return py_shape(st, &need, t->custom, PyUnicode_AsUTF8(t->name), shape);
}

PyObject *py_template_submit(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *kwnames) {
    struct tmpl *t = (struct tmpl *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    struct call k;
    PyObject *r = NULL;
    PY_ERR(err);
    size_t n_all = (size_t)n + (kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0);
    if (SK_UNLIKELY(py_ensure(st) < 0) || (t->kind == METHOD && !py_token_alive(st, t->token)) ||
        (SK_UNLIKELY(!py_template_is_prepared(st, t)) && py_template_prepare(st, t) < 0) ||
        (t->n_returns == SK_STREAMING && !py_has(st, st->engine->streams, "generators")))
        return NULL;
    if (t->sig.func && SK_UNLIKELY(!py_sig_fits(&t->sig, (size_t)n, kwnames)) &&
        py_sig_complain(st, &t->sig, args, (size_t)n, kwnames) < 0)
        return NULL;
    sk_shape shape = t->shape;
    uint32_t gen = t->gen;
    const struct sk_task *here = py_current_task();
    const struct sk_need *need = here ? here->need : py_home.env ? &py_home : NULL;
    if (SK_UNLIKELY(need != NULL) && t->kind != METHOD && !t->refused &&
        shape_inside(st, need, t, &shape) < 0)
        return NULL;
    if (call_encode(st, t, &k, args, n_all, kwnames) < 0 || SK_UNLIKELY(py_gone(st, gen))) goto out;
    const sk_oid *in = NULL;
    if (SK_UNLIKELY(k.c.refs.n) && !(in = py_collector_ids(&k.c, 0))) goto out;
    struct sk_task_opts opts = {.stream_window = t->o.stream_window,
                                .no_wait = t->kind == METHOD,
                                .group = t->o.group,
                                .max_pending = t->o.max_pending,
                                .max_calls = t->o.max_calls};
    struct sk_actor_spec spec = {.init = {.fn = t->fid,
                                          .args = k.arg,
                                          .n_args = (uint32_t)k.n,
                                          .contains = in,
                                          .n_contains = k.c.refs.n,
                                          .n_returns = t->n_returns,
                                          .shape = shape,
                                          .max_retries = t->o.max_retries,
                                          .retry_exceptions = t->o.retry_exceptions,
                                          .opts = &opts}};
    if (here && st->worker) opts.parent = here->id;
    if (t->base || t->named) /* the definition stays the same and gets another name */
        spec.init.name = PyUnicode_AsUTF8(t->name);
    if (SK_UNLIKELY(t->refused != NULL) && !(opts.refused = PyUnicode_AsUTF8(t->refused))) goto out;
    sk_oid first = {0};
    sk_rc rc;
    if (t->kind == ACTOR) {
        sk_aid aid = {0};
        struct sk_actor_opts ao = {.name = t->actor_name ? PyUnicode_AsUTF8(t->actor_name) : NULL,
                                   .space = t->space ? PyUnicode_AsUTF8(t->space) : NULL,
                                   .detached = t->o.detached,
                                   .is_async = t->o.is_async,
                                   .groups = t->groups,
                                   .n_groups = t->n_groups};
        spec.max_restarts = t->o.max_restarts;
        spec.max_task_retries = t->o.max_task_retries;
        spec.opts = &ao;
        if (t->meta)
            ao.meta =
                (struct sk_bytes){PyBytes_AS_STRING(t->meta), (size_t)PyBytes_GET_SIZE(t->meta)};
        rc = st->engine->ops->actor_create(st->engine, &spec, &aid, &first, &err);
        if (rc == SK_OK) {
            PyObject *ready = py_ref_new(st, first, (sk_tid){0});
            if (ready) r = py_token_new(st, aid.v, ready);
            else sk_actor_release(st->engine, aid);
            Py_XDECREF(ready);
        }
    } else {
        sk_tid tid = {0};
        if (t->kind == METHOD) spec.init.actor = py_token_actor(t->token);
        rc = st->engine->ops->submit(st->engine, &spec.init, &first, &tid, &err);
        if (SK_LIKELY(rc == SK_OK)) r = results(st, t->n_returns, first, tid, t->kind == METHOD);
    }
    if (rc != SK_OK) py_raise(st, rc, &err);
out:
    SK_DCHECK(!r == !!PyErr_Occurred());
    call_done(st, &k);
    return r;
}
