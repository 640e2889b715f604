/* lineage.c - the graph of kept tasks and the objects between them (contract: lineage.h).
 *
 * Not here: values, references, running tasks. A node of the graph is a task or an object; an
 * object has a node while a kept task makes or needs it, or while it is in scope and lineage
 * remembers the reason why it cannot be made.
 *
 *     task --returns--> object --uses--> edge (one an argument) --task--> task
 *
 * Invariant: task->n_needed counts its returns that are in scope or used; a task that is not open
 * is in the graph exactly while n_needed > 0 and (*) of lineage.h holds for it. Tasks leave by one
 * loop over a stack of doomed tasks (`drop`), which serves both directions: "nobody needs it"
 * upstream and "cannot be made any more" downstream. So neither direction costs stack.
 *
 * A plan is a depth-first walk from the lost object through arguments that are out of scope; the
 * way back is kept in the tasks, and the order in which the walk leaves the tasks is the answer. It
 * allocates nothing, so it cannot fail half-way.
 *
 * Cost: a map access for each object named; 104 bytes a task, 32 an argument, 80 an object. */
#include "engine/own/lineage.h"

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/mem.h"
#include "base/pool.h"

struct task;

struct obj {
    uint64_t id;
    struct task *maker;  /* the kept task that makes the object; NULL: none */
    struct sk_list sib;  /* link in maker->returns */
    struct sk_list uses; /* edges (struct edge) to the tasks that use the object */
    struct obj *next;    /* next in the list for next_object */
    uint64_t culprit;    /* with `said`: id of the object that is the reason */
    uint8_t why;
    bool said;  /* true: `why` and `culprit` are recorded */
    bool alive; /* the object is in scope */
};

struct edge {
    struct sk_list link; /* link in obj->uses */
    struct obj *obj;
    struct task *task;
};

struct task {
    uint64_t id;
    void *data;
    struct sk_list age;  /* link in l->aged: all kept tasks, oldest first */
    struct sk_list todo; /* link in l->todo: the tasks that next_task has to give */
    struct sk_list returns;
    /* next on the stack of doomed tasks or in the queue of freed ones, or the way back of a plan */
    struct task *next;
    uint64_t bytes, culprit;
    uint32_t n_needed, n_args, cursor;
    int32_t retries;
    uint8_t why;
    bool open, running, doomed;
    struct edge arg[];
};

struct sk_lineage {
    struct sk_map objs, tasks;
    struct sk_pool pool;
    struct sk_list aged, todo;
    struct task *doomed;
    struct task *free_head, *free_tail;
    struct obj *back_head, *back_tail; /* objects that are in scope again */
    uint64_t budget, bytes, n_evicted;
    uint64_t charged; /* part of `bytes` that is of no single task */
    uint64_t freed_culprit;
    uint8_t freed_why;
};

sk_rc sk_lineage_create(struct sk_lineage **out, uint64_t budget_bytes, struct sk_err *err) {
    struct sk_lineage *l = sk_calloc(SK_TAG_ENGINE, sizeof *l);
    if (!l) return SK_ERR(err, SK_ENOMEM, "create the lineage: no memory");
    sk_map_init(&l->objs, SK_TAG_ENGINE);
    sk_map_init(&l->tasks, SK_TAG_ENGINE);
    sk_pool_init(&l->pool, SK_TAG_ENGINE, sizeof(struct obj));
    sk_list_init(&l->aged);
    sk_list_init(&l->todo);
    l->budget = budget_bytes;
    *out = l;
    return SK_OK;
}

void sk_lineage_destroy(struct sk_lineage *l) {
    if (!l) return;
    void *val;
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, NULL, &val);) sk_free(val);
    while (l->free_head) {
        struct task *t = l->free_head;
        l->free_head = t->next;
        sk_free(t);
    }
    sk_map_deinit(&l->tasks);
    sk_map_deinit(&l->objs);
    sk_pool_deinit(&l->pool);
    sk_free(l);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Makes the node of an object; the caller has reserved memory for it. */
