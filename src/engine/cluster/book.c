/* book.c - the book of a cluster: nodes and values (contract: book.h). */
#include "engine/cluster/book_int.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- nodes ----------------------------------------------------------------------------------- */

sk_rc sk_book_joined(struct sk_book *b, const struct sk_cmsg *w, struct sk_bytes address,
                     uint32_t *number, struct sk_err *err) {
    uint64_t place = sk_id_place(w->welcome.id_base);
    for (uint32_t i = 0; place && i < b->nodes.n; i++)
        if (b->nodes.p[i]->place == place)
            return SK_ERR(err, SK_EINVAL, "place %llu of all ids is taken by node %s",
                          (unsigned long long)place, b->nodes.p[i]->name);
    if (place > SK_ID_PLACES || w->welcome.id_base % SK_ID_RANGE)
        return SK_ERR(err, SK_EINVAL, "there is no place for ids at %llx",
                      (unsigned long long)w->welcome.id_base);
    struct sk_bnode *n = sk_calloc(TAG, sizeof *n);
    char *at = sk_alloc(TAG, address.n + 1);
    struct sk_bytes l = w->welcome.labels;
    void *labels = sk_memdup(TAG, l.p, l.n);
    if (!n || !at || !labels || !sk_vec_push(&b->which, TAG, (struct sk_which_node){0}) ||
        !sk_vec_push(&b->nodes, TAG, n)) {
        sk_free(n);
        sk_free(at);
        sk_free(labels);
        return SK_ERR(err, SK_ENOMEM, "node");
    }
    memcpy(at, address.p, address.n);
    at[address.n] = 0;
    *n = (struct sk_bnode){.number = b->nodes.n,
                           .alive = true,
                           .incarnation = w->welcome.incarnation,
                           .address = at,
                           .labels = {labels, l.n},
                           .total = w->welcome.total,
                           .free = w->welcome.total,
                           .capacity = w->welcome.store_bytes,
                           .disk_limit = w->welcome.disk_limit_bytes,
                           .place = place};
    snprintf(n->name, sizeof n->name, "%.*s", (int)SK_MIN(w->welcome.name.n, (size_t)63),
             (const char *)w->welcome.name.p);
    sk_list_init(&n->sent);
    sk_map_init(&n->defined, TAG);
    sk_map_init(&n->envs, TAG);
    sk_map_init(&n->lent, TAG);
    struct sk_cmsg self = {.type = SK_CMSG_PEER,
                           .peer = {n->number, n->incarnation, {at, address.n}}};
    sk_bnode_send(n, &self);
    for (uint32_t i = 0; i + 1 < b->nodes.n; i++) { /* nodes read from each other */
        struct sk_bnode *o = b->nodes.p[i];
        if (!o->alive) continue;
        struct sk_cmsg m = self;
        sk_bnode_send(o, &m);
        m.peer.number = o->number;
        m.peer.incarnation = o->incarnation;
        m.peer.address = (struct sk_bytes){o->address, strlen(o->address)};
        sk_bnode_send(n, &m);
    }
    *number = n->number;
    b->n_freed++;
    return SK_OK;
}

struct sk_outbox *sk_book_out(struct sk_book *b, uint32_t number) {
    struct sk_bnode *n = sk_bnode_of(b, number);
    if (!n || !n->alive) return NULL;
    sk_bnode_send_drops(n);
    return &n->out;
}

uint32_t sk_book_n_nodes(const struct sk_book *b) { return b->nodes.n; }

struct sk_node sk_book_node(const struct sk_book *b, uint32_t number) {
    const struct sk_bnode *n = sk_bnode_of(b, number);
    struct sk_node out = {.number = number,
                          .alive = n->alive,
                          .draining = n->alive && n->draining,
                          .labels = n->labels,
                          .total = n->total,
                          .capacity_bytes = n->capacity,
                          .resident_bytes = n->resident,
                          .disk_bytes = n->disk,
                          .promised_bytes = n->promised,
                          .disk_limit_bytes = n->disk_limit,
                          .load = n->load};
    SK_LIST_EACH (it, &n->sent) out.load.sent++;
    memcpy(out.name, n->name, sizeof out.name);
    /* What was sent there takes its share at once; what runs inside of tasks, the node tells. */
    for (int i = 0; i < SK_RES_MAX; i++)
        out.free.amount[i] =
            SK_MAX(0, SK_MIN(n->free.amount[i], n->total.amount[i] - n->used.amount[i]));
    return out;
}

