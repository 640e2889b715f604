/* tasks.c - the book of a cluster: tasks and actors, from the order of the host to the last event
 * (contract: book.h).
 *
 * Invariant: a task is in exactly one place by its state: in the list of blocked tasks, in the
 * queue of its shape or its actor, in the list of the node that has it, or nowhere (kept). A task
 * that is not kept has a reference to each of its arguments. */
#include "engine/cluster/book_int.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Finds the shape of a need, or makes it. Shapes of groups, of which there may be any number, are
 * made anew when no task has them. */
static uint32_t shape_of(struct sk_book *b, const struct sk_need *need, bool keeps) {
    uint32_t at = b->shapes.n, where = need->where;
    int32_t bundle = need->group ? need->bundle : 0;
    for (uint32_t i = 0; i < b->shapes.n; i++) {
        const struct sk_bshape *s = b->shapes.p[i];
        if (s->keeps == keeps && s->where == where && s->group == need->group &&
            s->bundle == bundle && s->capture == (need->capture != 0) &&
            !memcmp(&s->need, &need->res, sizeof s->need))
            return i;
        if (s->group && !s->n_tasks) at = i;
    }
    struct sk_bshape *s = at < b->shapes.n ? b->shapes.p[at] : sk_calloc(TAG, sizeof *s);
    if (!s || (at == b->shapes.n && !sk_vec_push(&b->shapes, TAG, s))) {
        sk_free(s);
        return UINT32_MAX;
    }
    sk_vec_free(&s->rank);
    *s = (struct sk_bshape){.need = need->res,
                            .keeps = keeps,
                            .where = where,
                            .n_choices = 1,
                            .group = need->group,
                            .bundle = bundle,
                            .capture = need->capture != 0};
    if (where) {
        const struct sk_bblob *x = b->envs.p[where - 1];
        s->where_flags = sk_where_flags((struct sk_bytes){x->data, x->len});
        s->n_choices = sk_where_n((struct sk_bytes){x->data, x->len});
    }
    sk_list_init(&s->ready);
    return at;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool arguments_there(const struct sk_book *b, const struct sk_btask *t,
                            struct sk_bval **failed) {
    bool there = true;
    *failed = NULL;
    for (uint32_t i = 0; i < t->n_args; i++) {
        if (!t->args[i].id) continue;
        struct sk_bval *v = sk_bval_of(b, t->args[i].id);
        SK_ASSERT(v); /* the task has a reference */
        if (v->err) *failed = v;
        there = there && sk_bval_there(v) && !v->relay;
    }
    return there;
}

static void unref_arguments(struct sk_book *b, struct sk_btask *t) {
    for (uint32_t i = 0; i < t->n_args; i++)
        if (t->args[i].id) sk_bval_unref(b, sk_bval_of(b, t->args[i].id));
}

void sk_btask_free(struct sk_book *b, struct sk_btask *t) {
    SK_ASSERT(!t->node && !t->ending);
    sk_list_del(&t->link);
    if (t->shape != UINT32_MAX) b->shapes.p[t->shape]->n_tasks--;
    if (sk_map_get(&b->tasks, t->id) == t) sk_map_del(&b->tasks, t->id);
    sk_map_del(&b->seqs, t->seq);
    for (uint32_t i = 0; i < t->n_args; i++) sk_bblob_unref(t->args[i].blob);
    sk_vec_free(&t->notes);
    sk_free(t->args);
    sk_free(t->name);
    sk_free(t);
}

/* ---- from the host --------------------------------------------------------------------------- */

static sk_rc fill(struct sk_btask *t, const struct sk_guest_task *g, struct sk_err *err) {
    t->name = sk_strdup(TAG, g->name);
    t->args = sk_calloc(TAG, (g->n_args + 1) * sizeof *t->args);
    if (!t->name || !t->args) return SK_ERR(err, SK_ENOMEM, "task %s", g->name);
    for (uint32_t i = 0; i < g->n_args; i++) {
        const struct sk_guest_value *v = &g->args[i];
        struct sk_bval *have = v->handle;
        t->args[i] = (struct sk_barg){
            .id = have ? have->id : 0, .part = v->part, .offset = v->offset, .length = v->length};
        if (!have && !(t->args[i].blob = sk_bblob_new(v->kind, v->bytes)))
            return SK_ERR(err, SK_ENOMEM, "task %s: argument %u", g->name, i);
        if (have) have->refs++;
        t->n_args++;
    }
    return SK_OK;
}

/* True if the bytes of this number are here. */
static bool interned(const struct sk_book *b, uint32_t number) {
    return !number || (number <= b->envs.n && b->envs.p[number - 1]);
}

sk_rc sk_book_submit(struct sk_book *b, const struct sk_guest_task *g, struct sk_err *err) {
    struct sk_bactor *a = g->actor ? sk_map_get(&b->actors, g->actor) : NULL;
    if (!sk_map_get(&b->fns, g->fn.v))
        return SK_ERR(err, SK_EINVAL, "task %s: its function is not defined", g->name);
    if (g->actor && !g->is_init && (!a || a->dead || a->ended))
        return SK_ERR(err, SK_EACTOR, "%s: %s", g->name,
                      a && a->why ? a->why : "its actor is dead");
    uint32_t env = g->need ? g->need->env : 0, where = g->need ? g->need->where : 0;
    if (!interned(b, env) || !interned(b, where))
        return SK_ERR(err, SK_ENOMEM, "the environment of %s", g->name);
    /* the highest bit of a value's id is that of sk_foreign_value */
    if (b->next_seq >> 39) return SK_ERR(err, SK_ERANGE, "a job has at most 2^39 tasks");
    struct sk_need need = g->need ? *g->need : (struct sk_need){0};
    struct sk_btask *t = sk_calloc(TAG, sizeof *t);
    if (!t) return SK_ERR(err, SK_ENOMEM, "task %s", g->name);
    *t = (struct sk_btask){.id = g->task,
                           .seq = b->next_seq++,
                           .is_init = g->is_init,
                           .retry_errors = g->retry_exceptions,
                           .node_only = g->node_only,
                           .no_wait = g->no_wait,
                           .caller = g->caller,
                           .known = g->known,
                           .group = g->group,
                           .env = env,
                           .fn = g->fn,
                           .n_returns = g->n_returns,
                           .max_calls = g->max_calls,
                           .window = g->window,
                           .wish = g->node,
                           .retries = g->max_retries,
                           .shape = shape_of(b, &need, g->is_init)};
    sk_list_init(&t->link);
    if (t->shape != UINT32_MAX) b->shapes.p[t->shape]->n_tasks++;
    sk_rc rc = t->shape == UINT32_MAX ? SK_ERR(err, SK_ENOMEM, "shape") : fill(t, g, err);
    if (rc == SK_OK &&
        (sk_map_put(&b->seqs, t->seq, t) != SK_OK || sk_map_put(&b->tasks, t->id, t) != SK_OK))
        rc = SK_ERR(err, SK_ENOMEM, "task %s", g->name);
    if (rc == SK_OK && g->is_init) {
        a = sk_calloc(TAG, sizeof *a);
        const struct sk_actor_opts *o = g->opts;
        uint32_t n = o ? o->n_groups : 0, *groups = n ? sk_memdup(TAG, o->groups, 4 * n) : NULL;
        if (!a || (n && !groups) || sk_map_put(&b->actors, g->actor, a) != SK_OK) {
            sk_free(a);
            sk_free(groups);
            rc = SK_ERR(err, SK_ENOMEM, "actor %s", g->name);
        } else {
            *a = (struct sk_bactor){.id = g->actor,
                                    .init = t,
                                    .is_async = o && o->is_async,
                                    .max_task_retries = g->max_task_retries,
                                    .n_groups = n,
                                    .groups = groups};
            sk_list_init(&a->calls);
        }
    }
    if (rc != SK_OK) {
        unref_arguments(b, t);
        sk_btask_free(b, t);
        return rc;
    }
    t->actor = a;
    if (a && !t->is_init) {
        a->n_calls++;
        a->mixed = a->mixed || t->caller;
    }
    sk_btask_queue(b, t, false);
    return SK_OK;
}

void sk_btask_queue(struct sk_book *b, struct sk_btask *t, bool front) {
    struct sk_bval *failed;
    bool there = arguments_there(b, t, &failed);
    SK_ASSERT(!t->node);
    sk_list_del(&t->link);
    t->begun = t->lacks = t->actor_lives = false;
    t->n_seen = 0;
    if (failed) {
        char text[300];
        snprintf(text, sizeof text, "an argument of %s is lost: %.200s", t->name, failed->err->msg);
        sk_btask_fail(b, t, SK_ELOST, text);
        return;
    }
    if (t->actor && (t->actor->dead || (t->actor->ended && !t->over))) {
        sk_btask_fail(b, t, SK_EACTOR, t->actor->why ? t->actor->why : "the actor was ended");
        return;
    }
    struct sk_list *to = &b->blocked;
    bool call = t->actor && !t->is_init;
    t->state = there || call ? SK_B_READY : SK_B_BLOCKED;
    if (call)
        to = &t->actor->calls; /* calls keep their order, so an argument is waited for there */
    else if (there) to = &b->shapes.p[t->shape]->ready;
    if (!call || !front || sk_list_empty(to)) {
        if (front) sk_list_push_front(to, &t->link);
        else sk_list_push_back(to, &t->link);
    } else { /* calls that come back go among the waiting ones by their age */
        struct sk_list *at = to->next;
        while (at != to && sk_container_of(at, struct sk_btask, link)->seq < t->seq) at = at->next;
        sk_list_insert_before(at, &t->link);
    }
    if (call) sk_bactor_flush(b, t->actor);
}

void sk_btask_back(struct sk_book *b, struct sk_btask *t) {
    struct sk_bactor *a = t->actor;
    SK_ASSERT(!t->node && t->state == SK_B_BLOCKED);
    if (!a || !t->is_init || !a->ended || !t->over) {
        sk_btask_queue(b, t, true);
        return;
    }
    t->state = SK_B_KEPT; /* it is started once more if a call waits for it */
    a->closing = false;
    sk_bactor_settle(b, a);
}

/* ---- to nodes -------------------------------------------------------------------------------- */

/* Makes sure that the value can be found by the node, and returns where. */
static uint32_t bring(struct sk_bnode *n, struct sk_bval *v, bool part) {
    SK_ASSERT(n->alive && sk_bval_there(v));
    if (sk_bval_at(v, n->number)) return n->number;
    if (v->mine) {
        struct sk_cmsg m = {.type = SK_CMSG_PUT, .put.id = v->id};
        sk_bnode_send_blob(n, &m, v->blob);
        sk_bval_copy(v, n->number);
        return n->number;
    }
    uint32_t from = v->node;
    if (!part) sk_bval_copy(v, n->number);
    return from;
}

/* Tells the node the function and the environment of a task, if it does not know them. */
static void introduce(struct sk_book *b, const struct sk_btask *t, struct sk_bnode *n) {
    SK_ASSERT(t->env <= b->envs.n);
    sk_bnode_define(b, n, t->fn.v);
    if (!t->env || sk_map_get(&n->envs, t->env)) return;
    const struct sk_bblob *x = b->envs.p[t->env - 1];
    struct sk_cmsg d = {.type = SK_CMSG_ENV, .env = {t->env, {x->data, x->len}}};
    sk_bnode_send(n, &d);
    if (sk_map_put(&n->envs, t->env, n) != SK_OK) abort();
}

/* The name of the task, if it is not that of its function. */
static struct sk_bytes own_name(const struct sk_book *b, const struct sk_btask *t) {
    const struct sk_bfn *f = sk_map_get(&b->fns, t->fn.v);
    return (struct sk_bytes){t->name, f && !strcmp(f->name, t->name) ? 0 : strlen(t->name)};
}

static void send(struct sk_book *b, struct sk_btask *t, struct sk_bnode *n) {
    struct sk_bshape *s = b->shapes.p[t->shape];
    SK_ASSERT(n->alive && t->state == SK_B_READY && !t->node && (!t->is_init || t->actor));
    introduce(b, t, n);
    uint8_t few[2048], *buf = few;
    uint32_t few_from[64], *from = few_from; /* for each argument, the node that has it */
    if (t->n_args > SK_COUNT(few_from) && !(from = sk_alloc(TAG, t->n_args * sizeof *from)))
        abort();
    for (uint32_t i = 0; i < t->n_args; i++)
        from[i] = t->args[i].id ? bring(n, sk_bval_of(b, t->args[i].id), t->args[i].part) : 0;
    struct sk_wr w = sk_wr_init(few, sizeof few);
    for (int round = 0; round < 2; round++) { /* the second round, if `few` was too small */
        for (uint32_t i = 0; i < t->n_args; i++) {
            const struct sk_barg *a = &t->args[i];
            struct sk_cmsg_arg m = {.id = a->id,
                                    .node = from[i],
                                    .part = a->part,
                                    .offset = a->offset,
                                    .length = a->length};
            if (!a->id) {
                m.kind = a->blob->kind;
                m.bytes = (struct sk_bytes){a->blob->data, a->blob->len};
            }
            sk_cmsg_arg_put(&w, &m);
        }
        if (sk_wr_ok(&w)) break;
        size_t need = w.n;
        if (!(buf = sk_alloc(TAG, need))) abort();
        w = sk_wr_init(buf, need);
    }
    bool resumes = t->actor && t->actor->settling;
    if (t->actor) t->actor->settling = false;
    struct sk_cmsg m = {.type = SK_CMSG_RUN,
                        .run = {.task = t->seq,
                                .host = t->id,
                                .fn = t->fn.v,
                                .actor = t->actor ? t->actor->id : 0,
                                .known = t->known,
                                .attempt = t->attempt,
                                .flags = (t->is_init ? SK_RUN_INIT : 0u) |
                                         (t->retry_errors ? SK_RUN_RETRY_ERRORS : 0u) |
                                         (t->no_wait ? SK_RUN_NO_WAIT : 0u) |
                                         (resumes ? SK_RUN_RESUME : 0u),
                                .n_returns = t->n_returns,
                                .max_retries = t->retries,
                                .max_calls = t->max_calls,
                                .window = t->over ? 0 : t->window, /* else nobody takes any */
                                .taken = t->n_taken,
                                .group = t->group,
                                .env = t->env,
                                .need = s->need,
                                .pg = s->group,
                                .bundle = t->bundle,
                                .capture = s->capture,
                                .name = own_name(b, t),
                                .n_args = t->n_args,
                                .args = {buf, w.n}}};
    if (t->is_init) {
        const struct sk_bactor *a = t->actor;
        m.run.flags |= a->is_async ? SK_RUN_ASYNC : 0u;
        m.run.max_task_retries = a->max_task_retries;
        m.run.groups = (struct sk_bytes){a->groups, 4 * (size_t)a->n_groups};
    }
    sk_bnode_send(n, &m);
    n->n_runs++;
    if (buf != few) sk_free(buf);
    if (from != few_from) sk_free(from);
    sk_list_del(&t->link);
    sk_list_push_back(&n->sent, &t->link);
    t->state = SK_B_SENT;
    t->node = n->number;
    if (t->actor && t->is_init) t->actor->node = n->number;
    if (t->actor && !t->is_init) {
        t->actor->n_sent++;
        return;
    }
    if (s->group) {
        sk_bgroup_take(sk_bgroup_of(b, s->group), t, n->number, &s->need, 1);
        return;
    }
    sk_res_add(&n->used, &s->need, 1);
    n->offered = SK_MAX(n->offered - s->need.amount[SK_RES_CPU], 0);
    if (t->is_init) sk_res_add(&n->kept, &s->need, 1);
    if (s->where_flags & SK_WHERE_SPREAD) n->spread = ++b->n_spread;
    for (int i = 0; i < SK_RES_MAX; i++)
        n->idle.amount[i] = SK_MAX(n->idle.amount[i] - s->need.amount[i], 0);
}

/* Gives back what a task or an actor takes of a node. */
static void give_back(struct sk_book *b, const struct sk_btask *t, uint32_t node) {
    struct sk_bnode *n = sk_bnode_of(b, node);
    const struct sk_bshape *s = b->shapes.p[t->shape];
    b->n_freed++;
    if (n && s->group) sk_bgroup_take(sk_bgroup_of(b, s->group), t, node, &s->need, -1);
    else if (n) {
        sk_res_add(&n->used, &s->need, -1);
        if (t->is_init) sk_res_add(&n->kept, &s->need, -1);
    }
}

void sk_btask_unsend(struct sk_book *b, struct sk_btask *t) {
    SK_ASSERT(t->state == SK_B_SENT && t->node && (!t->is_init || t->actor));
    sk_list_del(&t->link);
    if (!t->actor || t->is_init) give_back(b, t, t->node);
    else if (!--t->actor->n_sent && t->actor->settling) b->recheck = true; /* it goes on */
    if (t->is_init) t->actor->node = 0;
    t->node = 0;
    t->state = SK_B_BLOCKED; /* until it is queued or freed */
}

/* Says which choice of its where each node fulfils first. */
static const uint32_t *ranks(struct sk_book *b, struct sk_bshape *s) {
    const struct sk_bblob *x = b->envs.p[s->where - 1];
    while (s->rank.n < b->nodes.n) {
        uint32_t r =
            sk_where_rank((struct sk_bytes){x->data, x->len}, b->nodes.p[s->rank.n]->labels);
        if (!sk_vec_push(&s->rank, TAG, r)) abort();
    }
    return s->rank.p;
}

/* Fills b->which: what each node has, and what it has of the task's arguments. */
static void look(struct sk_book *b, const struct sk_btask *t, struct sk_which_task *w) {
    SK_ASSERT(b->which.n == b->nodes.n);
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        const struct sk_bnode *n = b->nodes.p[i];
        b->which.p[i] = (struct sk_which_node){
            .total = n->total, .used = sk_bnode_used(n), .spread = n->spread};
        sk_res_add(&b->which.p[i].used, &n->saved, 1);
        b->which.p[i].held = n->reserved;
        sk_res_add(&b->which.p[i].held, &n->kept, 1);
        sk_res_add(&b->which.p[i].held, &n->saved, 1);
    }
    for (uint32_t i = 0; i < t->n_args; i++) {
        const struct sk_barg *a = &t->args[i];
        const struct sk_bval *v = a->id ? sk_bval_of(b, a->id) : NULL;
        if (!v) continue;
        uint64_t n = a->part ? a->length : v->size;
        w->bytes += n;
        if (v->node) b->which.p[v->node - 1].local_bytes += n;
        for (uint32_t k = 0; k < v->copies.n; k++) b->which.p[v->copies.p[k] - 1].local_bytes += n;
    }
}

