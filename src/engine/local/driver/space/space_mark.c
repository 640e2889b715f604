/* space_mark.c - marks how much each value of the store is needed (SK_USE_*), anew before each
 * choice, by a walk over what uses values: tasks on workers and in line, gets, and waits for the
 * disk. So no counts have to be kept up to date while tasks run and values are used. Runs with the
 * lock held. Cost: about 50 ns for each value in use. */
#include "engine/local/driver/space/space_int.h"

/* tasks at the head of a queue whose arguments are read ahead and kept */
#define AHEAD_TASKS 32u

/* Marks that o is needed this much, or more. */
static void mark(struct sk_local *l, struct sk_obj *o, uint64_t use) {
    SK_DCHECK(use < SK_USES);
    if (o && o->st) sk_stored_mark(o->st, l->space.epoch + use);
}

static void mark_args(struct sk_local *l, const struct sk_ltask *t, uint64_t use) {
    struct arg_iter it = args_of(t);
    for (struct sk_obj *o; (o = next_arg(l, &it));) mark(l, o, use);
}

static void mark_ids(struct sk_local *l, const uint64_t *ids, size_t n, uint64_t use) {
    for (size_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, ids[i]);
        if (o && o->state == SK_O_READY) mark(l, o, use);
    }
}

static void mark_waiters(struct sk_local *l, const struct sk_obj *o) {
    /* marks the arguments of the tasks that wait for o; the values of gets are marked elsewhere */
    for (const struct sk_dep *d = o->deps; d; d = d->next) {
        if (!d->task || d->task->space_epoch == l->space.epoch) continue;
        d->task->space_epoch = l->space.epoch;
        mark_args(l, d->task, SK_USE_AWAITED);
    }
}

/* Finds the waiter for the first object on disk that something waits for: the oldest get, or the
 * oldest task if there is no get. */
void sk_space_first_waiter(struct sk_local *l, const struct sk_get_wait **get,
                           const struct sk_ltask **task) {
    const struct sk_list *first = sk_list_first(wanted_of(l));
    *get = NULL;
    *task = NULL;
    if (!first) return;
    const struct sk_obj *o = sk_container_of(first, struct sk_stored, link)->o;
    SK_DCHECK(o->state == SK_O_READY && o->where == SK_V_DISK);
    SK_LIST_EACH (it, &l->space.get_waits) {
        const struct sk_get_wait *g = sk_container_of(it, struct sk_get_wait, link);
        for (size_t i = 0; i < g->n; i++)
            if (g->ids[i] == o->id) {
                *get = g;
                return;
            }
    }
    for (const struct sk_dep *d = o->deps; d; d = d->next)
        if (d->task) *task = d->task; /* the last one in the list is the oldest */
}

/* Marks the arguments of t; only once a round, even if several of them are wanted. */
static void mark_task_first(struct sk_local *l, struct sk_ltask *t) {
    if (t->space_epoch == l->space.epoch + SK_USE_FIRST) return;
    t->space_epoch = l->space.epoch + SK_USE_FIRST;
    mark_args(l, t, SK_USE_FIRST);
}

/* Marks the values that the first waiter needs. */
static void mark_first(struct sk_local *l) {
    const struct sk_get_wait *g;
    const struct sk_ltask *t;
    sk_space_first_waiter(l, &g, &t);
    if (g) mark_ids(l, g->ids, g->n, SK_USE_FIRST);
    if (t) mark_args(l, t, SK_USE_FIRST);
    /* Earlier first waiters count, too, until the values that they waited for have been read;
     * otherwise the next waiter would take the memory of the values read for them. */
    SK_LIST_EACH (it, &l->space.get_waits) {
        g = sk_container_of(it, struct sk_get_wait, link);
        bool reads = false;
        for (size_t i = 0; i < g->n && !reads; i++) {
            const struct sk_obj *o = sk_obj_get(l, g->ids[i]);
            reads = o && o->state == SK_O_READY && o->where == SK_V_DISK && o->st->io;
        }
        if (reads) mark_ids(l, g->ids, g->n, SK_USE_FIRST);
    }
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_READING])
        for (const struct sk_dep *d = stored_of(it)->o->deps; d; d = d->next)
            if (d->task) mark_task_first(l, d->task);
}

/* Calls f for each argument of the next tasks in line, up to a quarter of the store. */
void sk_space_each_soon(struct sk_local *l, void (*f)(struct sk_local *l, struct sk_obj *o)) {
    uint64_t room = size_of(l) / 4;
    uint32_t n_args = 0;
    for (uint32_t s = 0; s < l->place.n_shapes; s++) {
        struct sk_place_shape *sh = l->place.shapes[s];
        uint32_t n = 0;
        for (uint32_t m = sh->levels; m && n < AHEAD_TASKS; m &= m - 1)
            SK_LIST_EACH (it, &sh->ready[__builtin_ctz(m)]) {
                if (n++ == AHEAD_TASKS) break;
                struct arg_iter a = args_of(sk_container_of(
                    sk_container_of(it, struct sk_place_task, link), struct sk_ltask, place));
                for (struct sk_obj *o; (o = next_arg(l, &a));) {
                    if (room_of(o) > room || n_args++ > 1000) return;
                    room -= room_of(o);
                    f(l, o);
                }
            }
    }
    SK_LIST_EACH (it, &l->actors.all) {
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
        if (sk_list_empty(&a->queue)) continue;
        struct arg_iter i = args_of(sk_container_of(a->queue.next, struct sk_ltask, on));
        for (struct sk_obj *o; (o = next_arg(l, &i));) {
            if (room_of(o) > room || n_args++ > 1000) return;
            room -= room_of(o);
            f(l, o);
        }
    }
}

static void mark_soon(struct sk_local *l, struct sk_obj *o) { mark(l, o, SK_USE_SOON); }

void sk_space_mark_all(struct sk_local *l) {
    l->space.epoch += SK_USES;
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        if (!l->pool.workers[i]) continue;
        SK_LIST_EACH (it, &l->pool.workers[i]->sent)
            mark_args(l, sk_container_of(it, struct sk_ltask, on), SK_USE_NOW);
    }
    SK_LIST_EACH (it, &l->space.get_waits) {
        const struct sk_get_wait *g = sk_container_of(it, struct sk_get_wait, link);
        mark_ids(l, g->ids, g->n, SK_USE_AWAITED);
    }
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_READING]) mark_waiters(l, stored_of(it)->o);
    SK_LIST_EACH (it, wanted_of(l)) mark_waiters(l, stored_of(it)->o);
    mark_first(l);
    sk_space_each_soon(l, mark_soon);
}
