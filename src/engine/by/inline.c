/* inline.c - the engine that runs tasks in the thread that waits for them: for pdb, for unit tests,
 * and as the model of `local`. This file opens and closes it and has functions and resources; its
 * other calls are in engine/inline/.
 *
 * Not here: processes, zero copy, time limits of tasks. A task is queued by submit and runs when a
 * thread gets, waits, drives or reads a stream: the first runnable task in order of submission or,
 * with conf.seed, a random one of the first 64 runnable. Calls of an actor keep their order. A
 * streaming task runs to its end at once (stream_window is ignored: no other thread could take the
 * values).
 *
 * Invariant: the lock is never held while user code runs (the runner takes the GIL, which a
 * caller may hold), and reference counts are those of own.c with everything in process 0. A wait
 * that can never end (nothing runnable, nothing running elsewhere) is SK_ESTALL at once. Cost:
 * about 0.3 us a task besides the function. */
#include "engine/conf.h"
#include "engine/custom.h"
#include "engine/inline/inline_int.h"

static sk_rc op_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                       struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    sk_rc rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down") : SK_OK;
    char *copy = NULL;
    if (rc == SK_OK && !sk_map_get(&x->fns, fn.v)) {
        rc = !fn.v                                         ? SK_ERR(err, SK_EINVAL, "function id 0")
             : !(copy = sk_strdup(TAG, name ? name : "?")) ? SK_ERR(err, SK_ENOMEM, "function")
                                                           : SK_OK;
        if (rc == SK_OK) rc = sk_map_put(&x->fns, fn.v, copy);
        if (rc == SK_OK) rc = x->runner->define(x->runner->ctx, fn, copy, def, err);
        if (rc != SK_OK && copy) {
            sk_map_del(&x->fns, fn.v);
            sk_free(copy);
        }
    }
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_res_index(struct sk_engine *e, const char *name, uint32_t *out,
                          struct sk_err *err) {
    return sk_res_index(name, &sk_inline_of(e)->names_of_res, out, err);
}

static sk_rc op_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out,
                     struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    SK_TRY(sk_res_check_more(a, n, x->place.more_total, &x->names_of_res, err));
    sk_inline_lock(x);
    sk_rc rc = sk_place_more(&x->place, a, n, out, err);
    sk_inline_unlock(x);
    return rc;
}

static size_t op_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    size_t n = sk_place_more_read(&x->place, more, out, cap);
    sk_inline_unlock(x);
    return n;
}

static sk_rc op_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                      struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    sk_rc rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down") : SK_OK;
    *n = 1;
    if (cap)
        *out = (struct sk_node){.number = SK_INLINE_NODE,
                                .alive = true,
                                .name = "this process",
                                .total = x->place.total,
                                .free = x->place.avail,
                                .capacity_bytes = x->store_bytes,
                                .resident_bytes = x->bytes};
    sk_inline_unlock(x);
    return rc;
}

static void op_close(struct sk_engine *e) {
    struct sk_inline *x = sk_inline_of(e);
    uint64_t key;
    void *val;
    SK_ASSERT(!sk_inline_is_running()); /* a task cannot close the engine that runs it */
    sk_inline_lock(x);
    x->closed = true;
    pthread_cond_broadcast(&x->cv);
    while (x->n_running || x->n_waiting) sk_inline_wait_unlocked(x, INT64_MAX);
    x->n_waiting = 0;
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) {
        const struct sk_iactor *a = val;
        if (a->started && !a->dead && x->runner->actor_gone)
            x->runner->actor_gone(x->runner->ctx, (sk_aid){key});
    }
    while (x->gone.n) {
        uint64_t id = x->gone.p[--x->gone.n];
        if (x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, (sk_aid){id});
    }
    for (;;) {
        uint32_t i = 0;
        if (!sk_map_next(&x->tasks, &i, &key, &val)) break;
        sk_itask_free(x, val);
    }
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) {
        struct sk_iactor *a = val;
        sk_name_free(&a->name);
        sk_blob_unref(x, a->why);
        sk_free(a);
    }
    sk_inline_groups_free(x);
    sk_map_deinit(&x->actors);
    sk_map_init(&x->actors, TAG); /* sk_iobj_drain reads this map */
    sk_iobj_drain(x);
    uint32_t cursor = 0;
    while (sk_own_each(x->own, &cursor, &key, &val)) {
        sk_blob_unref(x, ((struct sk_iobj *)val)->val);
        sk_free(val);
    }
    sk_own_destroy(x->own);
    for (uint32_t i = 0; sk_map_next(&x->fns, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&x->fns);
    sk_map_deinit(&x->tasks);
    sk_map_deinit(&x->actors);
    sk_place_deinit(&x->place);
    sk_vec_free(&x->gone);
    sk_history_free(&x->past);
    sk_res_names_deinit(&x->names_of_res);
    pthread_mutex_unlock(&x->mu);
    pthread_mutex_destroy(&x->mu);
    pthread_cond_destroy(&x->cv);
    sk_free(x);
}