/* Gives the node for a task; NULL: none may have it now. *bundle: of its placement group. */
static struct sk_bnode *node_for(struct sk_book *b, const struct sk_btask *t, uint32_t *bundle,
                                 bool *never) {
    struct sk_bshape *s = b->shapes.p[t->shape];
    struct sk_which_task w = {.need = s->need,
                              .avg_ns = s->avg_ns,
                              .keeps = s->keeps,
                              .spread = (s->where_flags & SK_WHERE_SPREAD) != 0};
    const uint32_t *rank = s->where ? ranks(b, s) : NULL;
    bool stays = s->where_flags & SK_WHERE_STAYS;
    look(b, t, &w);
    *never = s->group && !sk_bgroup_of(b, s->group);
    if (*never) return NULL;
    if (s->group) return sk_bgroup_node(b, sk_bgroup_of(b, s->group), t, &w, bundle);
    *never = true;
    for (uint32_t choice = 0; choice < s->n_choices; choice++) {
        uint32_t at = UINT32_MAX;
        bool later = false, wished = false; /* later: a node of this choice could have it */
        for (uint32_t i = 0; i < b->nodes.n; i++) {
            const struct sk_bnode *n = b->nodes.p[i];
            struct sk_which_node *x = &b->which.p[i];
            x->alive = n->alive && (!rank || rank[i] == choice) &&
                       (!t->node_only || (n->number == t->wish && !n->draining));
            bool can = sk_which_ever(&s->need, x, 1);
            /* while a node drains, what only it could run waits for another one to join */
            *never = *never && !can;
            x->alive = x->alive && !n->draining;
            later = later || (can && x->alive);
            if (n->number == t->wish && sk_which_node(&w, x, 1) == 0) wished = true;
        }
        if (wished) return sk_bnode_of(b, t->wish);
        if (!t->node_only) at = sk_which_node(&w, b->which.p, b->nodes.n);
        if (at != UINT32_MAX) return b->nodes.p[at];
        if (later && stays) return NULL;
    }
    return NULL;
}

