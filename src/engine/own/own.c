/* own.c - exact reference counts by process, and the objects that become garbage when a count falls
 * to zero (contract: own.h).
 *
 * Not here: values and their places (the engine frees them from the queue), tasks, lineage. Pure
 * book-keeping on the heap.
 *
 * Invariant: an object is in `objs` exactly while driver + borrowed + holds + outers > 0; borrowed
 * is the sum of its entries in the maps of all processes; outers counts its mentions in the `inner`
 * lists of objects that are in `objs`. sk_own_check recounts all of it.
 *
 * An object whose count falls to zero moves to the tail of the queue at once. The same loop then
 * walks the queue from there and takes down the counts of inner objects, so depth costs no stack.
 * inner[] holds pointers, not ids: an object that an alive object contains cannot be freed.
 *
 * Cost: one map access a call for the driver, two for a worker's reference; 56 bytes an object, 8
 * for each reference inside it. */
#include "engine/own/own.h"

#include "base/containers/map.h"
#include "base/mem.h"
#include "base/pool.h"

struct obj {
    uint64_t id;
    void *data;
    struct obj *next; /* link in the queue of freed objects */
    struct inner *inner;
    uint64_t driver;   /* references of the driver (proc 0) */
    uint64_t borrowed; /* references of all other processes */
    uint32_t holds, outers;
};

struct inner {
    uint32_t n;
    struct obj *p[];
};

struct proc {
    uint32_t proc;
    struct sk_map held; /* id -> count (never 0), stored as a pointer */
};

struct sk_own {
    struct sk_map objs;  /* id -> struct obj */
    struct sk_map procs; /* proc -> struct proc; without the driver */
    struct sk_pool pool;
    struct obj *head, *tail; /* freed objects that were not drained yet */
    uint64_t n_queued;
};

sk_rc sk_own_create(struct sk_own **out, struct sk_err *err) {
    struct sk_own *o = sk_calloc(SK_TAG_ENGINE, sizeof *o);
    if (!o) return SK_ERR(err, SK_ENOMEM, "create the table of objects: no memory");
    sk_map_init(&o->objs, SK_TAG_ENGINE);
    sk_map_init(&o->procs, SK_TAG_ENGINE);
    sk_pool_init(&o->pool, SK_TAG_ENGINE, sizeof(struct obj));
    *out = o;
    return SK_OK;
}

static void free_proc(struct proc *p) {
    sk_map_deinit(&p->held);
    sk_free(p);
}

void sk_own_destroy(struct sk_own *o) {
    if (!o) return;
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&o->procs, &i, &key, &val);) free_proc(val);
    for (uint32_t i = 0; sk_map_next(&o->objs, &i, &key, &val);)
        sk_free(((struct obj *)val)->inner);
    sk_map_deinit(&o->procs);
    sk_map_deinit(&o->objs);
    sk_pool_deinit(&o->pool);
    sk_free(o);
}

static uint64_t total(const struct obj *x) {
    return x->driver + x->borrowed + x->holds + x->outers;
}

static struct obj *find(const struct sk_own *o, uint64_t id) {
    return id ? sk_map_get(&o->objs, id) : NULL;
}

static sk_rc absent(uint64_t id, const char *what, struct sk_err *err) {
    return SK_ERR(err, SK_ENOENT,
                  "%s object %llu: no such object (never made, or nothing held it any more)", what,
                  (unsigned long long)id);
}

static sk_rc no_memory(uint64_t id, const char *what, struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "%s object %llu: no memory for the reference counts", what,
                  (unsigned long long)id);
}

/* ---- death ----------------------------------------------------------------------------------- */

static void enqueue(struct sk_own *o, struct obj *x) {
    SK_DCHECK(total(x) == 0 && !o->head == !o->tail);
    x->next = NULL;
    if (o->tail) o->tail->next = x;
    else o->head = x;
    o->tail = x;
    o->n_queued++;
}