static struct obj *obj_new(struct sk_lineage *l, uint64_t id) {
    struct obj *o = sk_pool_get(&l->pool);
    SK_ASSERT(o);
    *o = (struct obj){.id = id, .alive = true};
    sk_list_init(&o->sib);
    sk_list_init(&o->uses);
    sk_rc rc = sk_map_put(&l->objs, id, o);
    SK_ASSERT(rc == SK_OK);
    return o;
}

static bool needed(const struct obj *o) { return o->alive || !sk_list_empty(&o->uses); }

/* Called after o went out of scope, or lost a use or its maker. */
static void obj_settle(struct sk_lineage *l, struct obj *o) {
    if (o->maker ? needed(o) : !sk_list_empty(&o->uses) || (o->alive && o->said)) return;
    SK_ASSERT(sk_list_empty(&o->uses)); /* otherwise an edge would point to freed memory */
    sk_list_del(&o->sib);
    sk_map_del(&l->objs, o->id);
    sk_pool_put(&l->pool, o);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void doom(struct sk_lineage *l, struct task *t, uint8_t why, uint64_t culprit) {
    if (t->doomed) return;
    t->doomed = true;
    t->why = why;
    t->culprit = culprit;
    t->next = l->doomed;
    l->doomed = t;
}

static void doom_users(struct sk_lineage *l, const struct obj *o, uint8_t why, uint64_t culprit) {
    SK_LIST_EACH (it, &o->uses) doom(l, sk_container_of(it, struct edge, link)->task, why, culprit);
}

static void doom_unneeded(struct sk_lineage *l, struct task *t) {
    /* no object is left for which the reason could be asked */
    if (t->n_needed == 0 && !t->open) doom(l, t, SK_LOST_EVICTED, 0);
}

/* Takes all doomed tasks out of the graph, and tasks that become hopeless or useless by that. */
static void drop(struct sk_lineage *l) {
    while (l->doomed) {
        struct task *t = l->doomed;
        l->doomed = t->next;
        sk_list_del(&t->age);
        sk_list_del(&t->todo);
        sk_map_del(&l->tasks, t->id);
        SK_ASSERT(t->doomed && l->bytes >= t->bytes);
        l->bytes -= t->bytes;
        SK_LIST_EACH_SAFE (it, tmp, &t->returns) {
            struct obj *o = sk_container_of(it, struct obj, sib);
            uint64_t culprit = t->culprit ? t->culprit : o->id;
            sk_list_del(&o->sib);
            o->maker = NULL;
            if (o->alive) {
                o->said = true;
                o->why = t->why;
                o->culprit = culprit;
            } else {
                doom_users(l, o, t->why, culprit); /* the last of the doomed tasks frees o */
            }
        }
        for (uint32_t i = 0; i < t->n_args; i++) {
            struct obj *o = t->arg[i].obj;
            sk_list_del(&t->arg[i].link);
            if (!needed(o) && o->maker) {
                SK_DCHECK(o->maker->n_needed > 0);
                o->maker->n_needed--;
                doom_unneeded(l, o->maker);
            }
            obj_settle(l, o);
        }
        t->next = NULL;
        if (l->free_tail) l->free_tail->next = t;
        else l->free_head = t;
        l->free_tail = t;
    }
}

bool sk_lineage_next_free(struct sk_lineage *l, uint64_t *id, void **data) {
    struct task *t = l->free_head;
    if (!t) return false;
    l->free_head = t->next;
    if (!l->free_head) l->free_tail = NULL;
    *id = t->id;
    *data = t->data;
    l->freed_why = t->why;
    l->freed_culprit = t->culprit;
    sk_free(t);
    return true;
}

enum sk_lost_why sk_lineage_freed_why(const struct sk_lineage *l, uint64_t *culprit) {
    *culprit = l->freed_culprit;
    return (enum sk_lost_why)l->freed_why;
}

static void evict(struct sk_lineage *l) {
    for (struct sk_list *it = l->aged.next; l->bytes > l->budget && it != &l->aged;) {
        struct task *t = sk_container_of(it, struct task, age);
        it = it->next;
        if (t->open || t->running) continue;
        l->n_evicted++;
        doom(l, t, SK_LOST_EVICTED, 0);
        drop(l);
        /* starts again: other tasks may be gone, too; few tasks are under way */
        it = l->aged.next;
    }
}

/* ---- coming ---------------------------------------------------------------------------------- */

static bool reserve(struct sk_lineage *l, uint32_t n_objs) {
    return sk_pool_reserve(&l->pool, n_objs) &&
           sk_map_reserve(&l->objs, l->objs.n + n_objs) == SK_OK;
}

static void returns(struct task *t, struct obj *o) {
    SK_DCHECK(o->alive && !o->maker); /* a value has one maker only */
    o->maker = t;
    o->said = false;
    sk_list_push_back(&t->returns, &o->sib);
    t->n_needed++;
}

static sk_rc add_check(struct sk_lineage *l, const struct sk_lineage_task *t, struct sk_err *err) {
    if (!t->id || sk_map_get(&l->tasks, t->id))
        return SK_ERR(err, SK_EINVAL, "keep task %llu: no such id, or kept already",
                      (unsigned long long)t->id);
    if (t->retries == 0)
        return SK_ERR(err, SK_EINVAL, "keep task %llu: it may not run again",
                      (unsigned long long)t->id);
    for (uint32_t i = 0; i < t->n_args; i++) {
        const struct obj *o = sk_map_get(&l->objs, t->args[i]);
        if (!t->args[i] || (o && !o->alive))
            return SK_ERR(err, SK_EINVAL, "keep task %llu: argument %llu is out of scope",
                          (unsigned long long)t->id, (unsigned long long)t->args[i]);
    }
    for (uint32_t i = 0; i < t->n_returns; i++) {
        const struct obj *o = sk_map_get(&l->objs, t->returns[i]);
        if (!t->returns[i] || (o && (o->maker || !o->alive)))
            return SK_ERR(err, SK_EINVAL,
                          "keep task %llu: its return %llu is another's, or out of scope",
                          (unsigned long long)t->id, (unsigned long long)t->returns[i]);
    }
    return SK_OK;
}

sk_rc sk_lineage_add(struct sk_lineage *l, const struct sk_lineage_task *spec, struct sk_err *err) {
    SK_TRY(add_check(l, spec, err));
    struct task *t = sk_alloc(SK_TAG_ENGINE, sizeof *t + spec->n_args * sizeof t->arg[0]);
    if (!t || !reserve(l, spec->n_args + spec->n_returns) ||
        sk_map_put(&l->tasks, spec->id, t) != SK_OK) {
        sk_free(t);
        return SK_ERR(err, SK_ENOMEM, "keep task %llu: no memory", (unsigned long long)spec->id);
    }
    *t = (struct task){.id = spec->id,
                       .data = spec->data,
                       .bytes = spec->bytes,
                       .retries = spec->retries,
                       .open = spec->open,
                       .n_args = spec->n_args};
    sk_list_init(&t->todo);
    sk_list_init(&t->returns);
    for (uint32_t i = 0; i < t->n_args; i++) {
        struct obj *o = sk_map_get(&l->objs, spec->args[i]);
        if (!o) o = obj_new(l, spec->args[i]);
        t->arg[i].obj = o;
        t->arg[i].task = t;
        sk_list_push_back(&o->uses, &t->arg[i].link);
    }
    for (uint32_t i = 0; i < spec->n_returns; i++) {
        struct obj *o = sk_map_get(&l->objs, spec->returns[i]);
        if (!o) o = obj_new(l, spec->returns[i]);
        if (o->maker != t) returns(t, o); /* the return may be named twice */
    }
    sk_list_push_back(&l->aged, &t->age);
    l->bytes += t->bytes;
    doom_unneeded(l, t);
    if (!t->doomed && t->bytes > l->budget && !t->open) {
        l->n_evicted++;
        /* otherwise this task would cause the eviction of all others first */
        doom(l, t, SK_LOST_EVICTED, 0);
    }
    drop(l);
    evict(l);
    return SK_OK;
}

sk_rc sk_lineage_return(struct sk_lineage *l, uint64_t id, uint64_t oid, uint64_t bytes,
                        struct sk_err *err) {
    struct task *t = sk_map_get(&l->tasks, id);
    struct obj *o = sk_map_get(&l->objs, oid);
    if (!oid || (o && (o->maker || !o->alive)))
        return SK_ERR(err, SK_EINVAL, "return %llu of task %llu is another's, or out of scope",
                      (unsigned long long)oid, (unsigned long long)id);
    if (!o) {
        if (!reserve(l, 1))
            return SK_ERR(err, SK_ENOMEM, "keep task %llu: no memory", (unsigned long long)id);
        o = obj_new(l, oid);
    }
    if (!t) { /* the task was dropped while it ran */
        o->said = true;
        o->why = SK_LOST_EVICTED;
        o->culprit = oid;
        return SK_OK;
    }
    returns(t, o);
    t->bytes += bytes;
    l->bytes += bytes;
    evict(l);
    return SK_OK;
}

void sk_lineage_done(struct sk_lineage *l, uint64_t id, int32_t retries) {
    struct task *t = sk_map_get(&l->tasks, id);
    if (!t) return;
    SK_DCHECK(t->open || t->running);
    t->open = t->running = false;
    t->retries = retries;
    sk_list_del(&t->todo);
    doom_unneeded(l, t);
    if (!retries) doom(l, t, SK_LOST_RETRIES, 0);
    if (!t->doomed && t->bytes > l->budget) {
        l->n_evicted++;
        doom(l, t, SK_LOST_EVICTED, 0);
    }
    drop(l);
    evict(l);
}

void sk_lineage_charge(struct sk_lineage *l, int64_t bytes) {
    SK_ASSERT(bytes >= 0 || l->charged >= (uint64_t)-bytes);
    l->charged += (uint64_t)bytes;
    l->bytes += (uint64_t)bytes;
    evict(l);
}

void sk_lineage_gone(struct sk_lineage *l, uint64_t oid, enum sk_lost_why why) {
    struct obj *o = sk_map_get(&l->objs, oid);
    if (!o || !o->alive) return;
    o->alive = false;
    if (o->maker) {
        if (needed(o)) return;
        SK_DCHECK(o->maker->n_needed > 0);
        o->maker->n_needed--;
        doom_unneeded(l, o->maker);
    } else {
        doom_users(l, o, o->said ? o->why : (uint8_t)why, o->said ? o->culprit : oid);
    }
    /* otherwise the last of the doomed tasks frees the object */
    if (sk_list_empty(&o->uses)) obj_settle(l, o);
    drop(l);
}

/* ---- losing ---------------------------------------------------------------------------------- */

static void plan(struct sk_lineage *l, struct task *t) {
    t->running = true;
    t->cursor = 0;
    t->next = NULL;
    while (t) {
        SK_DCHECK(t->running && t->cursor <= t->n_args);
        if (t->cursor == t->n_args) {
            sk_list_push_back(&l->todo, &t->todo);
            t = t->next;
            continue;
        }
        struct obj *o = t->arg[t->cursor++].obj;
        if (o->alive) continue;
        o->alive = true;
        o->next = NULL;
        if (l->back_tail) l->back_tail->next = o;
        else l->back_head = o;
        l->back_tail = o;
        struct task *m = o->maker;
        SK_ASSERT(m); /* by (*) of lineage.h a kept task makes the object */
        if (m->running || m->open) continue;
        m->running = true;
        m->cursor = 0;
        m->next = t;
        t = m;
    }
}

bool sk_lineage_lost(struct sk_lineage *l, uint64_t oid, enum sk_lost_why *why, uint64_t *culprit) {
    struct obj *o = sk_map_get(&l->objs, oid);
    /* the plan before this one has been drained */
    SK_ASSERT(!l->back_head && sk_list_empty(&l->todo));
    if (o && o->maker && o->alive) {
        if (!o->maker->running && !o->maker->open) plan(l, o->maker);
        return true;
    }
    *culprit = oid;
    if (!o || !o->alive) return false;
    if (o->said) {
        *why = (enum sk_lost_why)o->why;
        *culprit = o->culprit;
    }
    doom_users(l, o, (uint8_t)*why, *culprit);
    drop(l); /* this call may free o */
    return false;
}

bool sk_lineage_next_object(struct sk_lineage *l, uint64_t *oid) {
    struct obj *o = l->back_head;
    if (!o) return false;
    SK_DCHECK(o->alive && o->maker); /* the object is in scope again, because it will be made */
    l->back_head = o->next;
    if (!l->back_head) l->back_tail = NULL;
    *oid = o->id;
    return true;
}

bool sk_lineage_next_task(struct sk_lineage *l, uint64_t *id, void **data, int32_t *retries) {
    struct sk_list *it = sk_list_first(&l->todo);
    if (!it) return false;
    struct task *t = sk_container_of(it, struct task, todo);
    SK_DCHECK(t->running && t->retries != 0);
    sk_list_del(it);
    if (t->retries > 0) t->retries--;
    *id = t->id;
    *data = t->data;
    *retries = t->retries;
    return true;
}

/* ---- questions ------------------------------------------------------------------------------- */

void *sk_lineage_maker(const struct sk_lineage *l, uint64_t oid) {
    const struct obj *o = sk_map_get(&l->objs, oid);
    return o && o->maker ? o->maker->data : NULL;
}
bool sk_lineage_knows(const struct sk_lineage *l, uint64_t oid) {
    return sk_map_get(&l->objs, oid) != NULL;
}
uint64_t sk_lineage_bytes(const struct sk_lineage *l) { return l->bytes; }
uint64_t sk_lineage_n(const struct sk_lineage *l) { return l->tasks.n; }
uint64_t sk_lineage_n_evicted(const struct sk_lineage *l) { return l->n_evicted; }

void sk_lineage_shrink(struct sk_lineage *l) {
    sk_map_shrink(&l->objs);
    sk_map_shrink(&l->tasks);
    sk_pool_trim(&l->pool);
}

bool sk_lineage_each(const struct sk_lineage *l, uint32_t *cursor, uint64_t *id, void **data) {
    void *val;
    if (!sk_map_next(&l->tasks, cursor, id, &val)) return false;
    *data = ((const struct task *)val)->data;
    return true;
}

bool sk_lineage_check(const struct sk_lineage *l) {
    uint64_t bytes = l->charged, n_edges = 0, n_uses = 0;
    bool ok = !l->doomed, movable = false;
    void *val;
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, NULL, &val);) {
        const struct task *t = val;
        uint32_t n = 0;
        bytes += t->bytes;
        n_edges += t->n_args;
        movable |= !t->open && !t->running;
        SK_LIST_EACH (it, &t->returns) {
            const struct obj *o = sk_container_of(it, struct obj, sib);
            ok = ok && o->maker == t && needed(o);
            n++;
        }
        ok = ok && n == t->n_needed && (n || t->open) && !t->doomed && !sk_list_empty(&t->age);
        ok = ok && (t->retries || t->running) && (sk_list_empty(&t->todo) || t->running);
        /* checks (*) of lineage.h */
        for (uint32_t k = 0; k < t->n_args; k++)
            ok = ok && (t->arg[k].obj->alive || t->arg[k].obj->maker);
    }
    for (uint32_t i = 0; sk_map_next(&l->objs, &i, NULL, &val);) {
        const struct obj *o = val;
        SK_LIST_EACH (it, &o->uses) {
            ok = ok && sk_container_of(it, struct edge, link)->obj == o;
            n_uses++;
        }
        ok = ok && (o->maker ? needed(o) : !sk_list_empty(&o->uses) || (o->alive && o->said));
        ok = ok && !(o->maker && o->said);
    }
    return ok && bytes == l->bytes && n_edges == n_uses && (bytes <= l->budget || !movable) &&
           l->pool.n_used == l->objs.n;
}