/* True if the task was to make values again that nobody needs any more. */
static bool unneeded(const struct sk_btask *t) { return t->over && !t->kept && !t->is_init; }

static void fail_unneeded(struct sk_book *b, struct sk_btask *t) {
    SK_DCHECK(unneeded(t));
    sk_btask_fail(b, t, SK_ECANCEL, "nobody needs it");
}

/* The next call that can begin; NULL: there is none now. */
static struct sk_btask *next_call(const struct sk_book *b, const struct sk_bactor *a,
                                  struct sk_bval **failed) {
    uint64_t behind[8]; /* callers whose next call waits */
    uint32_t n = 0;
    SK_LIST_EACH (it, &a->calls) {
        struct sk_btask *t = sk_container_of(it, struct sk_btask, link);
        uint32_t i = 0;
        while (i < n && behind[i] != t->caller) i++;
        if (i < n) continue;
        if (unneeded(t) || arguments_there(b, t, failed) || *failed) return t;
        if (a->n_groups) continue;
        if (!a->mixed || n == SK_COUNT(behind)) return NULL;
        behind[n++] = t->caller; /* those behind it keep their order */
    }
    return NULL;
}

static void flush(struct sk_book *b, struct sk_bactor *a) {
    a->n_calls++; /* keeps it while calls of it end */
    while (a->started && a->node && !a->moving) {
        struct sk_bval *failed = NULL;
        struct sk_btask *t = next_call(b, a, &failed);
        if (!t || (a->settling && a->n_sent)) break;
        if (unneeded(t)) fail_unneeded(b, t);
        else if (failed) sk_btask_queue(b, t, true); /* fails it */
        else send(b, t, sk_bnode_of(b, a->node));
    }
    a->n_calls--;
}