/* Called after a count of x was taken down. */
static void settle(struct sk_own *o, struct obj *x) {
    if (SK_LIKELY(total(x) != 0)) return;
    enqueue(o, x);
    for (; x; x = x->next) {
        void *there = sk_map_del(&o->objs, x->id);
        SK_DCHECK(there == x); /* an object in the queue is in no map, so this happens once */
        (void)there;
        if (SK_LIKELY(!x->inner)) continue;
        for (uint32_t i = 0; i < x->inner->n; i++) {
            struct obj *in = x->inner->p[i];
            SK_DCHECK(in->outers > 0);
            in->outers--;
            if (total(in) == 0) enqueue(o, in);
        }
        sk_free(x->inner);
        x->inner = NULL;
    }
}

bool sk_own_next_freed(struct sk_own *o, uint64_t *id, void **data) {
    struct obj *x = o->head;
    if (!x) return false;
    SK_DCHECK(o->n_queued > 0 && total(x) == 0 && !x->inner);
    o->head = x->next;
    if (!o->head) o->tail = NULL;
    o->n_queued--;
    *id = x->id;
    *data = x->data;
    sk_pool_put(&o->pool, x);
    return true;
}

/* ---- borrows --------------------------------------------------------------------------------- */

/* returns the entry of a process, made when it is needed; NULL: no memory */
static struct proc *proc_get(struct sk_own *o, uint32_t proc) {
    struct proc *p = sk_map_get(&o->procs, proc);
    if (SK_LIKELY(p)) return p;
    p = sk_calloc(SK_TAG_ENGINE, sizeof *p);
    if (!p) return NULL;
    p->proc = proc;
    sk_map_init(&p->held, SK_TAG_ENGINE);
    if (sk_map_put(&o->procs, proc, p) != SK_OK) {
        free_proc(p);
        return NULL;
    }
    return p;
}

static uint64_t held_by(const struct sk_own *o, const struct obj *x, uint32_t proc) {
    if (proc == 0) return x->driver;
    const struct proc *p = sk_map_get(&o->procs, proc);
    return p ? (uint64_t)(uintptr_t)sk_map_get(&p->held, x->id) : 0;
}

static sk_rc take(struct sk_own *o, struct obj *x, uint32_t proc, uint32_t n) {
    if (proc == 0) {
        x->driver += n;
        return SK_OK;
    }
    if (n == 0) return SK_OK;
    struct proc *p = proc_get(o, proc);
    if (!p) return SK_ENOMEM;
    uint64_t had = (uint64_t)(uintptr_t)sk_map_get(&p->held, x->id);
    SK_TRY(sk_map_put(&p->held, x->id, (void *)(uintptr_t)(had + n)));
    SK_DCHECK(had + n > had);
    x->borrowed += n;
    return SK_OK;
}

/* ---- objects --------------------------------------------------------------------------------- */

sk_rc sk_own_add_once(struct sk_own *o, uint64_t id, uint32_t proc, void *data, bool *added,
                      struct sk_err *err) {
    if (id == 0) return SK_ERR(err, SK_EINVAL, "add object: id 0 means no object");
    if (sk_map_get(&o->objs, id)) {
        *added = false;
        return SK_OK;
    }
    struct obj *x = sk_pool_get(&o->pool);
    if (!x) return no_memory(id, "add", err);
    *x = (struct obj){.id = id, .data = data};
    if (sk_map_put(&o->objs, id, x) != SK_OK) {
        sk_pool_put(&o->pool, x);
        return no_memory(id, "add", err);
    }
    if (take(o, x, proc, 1) != SK_OK) {
        sk_map_del(&o->objs, id);
        sk_pool_put(&o->pool, x);
        return no_memory(id, "add", err);
    }
    *added = true;
    return SK_OK;
}

sk_rc sk_own_add(struct sk_own *o, uint64_t id, uint32_t proc, void *data, struct sk_err *err) {
    bool added = false;
    SK_TRY(sk_own_add_once(o, id, proc, data, &added, err));
    return added ? SK_OK
                 : SK_ERR(err, SK_EINVAL, "add object %llu: it exists", (unsigned long long)id);
}