void sk_book_lost(struct sk_book *b, uint32_t number, const char *why) {
    struct sk_bnode *n = sk_bnode_of(b, number);
    SK_VEC(uint64_t) lost = {0};
    uint64_t key;
    void *val;
    char text[200];
    if (!n || !n->alive) return;
    n->alive = false;
    snprintf(text, sizeof text, "node %s was lost (%s)", n->name, why);
    sk_outbox_free(&n->out);
    sk_vec_free(&n->drop);
    sk_btold_lost(b, number);
    /* values first, so that tasks that are queued again see what is missing */
    for (uint32_t i = 0; sk_map_next(&b->values, &i, &key, &val);) {
        struct sk_bval *v = val;
        bool had = v->node == number;
        sk_bval_not_at(b, v, number);
        if (had && !sk_bval_there(v) && !sk_vec_push(&lost, TAG, key)) abort();
    }
    sk_bgroups_off(b, n);
    SK_ASSERT(!n->n_moving && !n->coming);
    n->draining = false;
    sk_vec_free(&n->leaving);
    /* actors: their calls wait, or end with them */
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);) {
        struct sk_bactor *a = val;
        if (a->node == number) a->started = a->moving = false;
    }
    for (struct sk_list *it; (it = sk_list_first(&n->sent));) {
        struct sk_btask *t = sk_container_of(it, struct sk_btask, link);
        bool call = t->actor && !t->is_init;
        SK_ASSERT(t->state == SK_B_SENT && t->node == number);
        sk_btask_unsend(b, t);
        if (t->cancelled) sk_btask_fail(b, t, SK_ECANCEL, "the task was cancelled");
        else if (t->node_only) sk_btask_fail(b, t, SK_EINFEASIBLE, text);
        else if (call && (!t->retries || !t->actor->init->retries)) {
            t->actor_lives = t->actor->init->retries != 0 && !t->actor->ended;
            sk_btask_fail(b, t, SK_EACTOR, text);
        } else if (!call && !t->retries) /* it may have begun without having said so yet */
            sk_btask_fail(b, t, t->is_init ? SK_EACTOR : SK_EDEAD, text);
        else {
            if (t->begun && t->retries > 0) t->retries--;
            t->attempt += t->begun;
            b->n_again++;
            sk_btask_back(b, t);
        }
    }
    SK_VEC(uint64_t) actors = {0}; /* the end of one may free it */
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);) {
        struct sk_bactor *a = val;
        if (a->node == number && !sk_vec_push(&actors, TAG, key)) abort();
    }
    for (uint32_t i = 0; i < actors.n; i++) {
        struct sk_bactor *a = sk_map_get(&b->actors, actors.p[i]);
        if (!a) continue;
        bool closing = a->closing;
        a->node = 0;
        a->closing = false;
        if (a->dead || closing || (a->ended && !a->n_calls)) sk_bactor_settle(b, a);
        else if (!a->init->retries) {
            sk_bactor_die(b, a, text);
            sk_bactor_settle(b, a);
        } else {
            if (a->init->retries > 0) a->init->retries--;
            b->n_again++;
            sk_btask_queue(b, a->init, true);
        }
    }
    sk_vec_free(&actors);
    for (uint32_t i = 0; i < lost.n; i++) {
        struct sk_bval *v = sk_bval_of(b, lost.p[i]);
        if (v && !sk_bval_there(v) && !v->err) sk_blost_value(b, v);
    }
    sk_vec_free(&lost);
    sk_brefs_lost(b, n, text);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void fetched(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m) {
    struct sk_bval *v = sk_bval_of(b, m->value.ask);
    if (!v || !v->asked || v->node != n->number) return;
    v->asked = false;
    bool moves = v->move && !v->move_to, keep = v->relay || moves;
    if (m->value.rc != SK_OK) {
        char text[300];
        snprintf(text, sizeof text, "node %s could not give it: %.*s", n->name,
                 (int)SK_MIN(m->value.bytes.n, (size_t)200), (const char *)m->value.bytes.p);
        if (m->value.rc == SK_ENOENT || moves) sk_bval_forget(b, v, n->number);
        else sk_bval_fail(b, v, m->value.rc, text);
        return;
    }
    if ((!v->n_fetching && !keep) || v->blob) return;
    if (m->value.owner && (v->blob = *m->value.owner)) *m->value.owner = NULL;
    else v->blob = sk_bblob_new(m->value.kind, m->value.bytes);
    if (!v->blob) sk_bval_fail(b, v, SK_ENOMEM, "no memory for a value that was fetched");
    v->mine = v->blob && keep;
    v->relay = false;
    if (moves) sk_bval_unmove(b, v);
    b->n_moved += moves;
    b->recheck = true;
}