void sk_bactor_flush(struct sk_book *b, struct sk_bactor *a) {
    SK_DCHECK(a->init);
    flush(b, a);
    sk_bactor_settle(b, a);
}

/* Finds a call that waits; NULL: there is none. */
static struct sk_btask *waiting(const struct sk_bactor *a, bool (*is)(const struct sk_btask *t)) {
    SK_LIST_EACH (it, &a->calls) {
        struct sk_btask *t = sk_container_of(it, struct sk_btask, link);
        if (is(t)) return t;
    }
    return NULL;
}

/* Looks at the calls that wait again: some may begin now, and some may be needed no more. */
static void recheck_calls(struct sk_book *b, struct sk_bactor *a) {
    struct sk_btask *t;
    a->n_calls++; /* keeps it while calls of it end */
    while (a->sweep && (t = waiting(a, unneeded))) fail_unneeded(b, t);
    a->sweep = false;
    a->n_calls--;
    sk_bactor_flush(b, a);
}

void sk_btasks_recheck(struct sk_book *b) {
    uint64_t key;
    void *val;
    b->recheck = false;
    sk_list_splice(&b->todo, &b->blocked);
    for (struct sk_list *it; (it = sk_list_first(&b->todo));)
        sk_btask_queue(b, sk_container_of(it, struct sk_btask, link), false);
    SK_VEC(uint64_t) all = {0}; /* a flush may free actors */
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);)
        if (!sk_vec_push(&all, TAG, key)) abort();
    for (uint32_t i = 0; i < all.n; i++) {
        struct sk_bactor *a = sk_map_get(&b->actors, all.p[i]);
        if (a) recheck_calls(b, a);
    }
    sk_vec_free(&all);
}