sk_rc sk_own_ref(struct sk_own *o, uint64_t id, uint32_t proc, uint32_t n, struct sk_err *err) {
    struct obj *x = find(o, id);
    if (!x) return absent(id, "take a reference to", err);
    return take(o, x, proc, n) == SK_OK ? SK_OK : no_memory(id, "take a reference to", err);
}

static sk_rc too_many(uint64_t id, uint32_t proc, uint32_t n, uint64_t had, struct sk_err *err) {
    return SK_ERR(err, SK_EINVAL, "process %u gives back %u references to object %llu but has %llu",
                  proc, n, (unsigned long long)id, (unsigned long long)had);
}

sk_rc sk_own_unref(struct sk_own *o, uint64_t id, uint32_t proc, uint32_t n, struct sk_err *err) {
    struct obj *x = find(o, id);
    if (!x) return absent(id, "give back a reference to", err);
    if (proc == 0) {
        if (n > x->driver) return too_many(id, proc, n, x->driver, err);
        x->driver -= n;
    } else {
        struct proc *p = sk_map_get(&o->procs, proc);
        uint64_t had = p ? (uint64_t)(uintptr_t)sk_map_get(&p->held, id) : 0;
        if (n > had) return too_many(id, proc, n, had, err);
        if (n == 0) return SK_OK;
        if (n == had) {
            sk_map_del(&p->held, id);
        } else {
            sk_rc rc = sk_map_put(&p->held, id, (void *)(uintptr_t)(had - n));
            SK_ASSERT(rc == SK_OK); /* the key exists, so no memory is needed */
        }
        SK_DCHECK(x->borrowed >= n);
        x->borrowed -= n;
    }
    settle(o, x);
    return SK_OK;
}

sk_rc sk_own_hold(struct sk_own *o, uint64_t id, struct sk_err *err) {
    struct obj *x = find(o, id);
    if (!x) return absent(id, "hold", err);
    SK_ASSERT(x->holds < UINT32_MAX);
    x->holds++;
    return SK_OK;
}

void sk_own_unhold(struct sk_own *o, uint64_t id) {
    struct obj *x = find(o, id);
    SK_ASSERT(x && x->holds > 0);
    x->holds--;
    settle(o, x);
}

sk_rc sk_own_contains(struct sk_own *o, uint64_t outer, const uint64_t *inner, uint32_t n,
                      struct sk_err *err) {
    struct obj *x = find(o, outer);
    if (!x) return absent(outer, "note what is inside", err);
    if (x->inner)
        return SK_ERR(err, SK_EINVAL, "object %llu: what it contains was said before",
                      (unsigned long long)outer);
    if (n == 0) return SK_OK;
    struct inner *in = sk_alloc(SK_TAG_ENGINE, sizeof *in + n * sizeof in->p[0]);
    if (!in) return no_memory(outer, "note what is inside", err);
    in->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct obj *y = find(o, inner[i]);
        if (!y) {
            sk_free(in);
            return absent(inner[i], "contain", err);
        }
        /* a reference to the object itself does not count: it would keep the object for ever */
        if (y != x) in->p[in->n++] = y;
    }
    for (uint32_t i = 0; i < in->n; i++) {
        SK_ASSERT(in->p[i]->outers < UINT32_MAX);
        in->p[i]->outers++;
    }
    x->inner = in;
    return SK_OK;
}

void sk_own_uncontain(struct sk_own *o, uint64_t outer) {
    struct obj *x = find(o, outer);
    struct inner *in = x ? x->inner : NULL;
    if (!in) return;
    x->inner = NULL;
    for (uint32_t i = 0; i < in->n; i++) {
        SK_ASSERT(in->p[i]->outers > 0);
        in->p[i]->outers--;
        settle(o, in->p[i]);
    }
    sk_free(in);
}

void sk_own_pass_inner(struct sk_own *o, uint64_t from, uint64_t to) {
    struct obj *x = find(o, from), *y = find(o, to);
    SK_ASSERT(x && y && x != y && !y->inner);
    y->inner = x->inner;
    x->inner = NULL;
}

uint32_t sk_own_n_inner(const struct sk_own *o, uint64_t outer) {
    const struct obj *x = find(o, outer);
    return x && x->inner ? x->inner->n : 0;
}