/* A node could not read a value from the node that has it. */
static void unread(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m) {
    SK_DCHECK(m->type == SK_CMSG_MISSING && n->alive);
    struct sk_bval *v = sk_bval_of(b, m->missing.id);
    if (v && v->node != n->number) sk_bval_forget(b, v, n->number); /* it has no copy, after all */
    v = sk_bval_of(b, m->missing.id);
    if (v && m->missing.code == SK_ENOENT) sk_bval_forget(b, v, m->missing.node);
    else if (v && v->node && v->node == m->missing.node) sk_bval_relay(b, v);
    sk_btask_missing(b, n, m);
}

sk_rc sk_book_message(struct sk_book *b, uint32_t number, const struct sk_cmsg *m,
                      struct sk_err *err) {
    struct sk_bnode *n = sk_bnode_of(b, number);
    if (!n || !n->alive) return SK_OK;
    switch (m->type) {
    case SK_CMSG_EVENT: return sk_btask_event(b, n, m, err);
    case SK_CMSG_VALUE: fetched(b, n, m); return SK_OK;
    case SK_CMSG_BEAT: return SK_OK;
    case SK_CMSG_STATE:
        n->free = m->state.free;
        n->idle = m->state.n_runs == n->n_runs ? n->free : (struct sk_res){0};
        n->resident = m->state.resident_bytes;
        n->disk = m->state.disk_bytes;
        n->promised = m->state.promised_bytes;
        n->disk_limit = m->state.disk_limit_bytes;
        n->load = m->state.load;
        n->arrived = 0;
        b->n_freed++;
        sk_bspare_state(b, n, m->state.n_spare);
        return SK_OK;
    case SK_CMSG_BROUGHT: sk_bdrain_brought(b, n, m); return SK_OK;
    case SK_CMSG_MISSING: unread(b, n, m); return SK_OK;
    case SK_CMSG_TOLD: return sk_btold_message(b, n, m, err);
    case SK_CMSG_DEFINE:
    case SK_CMSG_HOLD:
    case SK_CMSG_UNHOLD:
    case SK_CMSG_THERE:
    case SK_CMSG_WANT:
    case SK_CMSG_CALL:
    case SK_CMSG_ENDED:
    case SK_CMSG_KILL:
    case SK_CMSG_STOP:
    case SK_CMSG_YIELD:
    case SK_CMSG_TOOK:
    case SK_CMSG_NAME: return sk_brefs_message(b, n, m, err);
    default:
        return SK_ERR(err, SK_ECORRUPT,
                      "node %s sent a message of type %d, which is not for a driver", n->name,
                      (int)m->type);
    }
}

/* ---- launching ------------------------------------------------------------------------------- */

void sk_book_launch(struct sk_book *b) {
    bool more = true;
    sk_brefs_launch(b);
    while (more) {
        while (b->recheck) sk_btasks_recheck(b);
        sk_bgroups_step(b);
        more = sk_bdrain_step(b);
        sk_btasks_send(b);
    }
    if (b->spare) sk_bspare_offer(b);
}

/* ---- what the host orders -------------------------------------------------------------------- */

sk_rc sk_book_define(struct sk_book *b, sk_fid fn, const char *name, struct sk_bytes def,
                     struct sk_err *err) {
    if (sk_map_get(&b->fns, fn.v)) return SK_OK;
    struct sk_bfn *f = sk_calloc(TAG, sizeof *f);
    if (f) *f = (struct sk_bfn){sk_strdup(TAG, name), sk_memdup(TAG, def.p, def.n), def.n};
    if (f && f->name && f->def && sk_map_put(&b->fns, fn.v, f) == SK_OK) return SK_OK;
    if (f) {
        sk_free(f->name);
        sk_free(f->def);
        sk_free(f);
    }
    return SK_ERR(err, SK_ENOMEM, "function %s", name);
}

void sk_book_env(struct sk_book *b, uint32_t number, struct sk_bytes env) {
    SK_ASSERT(number == b->envs.n + 1);
    if (!sk_vec_push(&b->envs, TAG, sk_bblob_new(0, env))) abort();
}

sk_rc sk_book_put(struct sk_book *b, struct sk_bblob *blob, struct sk_bval **out,
                  struct sk_err *err) {
    (void)err;
    SK_ASSERT(blob && b->next_seq);
    struct sk_bval *v = sk_bval_new(b, sk_value_id(b->next_seq++, 0));
    v->refs = 1;
    v->held = v->mine = true;
    v->blob = blob;
    v->size = blob->len;
    v->why = SK_LOST_PUT;
    *out = v;
    return SK_OK;
}