void sk_btasks_send(struct sk_book *b) {
    for (uint32_t i = 0; i < b->shapes.n; i++) b->shapes.p[i]->stuck = false;
    for (;;) { /* the oldest task at the head of a queue comes first */
        struct sk_btask *t = NULL;
        for (uint32_t i = 0; i < b->shapes.n; i++) {
            struct sk_bshape *s = b->shapes.p[i];
            struct sk_list *it = s->stuck ? NULL : sk_list_first(&s->ready);
            struct sk_btask *head = it ? sk_container_of(it, struct sk_btask, link) : NULL;
            if (head && (!t || head->seq < t->seq)) t = head;
        }
        if (!t) return;
        if (unneeded(t)) {
            fail_unneeded(b, t);
            continue;
        }
        struct sk_bval *failed;
        if (!arguments_there(b, t, &failed)) { /* one was lost while the task waited */
            sk_btask_queue(b, t, true);
            continue;
        }
        bool never = false;
        struct sk_bnode *n = node_for(b, t, &t->bundle, &never);
        if (n) send(b, t, n);
        else if (never && b->shapes.p[t->shape]->group)
            sk_btask_fail(b, t, SK_EGROUP, "its placement group was removed");
        else if (never)
            sk_btask_fail(b, t, SK_EINFEASIBLE,
                          t->node_only ? "the node where it has to run is gone, or is to go"
                          : b->shapes.p[t->shape]->where
                              ? "no node that has the labels which it asks for (label_selector, "
                                "scheduling_strategy) has all else that it asks for"
                              : "no node that is left has what it asks for");
        else b->shapes.p[t->shape]->stuck = true;
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static struct sk_btold *told(struct sk_book *b, const struct sk_btask *t, enum sk_event_kind kind) {
    SK_ASSERT(!t->over);
    return sk_book_told(b, (struct sk_guest_event){.kind = kind,
                                                   .task = t->id,
                                                   .attempt = t->attempt,
                                                   .node = t->node,
                                                   .actor_lives = t->actor_lives});
}

static void *kept(const void *p, size_t n) {
    void *q = sk_alloc(TAG, n + 1);
    if (!q) abort();
    if (n) memcpy(q, p, n);
    ((char *)q)[n] = 0;
    return q;
}

/* The task will not run again now, so values of it that are nowhere are gone. */
static void fail_lost(struct sk_book *b, const struct sk_btask *t, const char *text) {
    SK_DCHECK(!t->node);
    uint32_t n = t->n_returns == SK_STREAMING ? t->notes.n : t->n_returns;
    for (uint32_t i = 0; i < n && !t->is_init; i++) {
        struct sk_bval *v = sk_bval_of(b, sk_value_id(t->seq, i));
        if (v && !sk_bval_there(v) && !v->err) sk_bval_fail(b, v, SK_ELOST, text);
    }
}

/* Says that the host was told of the task's end, and frees the task unless it is still of use. */
static void finish(struct sk_book *b, struct sk_btask *t, bool well, const char *text) {
    struct sk_bactor *a = t->actor;
    bool was_over = t->over, call = a && !t->is_init;
    SK_ASSERT(!t->ending && text && (!t->is_init || a));
    t->over = true;
    if (t->is_init && !well && !was_over) a->ended = true; /* the host ends its calls */
    if (t->node) {
        if (t->is_init && well) { /* the actor keeps what it took */
            sk_list_del(&t->link);
            t->node = 0;
        } else sk_btask_unsend(b, t);
    }
    sk_list_del(&t->link);
    if (sk_map_get(&b->tasks, t->id) == t) sk_map_del(&b->tasks, t->id);
    if (a && t->is_init) {
        t->state = SK_B_KEPT;
        bool ended = was_over && a->closing; /* so it may have failed for that */
        if (!well && !ended && !a->dead && was_over)
            sk_bactor_die(b, a, "its constructor failed when the actor was started again");
        else if (!well && !ended) a->dead = true;
        a->started = well && !a->closing;
        sk_bactor_flush(b, a);
        return;
    }
    if (was_over || t->notes.n) fail_lost(b, t, text);
    t->ending = true;
    t->state = SK_B_KEPT;
    if (t->kept) sk_lineage_done(b->lineage, t->seq, well ? t->retries : 0);
    unref_arguments(b, t);
    sk_blost_drain(b);
    t->ending = false;
    if (!t->kept) sk_btask_free(b, t);
    if (call) {
        SK_ASSERT(a->n_calls > 0);
        a->n_calls--;
        sk_bactor_settle(b, a);
    }
}

void sk_btask_unneeded(struct sk_book *b, struct sk_btask *t) {
    SK_ASSERT(t->over && !t->kept);
    if (t->state == SK_B_SENT) {
        struct sk_cmsg m = {.type = SK_CMSG_CANCEL, .end = {t->seq, 0}};
        sk_bnode_send(sk_bnode_of(b, t->node), &m);
        t->cancelled = true;
    } else if (t->actor) { /* the next launch finds it */
        t->actor->sweep = b->recheck = true;
    } else if (t->state == SK_B_BLOCKED) { /* so does it here */
        sk_list_del(&t->link);
        sk_list_push_front(&b->shapes.p[t->shape]->ready, &t->link);
        t->state = SK_B_READY;
    }
}

void sk_btask_fail(struct sk_book *b, struct sk_btask *t, sk_rc code, const char *text) {
    if (!t->over) {
        struct sk_btold *e = told(b, t, SK_EV_FAILED);
        e->ev.code = code;
        e->ev.text = e->keep[0] = kept(text, strlen(text));
    }
    finish(b, t, false, text);
}

/* ---- from nodes ------------------------------------------------------------------------------ */

static void drop_values(struct sk_bnode *n, const struct sk_cmsg *m) {
    struct sk_rd r = sk_rd_init(m->event.values.p, m->event.values.n);
    for (uint32_t i = 0; i < m->event.n_values; i++) {
        struct sk_cmsg_value v = sk_cmsg_value_next(&r);
        if (!v.here && !sk_vec_push(&n->drop, TAG, v.id)) abort();
    }
}

/* A value that was told before has been made again. */
static void made_again(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg_value *v) {
    struct sk_bval *have = sk_bval_of(b, v->id);
    if (have && !sk_bval_there(have)) {
        b->recheck = true;
        if (!v->here) {
            sk_bval_settle(b, have, n->number);
            return;
        }
        sk_bblob_unref(have->blob);
        have->blob = sk_bblob_new(v->kind, v->bytes);
        if (!have->blob) abort();
        have->mine = true;
    } else if (!v->here && !(have && sk_bval_at(have, n->number))) {
        if (!sk_vec_push(&n->drop, TAG, v->id)) abort();
    }
}

/* Makes the host's form of a new value, which lies on the node or in the message. */
static struct sk_guest_value new_value(struct sk_book *b, struct sk_btask *t, struct sk_bnode *n,
                                       const struct sk_cmsg_value *v, void **keep) {
    if (v->here) {
        *keep = kept(v->bytes.p, v->bytes.n);
        return (struct sk_guest_value){.kind = v->kind, .bytes = {*keep, v->bytes.n}};
    }
    struct sk_bval *have = sk_bval_new(b, v->id);
    have->refs = 1;
    have->held = true;
    have->node = n->number;
    have->size = v->size;
    have->stays = v->stays;
    sk_bval_leave(b, have);
    have->why = t->actor ? SK_LOST_ACTOR : SK_LOST_RETRIES;
    return (struct sk_guest_value){.handle = have};
}

static sk_rc bad(struct sk_bnode *n, const struct sk_btask *t, const char *what,
                 struct sk_err *err) {
    return SK_ERR(err, SK_ECORRUPT, "node %s: task %s: %s", n->name, t->name, what);
}

static sk_rc yielded(struct sk_book *b, struct sk_btask *t, struct sk_bnode *n,
                     const struct sk_cmsg *m, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(m->event.values.p, m->event.values.n);
    if (t->n_returns != SK_STREAMING || m->event.n_values != 1 || m->event.index != t->n_seen)
        return bad(n, t, "a yield that cannot be", err);
    struct sk_cmsg_value v = sk_cmsg_value_next(&r);
    if (v.id != sk_value_id(t->seq, m->event.index)) return bad(n, t, "a wrong id", err);
    uint64_t hash = sk_hash(m->event.note.p, m->event.note.n);
    SK_DCHECK(t->n_seen < SK_CLUSTER_VALUES);
    if (t->n_seen++ < t->notes.n) {
        if (t->notes.p[m->event.index] == hash) {
            made_again(b, n, &v);
            return SK_OK;
        }
        drop_values(n, m);
        struct sk_cmsg c = {.type = SK_CMSG_CANCEL, .end = {t->seq, SK_RUN_FORCE}};
        sk_bnode_send(n, &c);
        sk_btask_fail(b, t, SK_ECORRUPT,
                      "a run after a loss made other values than the one before it; it must give "
                      "the same for the same input");
        return SK_OK;
    }
    if (t->over) {
        drop_values(n, m);
        return SK_OK;
    }
    if (!sk_vec_push(&t->notes, TAG, hash)) abort();
    struct sk_btold *e = told(b, t, SK_EV_YIELDED);
    void *keep = NULL;
    struct sk_guest_value value = new_value(b, t, n, &v, &keep);
    e->value = value;
    e->keep[0] = keep;
    e->keep[1] = kept(m->event.note.p, m->event.note.n);
    uint64_t *size = e->keep[2] = kept(&v.size, sizeof v.size);
    e->ev.sizes = size;
    e->ev.note = (struct sk_bytes){e->keep[1], m->event.note.n};
    e->ev.n_values = 1;
    if (!v.here) sk_blost_keep(b, t, &v.id, 1);
    return SK_OK;
}

static sk_rc done(struct sk_book *b, struct sk_btask *t, struct sk_bnode *n,
                  const struct sk_cmsg *m, struct sk_err *err) {
    struct sk_bshape *s = b->shapes.p[t->shape];
    bool stream = t->n_returns == SK_STREAMING;
    SK_ASSERT(t->state == SK_B_SENT && n->alive);
    if (m->event.n_values != (stream ? 0 : t->n_returns))
        return bad(n, t, "a wrong number of values", err);
    if (stream && t->n_seen < t->notes.n) {
        sk_btask_fail(b, t, SK_ECORRUPT,
                      "a run after a loss made fewer values than the one before it");
        return SK_OK;
    }
    if (t->lacks && !t->cancelled) {
        b->n_remade++;
        t->attempt++;
        sk_btask_unsend(b, t);
        sk_btask_queue(b, t, true);
        return SK_OK;
    }
    if (!t->actor && m->event.run_ns > 0)
        s->avg_ns = s->avg_ns ? (7 * s->avg_ns + m->event.run_ns) / 8 : m->event.run_ns;
    struct sk_rd r = sk_rd_init(m->event.values.p, m->event.values.n);
    if (t->over) {
        for (uint32_t i = 0; i < m->event.n_values; i++) {
            struct sk_cmsg_value v = sk_cmsg_value_next(&r);
            if (v.id != sk_value_id(t->seq, i)) return bad(n, t, "a wrong id", err);
            if (t->is_init) {
                if (!v.here && !sk_vec_push(&n->drop, TAG, v.id)) abort();
            } else made_again(b, n, &v);
        }
        finish(b, t, true, "its task did not make it again");
        return SK_OK;
    }
    struct sk_btold *e = told(b, t, SK_EV_DONE);
    uint32_t k = m->event.n_values, n_there = 0;
    struct sk_guest_value *values = e->keep[0] = sk_calloc(TAG, (k + 1) * sizeof *values);
    uint64_t *sizes = e->keep[1] = sk_calloc(TAG, (k + 1) * sizeof *sizes),
             *there = sk_calloc(TAG, (k + 1) * sizeof *there);
    /* bytes of small values: one block, which the values point into */
    uint8_t *bytes = e->keep[2] = kept(m->event.values.p, m->event.values.n);
    if (!values || !sizes || !there) abort();
    e->ev.run_ns = m->event.run_ns;
    e->ev.pid = m->event.pid;
    e->ev.start_ns = m->event.start_ns;
    e->ev.values = values;
    e->ev.sizes = sizes;
    e->ev.n_values = k;
    r = sk_rd_init(bytes, m->event.values.n);
    for (uint32_t i = 0; i < k; i++) {
        struct sk_cmsg_value v = sk_cmsg_value_next(&r);
        sizes[i] = v.size;
        if (v.here) values[i] = (struct sk_guest_value){.kind = v.kind, .bytes = v.bytes};
        else if (v.id == sk_value_id(t->seq, i)) {
            values[i] = new_value(b, t, n, &v, NULL);
            there[n_there++] = v.id;
        } else abort(); /* checked below before anything is told */
    }
    if (stream && m->event.note.n) {
        sk_free(e->keep[2]);
        e->keep[2] = kept(m->event.note.p, m->event.note.n);
        e->ev.note = (struct sk_bytes){e->keep[2], m->event.note.n};
    }
    if (n_there) sk_blost_keep(b, t, there, n_there);
    sk_free(there);
    finish(b, t, true, "its task did not make it again");
    return SK_OK;
}

static void failed(struct sk_book *b, struct sk_btask *t, const struct sk_cmsg *m) {
    struct sk_rd r = sk_rd_init(m->event.values.p, m->event.values.n);
    struct sk_cmsg_value v = {0};
    if (m->event.n_values) v = sk_cmsg_value_next(&r);
    t->actor_lives = m->event.actor_lives;
    if (t->over && t->kept && t->actor && t->actor->closing && !t->cancelled) {
        t->attempt++; /* the host has ended its actor, so it runs on another one */
        sk_btask_unsend(b, t);
        sk_btask_queue(b, t, true);
        return;
    }
    char text[600];
    snprintf(text, sizeof text, "%.*s", (int)SK_MIN(m->event.text.n, sizeof text - 1),
             (const char *)m->event.text.p);
    if (t->over || !v.here || !SK_KIND_IS_ERROR(v.kind)) {
        sk_btask_fail(b, t, m->event.code ? m->event.code : SK_ETASK, text);
        return;
    }
    struct sk_btold *e = told(b, t, SK_EV_FAILED);
    e->keep[0] = kept(v.bytes.p, v.bytes.n);
    e->keep[1] = kept(text, strlen(text));
    e->value = (struct sk_guest_value){.kind = v.kind, .bytes = {e->keep[0], v.bytes.n}};
    e->ev.n_values = 1;
    e->ev.code = m->event.code;
    e->ev.text = e->keep[1];
    e->ev.run_ns = m->event.run_ns;
    e->ev.pid = m->event.pid;
    e->ev.start_ns = m->event.start_ns;
    finish(b, t, false, text);
}

/* A node says that an actor of its is dead, and does not start again. */
static void actor_gone(struct sk_book *b, struct sk_bactor *a, const struct sk_bnode *n) {
    if (!a->started || a->ended || a->gone || a->node != n->number) return;
    a->gone = true;
    a->init->retries = 0;
    give_back(b, a->init, a->node);
    struct sk_btold new = {
        .ev = {.kind = SK_EV_FAILED, .task = a->init->id, .node = n->number, .code = SK_EACTOR}};
    if (!sk_vec_push(&b->told, TAG, new)) abort();
}

/* True if the ids of the values are those of the task's returns. */
static bool ids_good(const struct sk_btask *t, const struct sk_cmsg *m) {
    struct sk_rd r = sk_rd_init(m->event.values.p, m->event.values.n);
    for (uint32_t i = 0; i < m->event.n_values; i++) {
        uint64_t id = sk_cmsg_value_next(&r).id;
        if (m->event.kind == SK_EV_DONE && id != sk_value_id(t->seq, i)) return false;
    }
    return true;
}

sk_rc sk_btask_event(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                     struct sk_err *err) {
    struct sk_btask *t = sk_map_get(&b->seqs, m->event.task);
    if (t && t->is_init && t->state == SK_B_KEPT && m->event.kind == SK_EV_FAILED)
        actor_gone(b, t->actor, n);
    if (!t || t->state != SK_B_SENT ||
        t->node != n->number) { /* it was ended here, or runs elsewhere */
        drop_values(n, m);
        return SK_OK;
    }
    if (!ids_good(t, m)) return bad(n, t, "a wrong id", err);
    t->attempt = SK_MAX(t->attempt, m->event.attempt);
    switch (m->event.kind) {
    case SK_EV_STARTED:
        t->begun = true;
        if (!t->over) (void)told(b, t, SK_EV_STARTED);
        return SK_OK;
    case SK_EV_YIELDED: t->begun = true; return yielded(b, t, n, m, err);
    case SK_EV_DONE: return done(b, t, n, m, err);
    case SK_EV_FAILED: failed(b, t, m); return SK_OK;
    default: return bad(n, t, "an event that is not for a driver", err);
    }
}

void sk_btask_missing(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m) {
    struct sk_btask *t = sk_map_get(&b->seqs, m->missing.task);
    if (!t || t->state != SK_B_SENT || t->node != n->number) return;
    if (t->actor && !t->is_init && !t->actor->n_groups) t->actor->settling = true;
    sk_btask_unsend(b, t);
    if (t->cancelled) sk_btask_fail(b, t, SK_ECANCEL, "the task was cancelled");
    else sk_btask_back(b, t);
}

void sk_book_taken(struct sk_book *b, uint64_t task, uint32_t n) {
    struct sk_btask *t = sk_map_get(&b->tasks, task);
    if (!t || n <= t->n_taken) return;
    t->n_taken = n;
    if (t->state != SK_B_SENT) return;
    struct sk_cmsg m = {.type = SK_CMSG_TAKEN, .taken = {t->seq, n}};
    sk_bnode_send(sk_bnode_of(b, t->node), &m);
}

void sk_book_cancel(struct sk_book *b, uint64_t task, uint32_t flags) {
    struct sk_btask *t = sk_map_get(&b->tasks, task);
    if (!t || t->over) return;
    t->cancelled = true;
    if (t->state == SK_B_SENT) {
        struct sk_cmsg m = {.type = SK_CMSG_CANCEL, .end = {t->seq, sk_cmsg_of_cancel(flags)}};
        sk_bnode_send(sk_bnode_of(b, t->node), &m);
    } else sk_btask_fail(b, t, SK_ECANCEL, "the task was cancelled before it began");
}

/* ---- actors ---------------------------------------------------------------------------------- */

static void free_actor(struct sk_book *b, struct sk_bactor *a) {
    SK_ASSERT(sk_list_empty(&a->calls) && a->init->is_init && !a->node && !a->n_kept);
    sk_map_del(&b->actors, a->id);
    unref_arguments(b, a->init);
    sk_btask_free(b, a->init);
    sk_free(a->groups);
    sk_free(a->why);
    sk_free(a);
}

static void off_node(struct sk_book *b, struct sk_bactor *a) {
    if (a->node && !a->gone) give_back(b, a->init, a->node);
    a->node = 0;
    a->started = a->closing = a->moving = a->gone = false;
}

static void send_end(struct sk_book *b, const struct sk_bactor *a, uint32_t flags) {
    struct sk_bnode *n = sk_bnode_of(b, a->node);
    struct sk_cmsg m = {.type = SK_CMSG_END_ACTOR, .end = {a->id, flags}};
    if (n) sk_bnode_send(n, &m);
}

/* Starts an actor that the host has ended once more. */
static void revive(struct sk_book *b, struct sk_bactor *a) {
    const struct sk_bshape *s = b->shapes.p[a->init->shape];
    struct sk_need need = {.res = s->need,
                           .group = s->group,
                           .bundle = s->bundle,
                           .where = s->where,
                           .capture = s->capture};
    SK_ASSERT(a->ended && !a->dead && !a->node && a->init->over);
    need.res.amount[SK_RES_CPU] = 0; /* see book.h */
    uint32_t shape = shape_of(b, &need, true);
    if (shape != UINT32_MAX) {
        b->shapes.p[a->init->shape]->n_tasks--;
        b->shapes.p[shape]->n_tasks++;
        a->init->shape = shape;
    }
    a->init->attempt++;
    b->n_revived++;
    sk_btask_queue(b, a->init, true);
}

void sk_bactor_settle(struct sk_book *b, struct sk_bactor *a) {
    if (!a->ended || a->init->state == SK_B_SENT || (a->closing && a->n_sent)) return;
    if (a->closing) off_node(b, a);
    bool idle = !a->node && a->init->state == SK_B_KEPT;
    if (idle && !a->dead && !sk_list_empty(&a->calls)) {
        if (a->init->retries) {
            revive(b, a); /* it may be freed now */
            return;
        }
        sk_bactor_die(b, a, "its actor has no restarts left to make a lost value again");
    }
    if (a->n_calls) return;
    if (a->init->state != SK_B_KEPT) { /* it waits to be started */
        sk_list_del(&a->init->link);
        a->init->state = SK_B_KEPT;
    }
    send_end(b, a, 0);
    off_node(b, a);
    if (!a->n_kept) free_actor(b, a);
}

/* The actor cannot run again: its calls end. */
void sk_bactor_die(struct sk_book *b, struct sk_bactor *a, const char *why) {
    SK_DCHECK(why && *why);
    a->dead = true;
    a->started = false;
    if (!a->why) a->why = kept(why, strlen(why));
    a->n_calls++; /* keeps it while its calls end */
    while (!sk_list_empty(&a->calls))
        sk_btask_fail(b, sk_container_of(sk_list_first(&a->calls), struct sk_btask, link),
                      SK_EACTOR, why);
    a->n_calls--;
}

bool sk_bactor_move(struct sk_book *b, struct sk_bactor *a) {
    struct sk_bnode *n = sk_bnode_of(b, a->node);
    bool never = false;
    uint32_t bundle;
    SK_ASSERT(n && n->draining && a->init->is_init);
    if (!a->started || a->ended || a->dead || !a->init->retries) return false;
    a->moving = node_for(b, a->init, &bundle, &never) != NULL;
    if (!a->moving) flush(b, a);
    if (!a->moving || a->n_sent) return false;
    send_end(b, a, 0);
    off_node(b, a);
    if (a->init->retries > 0) a->init->retries--;
    b->n_moved_actors++;
    sk_btask_queue(b, a->init, true);
    return true;
}

/* True unless the call makes lost values again. */
static bool of_host(const struct sk_btask *t) { return !t->over; }

void sk_book_actor_end(struct sk_book *b, uint64_t actor, enum sk_guest_end how) {
    struct sk_bactor *a = sk_map_get(&b->actors, actor);
    if (!a || a->ended) return;
    send_end(b, a,
             how == SK_GUEST_RESTART ? SK_RUN_RESTART
             : how == SK_GUEST_LEAVE ? SK_RUN_LEAVE
                                     : 0u);
    if (how == SK_GUEST_RESTART && a->node) return;
    if (how == SK_GUEST_RESTART && a->init->retries) {
        /* it has no process yet, and the kill costs a restart all the same */
        if (a->init->retries > 0) a->init->retries--;
        return;
    }
    static const char why[] = "the actor was ended";
    bool waits = a->init->state == SK_B_READY || a->init->state == SK_B_BLOCKED;
    a->ended = true;
    a->closing = a->node != 0;
    a->started = a->moving = false;
    if (!a->why) a->why = kept(why, strlen(why));
    a->n_calls++; /* keeps it while calls of it end */
    if (waits && a->init->over) {
        sk_list_del(&a->init->link);
        a->init->state = SK_B_KEPT;
    } else if (waits) sk_btask_fail(b, a->init, SK_EACTOR, "the actor was ended before it began");
    for (struct sk_btask *t; (t = waiting(a, of_host));) sk_btask_fail(b, t, SK_EACTOR, why);
    a->n_calls--;
    sk_bactor_settle(b, a);
}