extern const struct sk_engine_class sk_engine_by_inline;
static const struct sk_engine_ops ops = {
    .define = op_define,
    .shape = sk_inline_need,
    .submit = sk_inline_submit,
    .cancel = sk_inline_cancel,
    .actor_create = sk_inline_actor_create,
    .actor_end = sk_inline_actor_end,
    .put = sk_inline_put,
    .get = sk_inline_get,
    .wait = sk_inline_await,
    .retain = sk_inline_retain,
    .release = sk_inline_release,
    .buf_alloc = sk_inline_buf_alloc,
    .buf_abort = sk_inline_buf_abort,
    .view_release = sk_inline_view_release,
    .drive = sk_inline_drive,
    .nodes = op_nodes,
};
static const struct sk_custom_ops custom = {
    .index = op_res_index, .more = op_more, .more_read = op_more_read};

static sk_rc open_inline(const struct sk_engine_conf *conf, struct sk_engine **out,
                         struct sk_err *err) {
    if (!conf->runner) return SK_ERR(err, SK_EINVAL, "inline engine: no runner");
    struct sk_inline *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "inline engine");
    sk_rc rc = SK_OK;
    x->e = (struct sk_engine){.cls = &sk_engine_by_inline,
                              .ops = &ops,
                              .actors = &sk_inline_actors,
                              .streams = &sk_inline_streams,
                              .custom = &custom,
                              .groups = &sk_inline_group_ops,
                              .state = &sk_inline_state,
                              .progress = &sk_inline_progress,
                              .inner = &sk_inline_inner,
                              .no_notes = conf->no_notes};
    x->runner = conf->runner;
    x->store_bytes = conf->store_bytes;
    x->task_retries = conf->task_retries;
    x->next_id = 1;
    x->rng = conf->seed;
    sk_list_init(&x->queue);
    sk_list_init(&x->names);
    sk_list_init(&x->groups);
    sk_list_init(&x->group_names);
    sk_map_init(&x->fns, TAG);
    sk_map_init(&x->tasks, TAG);
    sk_map_init(&x->actors, TAG);
    pthread_mutex_init(&x->mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&x->cv, &ca);
    pthread_condattr_destroy(&ca);
    rc = sk_place_init(&x->place, &conf->total, err);
    if (rc == SK_OK)
        rc = sk_res_names_init(&x->names_of_res, conf->custom_names, conf->n_custom, err);
    if (rc == SK_OK)
        rc = sk_place_more_init(&x->place, conf->more, sk_res_n_more(&x->names_of_res), err);
    if (rc == SK_OK) rc = sk_own_create(&x->own, err);
    if (rc == SK_OK) {
        *out = &x->e;
        return SK_OK;
    }
    sk_res_names_deinit(&x->names_of_res);
    sk_place_deinit(&x->place);
    sk_free(x);
    return rc;
}

const struct sk_engine_class sk_engine_by_inline = {
    .name = "inline", .open = open_inline, .close = op_close};