void sk_book_drop(struct sk_book *b, struct sk_bval *v) {
    SK_ASSERT(v->held);
    v->held = false;
    sk_bval_unref(b, v);
}

void sk_book_fetch_begin(struct sk_bval *v) { v->n_fetching++; }

void sk_book_fetch_end(struct sk_bval *v) {
    SK_ASSERT(v->n_fetching > 0);
    if (--v->n_fetching || v->mine) return;
    sk_bblob_unref(v->blob);
    v->blob = NULL;
}

sk_rc sk_book_fetch(struct sk_book *b, struct sk_bval *v, struct sk_bblob **out,
                    struct sk_err *err) {
    SK_ASSERT(v->n_fetching > 0);
    if (v->blob) {
        atomic_fetch_add(&v->blob->refs, 1);
        *out = v->blob;
        return SK_OK;
    }
    if (v->err) {
        if (err) *err = *v->err;
        return v->err->code;
    }
    sk_bval_ask(b, v);
    return SK_EAGAIN;
}

/* ---- events ---------------------------------------------------------------------------------- */

void sk_book_tell(struct sk_book *b, void (*tell)(void *host, const struct sk_guest_event *ev),
                  void *host) {
    /* the host gives no orders while it is told, so nothing is added meanwhile */
    for (uint32_t i = 0; i < b->told.n; i++) {
        struct sk_btold *t = &b->told.p[i];
        if (t->ev.n_values == 1 && !t->ev.values) t->ev.values = &t->value;
        tell(host, &t->ev);
        for (uint32_t k = 0; k < SK_COUNT(t->keep); k++) sk_free(t->keep[k]);
    }
    b->told.n = 0;
}

/* ---- making, ending, checking ---------------------------------------------------------------- */

sk_rc sk_book_create(struct sk_book **out, uint64_t lineage_bytes, struct sk_err *err) {
    struct sk_book *b = sk_calloc(TAG, sizeof *b);
    if (!b) return SK_ERR(err, SK_ENOMEM, "book of a cluster");
    sk_map_init(&b->fns, TAG);
    sk_map_init(&b->tasks, TAG);
    sk_map_init(&b->seqs, TAG);
    sk_map_init(&b->actors, TAG);
    sk_map_init(&b->values, TAG);
    sk_map_init(&b->asked, TAG);
    sk_list_init(&b->groups);
    sk_list_init(&b->blocked);
    sk_list_init(&b->todo);
    b->next_seq = 1;
    sk_rc rc = sk_lineage_create(&b->lineage, lineage_bytes ? lineage_bytes : 64u << 20, err);
    if (rc != SK_OK) {
        sk_free(b);
        return rc;
    }
    *out = b;
    return SK_OK;
}

void sk_book_destroy(struct sk_book *b) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; i < b->told.n; i++) {
        struct sk_btold *t = &b->told.p[i];
        for (uint32_t k = 0; k < SK_COUNT(t->keep); k++) sk_free(t->keep[k]);
    }
    for (uint32_t i = 0; sk_map_next(&b->seqs, &i, &key, &val);) {
        struct sk_btask *t = val;
        for (uint32_t k = 0; k < t->n_args; k++) sk_bblob_unref(t->args[k].blob);
        sk_vec_free(&t->notes);
        sk_free(t->args);
        sk_free(t->name);
        sk_free(t);
    }
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);) {
        sk_free(((struct sk_bactor *)val)->why);
        sk_free(((struct sk_bactor *)val)->groups);
        sk_free(val);
    }
    sk_brefs_free(b);
    sk_btold_free(b);
    sk_bgroups_free(b);
    for (uint32_t i = 0; sk_map_next(&b->values, &i, &key, &val);) {
        struct sk_bval *v = val;
        sk_bblob_unref(v->blob);
        sk_vec_free(&v->copies);
        sk_free(v->err);
        sk_free(v);
    }
    for (uint32_t i = 0; sk_map_next(&b->fns, &i, &key, &val);) {
        struct sk_bfn *f = val;
        sk_free(f->name);
        sk_free(f->def);
        sk_free(f);
    }
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        struct sk_bnode *n = b->nodes.p[i];
        sk_map_deinit(&n->defined);
        sk_map_deinit(&n->envs);
        sk_vec_free(&n->drop);
        sk_vec_free(&n->leaving);
        sk_outbox_free(&n->out);
        sk_free(n->address);
        sk_free((void *)(uintptr_t)n->labels.p); /* joined's copy */
        sk_free(n);
    }
    for (uint32_t i = 0; i < b->shapes.n; i++) {
        sk_vec_free(&b->shapes.p[i]->rank);
        sk_free(b->shapes.p[i]);
    }
    sk_lineage_destroy(b->lineage);
    sk_map_deinit(&b->fns);
    sk_map_deinit(&b->tasks);
    sk_map_deinit(&b->seqs);
    sk_map_deinit(&b->actors);
    sk_map_deinit(&b->values);
    sk_vec_free(&b->nodes);
    sk_vec_free(&b->which);
    sk_vec_free(&b->shapes);
    for (uint32_t i = 0; i < b->envs.n; i++) sk_bblob_unref(b->envs.p[i]);
    sk_vec_free(&b->envs);
    sk_vec_free(&b->told);
    sk_free(b);
}

