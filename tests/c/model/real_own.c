/* real_own.c - own.c with functions that save and load its state (contract: real.h).
 *
 * Invariant: save(load(f)) = f, and sk_own_check holds after load if it held before the save. The
 * order in which a map yields its entries
 * is not part of the state: it decides only in which order the objects of one call are freed. */
#include "engine/own/own.c" /* NOLINT: its structs are needed */
#include "real.h"

#include "test.h"

void real_own_load(struct sk_own *o, const struct flat_own *f) {
    uint64_t key;
    void *val;
    struct obj *at[MO];
    CHECK(!o->head);
    for (uint32_t i = 0; sk_map_next(&o->objs, &i, &key, &val);) {
        sk_free(((struct obj *)val)->inner);
        sk_pool_put(&o->pool, val);
    }
    sk_map_clear(&o->objs);
    for (uint32_t i = 0; sk_map_next(&o->procs, &i, &key, &val);)
        sk_map_clear(&((struct proc *)val)->held);
    for (uint32_t k = 0; k < MO; k++) {
        if (!f->alive[k]) continue;
        struct obj *x = at[k] = sk_pool_get(&o->pool);
        CHECK(x);
        *x = (struct obj){.id = k + 1, .driver = f->refs[0][k], .holds = f->holds[k]};
        CHECK_OK(sk_map_put(&o->objs, k + 1, x));
        for (uint32_t p = 1; p < MP; p++)
            if (f->refs[p][k]) CHECK_OK(take(o, x, p, f->refs[p][k]));
    }
    for (uint32_t k = 0; k < MO; k++) {
        if (!f->said[k]) continue;
        struct inner *in = sk_alloc(SK_TAG_ENGINE, sizeof *in + MI * sizeof in->p[0]);
        CHECK(in);
        in->n = 0;
        for (uint32_t i = 0; i < MI && f->inner[k][i]; i++) {
            in->p[in->n] = at[f->inner[k][i] - 1];
            in->p[in->n++]->outers++;
        }
        at[k]->inner = in;
    }
}

void real_own_save(const struct sk_own *o, struct flat_own *f) {
    uint64_t key, id;
    void *val, *count;
    CHECK(!o->head);
    memset(f, 0, sizeof *f);
    for (uint32_t i = 0; sk_map_next(&o->objs, &i, &id, &val);) {
        const struct obj *x = val;
        CHECK(id <= MO && x->driver < 256 && x->holds < 256 && (!x->inner || x->inner->n <= MI));
        f->alive[id - 1] = 1;
        f->holds[id - 1] = (uint8_t)x->holds;
        f->refs[0][id - 1] = (uint8_t)x->driver;
        f->said[id - 1] = x->inner != NULL;
        for (uint32_t k = 0; x->inner && k < x->inner->n; k++)
            f->inner[id - 1][k] = (uint8_t)x->inner->p[k]->id;
    }
    for (uint32_t i = 0; sk_map_next(&o->procs, &i, &key, &val);) {
        const struct proc *p = val;
        CHECK(key < MP);
        for (uint32_t k = 0; sk_map_next(&p->held, &k, &id, &count);)
            f->refs[key][id - 1] = (uint8_t)(uintptr_t)count;
    }
}