void sk_own_proc_dead(struct sk_own *o, uint32_t proc) {
    uint64_t id;
    void *count;
    SK_ASSERT(proc != 0); /* the driver itself cannot be dead */
    struct proc *p = sk_map_del(&o->procs, proc);
    if (!p) return;
    for (uint32_t i = 0; sk_map_next(&p->held, &i, &id, &count);) {
        struct obj *x = sk_map_get(&o->objs, id);
        SK_ASSERT(x && x->borrowed >= (uint64_t)(uintptr_t)count);
        x->borrowed -= (uint64_t)(uintptr_t)count;
        settle(o, x);
    }
    free_proc(p);
}

/* ---- questions ------------------------------------------------------------------------------- */

bool sk_own_has(const struct sk_own *o, uint64_t id) { return find(o, id) != NULL; }

void *sk_own_get(const struct sk_own *o, uint64_t id) {
    const struct obj *x = find(o, id);
    return x ? x->data : NULL;
}

uint64_t sk_own_count(const struct sk_own *o, uint64_t id) {
    const struct obj *x = find(o, id);
    return x ? total(x) : 0;
}

uint64_t sk_own_borrowed(const struct sk_own *o, uint64_t id, uint32_t proc) {
    const struct obj *x = find(o, id);
    return x ? held_by(o, x, proc) : 0;
}

uint64_t sk_own_n(const struct sk_own *o) { return o->objs.n; }

bool sk_own_each(const struct sk_own *o, uint32_t *cursor, uint64_t *id, void **data) {
    void *val;
    if (!sk_map_next(&o->objs, cursor, id, &val)) return false;
    *data = ((const struct obj *)val)->data;
    return true;
}

bool sk_own_roomy(const struct sk_own *o) {
    return sk_map_roomy(&o->objs) || sk_pool_roomy(&o->pool);
}

bool sk_own_large(const struct sk_own *o) { return o->objs.mask >= SK_MAP_LARGE; }

void sk_own_shrink(struct sk_own *o) {
    sk_map_shrink(&o->objs);
    sk_pool_trim(&o->pool);
}

/* Takes (sign -1) or gives back (+1) every reference and mention that the maps and inner lists
 * show. False: a reference or mention points to no object. */
static bool recount(struct sk_own *o, int sign) {
    uint64_t key, id;
    void *val, *count;
    bool ok = true;
    for (uint32_t i = 0; sk_map_next(&o->procs, &i, &key, &val);) {
        const struct proc *p = val;
        ok = ok && key == p->proc;
        for (uint32_t j = 0; sk_map_next(&p->held, &j, &id, &count);) {
            struct obj *x = find(o, id);
            ok = ok && x && count;
            if (x) x->borrowed += (uint64_t)sign * (uint64_t)(uintptr_t)count;
        }
    }
    for (uint32_t i = 0; sk_map_next(&o->objs, &i, &key, &val);) {
        const struct obj *x = val;
        for (uint32_t j = 0; x->inner && j < x->inner->n; j++) {
            x->inner->p[j]->outers += (uint32_t)sign;
            ok = ok && find(o, x->inner->p[j]->id) == x->inner->p[j];
        }
    }
    return ok;
}

bool sk_own_check(struct sk_own *o) {
    uint64_t id, n = 0;
    void *val;
    bool ok = true;
    for (uint32_t i = 0; sk_map_next(&o->objs, &i, &id, &val);) {
        const struct obj *x = val;
        ok = ok && x->id == id && total(x) > 0;
    }
    ok = recount(o, -1) && ok;
    for (uint32_t i = 0; sk_map_next(&o->objs, &i, &id, &val);) {
        const struct obj *x = val;
        ok = ok && x->borrowed == 0 && x->outers == 0;
    }
    ok = recount(o, 1) && ok;
    for (const struct obj *x = o->head; x; x = x->next, n++)
        ok = ok && total(x) == 0 && !x->inner && (x->next || o->tail == x);
    return ok && n == o->n_queued && o->pool.n_used == o->objs.n + n;
}