struct sk_book_stats sk_book_stats(const struct sk_book *b) {
    uint64_t n_lent = 0;
    for (uint32_t i = 0; i < b->nodes.n; i++) n_lent += b->nodes.p[i]->lent.n;
    return (struct sk_book_stats){.n_asked = b->asked.n,
                                  .n_lent = n_lent,
                                  .n_tasks = b->tasks.n,
                                  .n_kept = sk_lineage_n(b->lineage),
                                  .kept_bytes = sk_lineage_bytes(b->lineage),
                                  .n_values = b->values.n,
                                  .n_again = b->n_again,
                                  .n_remade = b->n_remade,
                                  .n_actors = b->actors.n,
                                  .n_revived = b->n_revived,
                                  .n_moved = b->n_moved,
                                  .n_moved_actors = b->n_moved_actors};
}

bool sk_book_check(const struct sk_book *b) {
    uint64_t key;
    void *val;
    struct sk_map refs; /* value -> number of references + 1 */
    struct sk_map kept; /* actor -> number of its calls that lineage keeps */
    sk_map_init(&refs, SK_TAG_TEST);
    sk_map_init(&kept, SK_TAG_TEST);
    bool good = sk_lineage_check(b->lineage);
    for (uint32_t i = 0; sk_map_next(&b->seqs, &i, &key, &val);) {
        const struct sk_btask *t = val;
        const struct sk_bnode *n = sk_bnode_of(b, t->node);
        good = good && t->seq == key && (t->state == SK_B_SENT) == (t->node != 0) &&
               (!n || n->alive) && (t->over || sk_map_get(&b->tasks, t->id) == t);
        if (t->kept && t->actor) {
            uintptr_t r = (uintptr_t)sk_map_get(&kept, t->actor->id);
            good = good && sk_map_put(&kept, t->actor->id, (void *)(r + 1)) == SK_OK; /* NOLINT */
        }
        if (t->state == SK_B_KEPT && !t->is_init) continue; /* holds nothing */
        for (uint32_t k = 0; k < t->n_args; k++)
            if (t->args[k].id) {
                uintptr_t r = (uintptr_t)sk_map_get(&refs, t->args[k].id);
                good =
                    good && sk_map_put(&refs, t->args[k].id, (void *)(r + 1)) == SK_OK; /* NOLINT */
            }
    }
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);) {
        const struct sk_bactor *a = val;
        good = good && a->n_kept == (uintptr_t)sk_map_get(&kept, key) &&
               (!a->ended || a->n_calls || a->n_kept || a->init->state == SK_B_SENT);
    }
    sk_map_deinit(&kept);
    good = sk_brefs_count(b, &refs) && good;
    for (uint32_t i = 0; sk_map_next(&b->values, &i, &key, &val);) {
        const struct sk_bval *v = val;
        good = good && v->refs == (uintptr_t)sk_map_get(&refs, key) + v->held &&
               (!v->node || sk_bnode_of(b, v->node)->alive);
        sk_map_del(&refs, key);
    }
    good = good && !refs.n; /* no task takes a value that is not in the book */
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        const struct sk_bnode *n = b->nodes.p[i];
        int64_t cpu = 0;
        if (!n->alive) continue;
        SK_LIST_EACH (it, &n->sent) {
            const struct sk_btask *t = sk_container_of(it, struct sk_btask, link);
            good = good && t->node == n->number && t->state == SK_B_SENT;
            if (!t->actor && !b->shapes.p[t->shape]->group)
                cpu += b->shapes.p[t->shape]->need.amount[0];
        }
        for (uint32_t k = 0; sk_map_next(&b->actors, &k, &key, &val);) {
            const struct sk_bactor *a = val;
            if (a->node == n->number && !a->gone && !b->shapes.p[a->init->shape]->group)
                cpu += b->shapes.p[a->init->shape]->need.amount[0];
        }
        good = good && cpu + n->reserved.amount[0] == n->used.amount[0];
    }
    sk_map_deinit(&refs);
    return good && sk_bdrain_check(b) && sk_bgroups_check(b);
}
