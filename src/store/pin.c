/* pin.c - pins of extents by process, and the lists by which everything that a process holds of the
 * store is released when the process dies.
 *
 * Not here: references of objects (the engine's own.c counts those by process and calls ref and
 * unref). Invariant: an extent's pins is the sum of its struct sk_pin counts; each sk_pin is in the
 * map and in its process's list. Cost: pin and unpin take one map access, about 30 ns (60 when an
 * entry is created or removed); a death costs time linear in what the process held. */
#include "store/store_int.h"

struct sk_store_proc *sk_store_proc_find(struct sk_store *st, uint32_t proc) {
    if (st->last_proc && st->last_proc->proc == proc) return st->last_proc;
    struct sk_store_proc *p = sk_map_get(&st->procs, (uint64_t)proc + 1);
    if (p) st->last_proc = p;
    return p;
}

struct sk_store_proc *sk_store_proc_get(struct sk_store *st, uint32_t proc) {
    SK_ASSERT(proc < SK_STORE_PROC_MAX);
    struct sk_store_proc *p = sk_store_proc_find(st, proc);
    if (p) return p;
    p = sk_calloc(SK_TAG_STORE, sizeof *p);
    if (!p) return NULL;
    p->proc = proc;
    if (sk_map_put(&st->procs, (uint64_t)proc + 1, p) != SK_OK) {
        sk_free(p);
        return NULL;
    }
    st->last_proc = p;
    return p;
}

static uint64_t pin_key(uint32_t proc, sk_off off) {
    /* with a larger number, two pins could have the same key */
    SK_DCHECK(proc < SK_STORE_PROC_MAX && off % SK_STORE_ALIGN == 0);
    return (off / SK_STORE_ALIGN * SK_STORE_PROC_MAX | proc) + 1;
}

sk_rc sk_store_pin(struct sk_store *st, uint32_t proc, sk_off off) {
    st = sk_store_book(st, &off);
    struct sk_ext *x = sk_store_sealed(st, off);
    SK_ASSERT(x->pins < UINT32_MAX);
    uint64_t key = pin_key(proc, off);
    struct sk_pin *pin = sk_map_get(&st->pins, key);
    if (!pin) {
        struct sk_store_proc *p = sk_store_proc_get(st, proc);
        if (!p || !(pin = sk_pool_get(&st->pin_pool))) return SK_ENOMEM;
        if (sk_map_put(&st->pins, key, pin) != SK_OK) {
            sk_pool_put(&st->pin_pool, pin);
            return SK_ENOMEM;
        }
        *pin = (struct sk_pin){.ext = x, .next = p->pins};
        if (p->pins) p->pins->prev = pin;
        p->pins = pin;
    }
    SK_DCHECK(pin->ext == x);
    pin->count++;
    x->pins++;
    st->n_pins++;
    return SK_OK;
}

static void forget_pin(struct sk_store *st, struct sk_store_proc *p, struct sk_pin *pin) {
    void *there = sk_map_del(&st->pins, pin_key(p->proc, pin->ext->off));
    SK_ASSERT(there == pin && (pin->prev ? pin->prev->next : p->pins) == pin);
    if (pin->prev) pin->prev->next = pin->next;
    else p->pins = pin->next;
    if (pin->next) pin->next->prev = pin->prev;
    sk_pool_put(&st->pin_pool, pin);
}

bool sk_store_unpin(struct sk_store *st, uint32_t proc, sk_off off) {
    st = sk_store_book(st, &off);
    struct sk_pin *pin = proc < SK_STORE_PROC_MAX && off < st->size && off % SK_STORE_ALIGN == 0
                             ? sk_map_get(&st->pins, pin_key(proc, off))
                             : NULL;
    if (!pin) return false;
    struct sk_ext *x = pin->ext;
    SK_ASSERT(x->state == SK_EXT_SEALED && pin->count && x->pins && st->n_pins);
    if (--pin->count == 0) forget_pin(st, sk_store_proc_find(st, proc), pin);
    x->pins--;
    st->n_pins--;
    if (x->refs == 0 && x->pins == 0) sk_store_drop_sealed(st, x);
    return true;
}

uint32_t sk_store_pins(const struct sk_store *st, sk_off off) {
    st = sk_store_book(st, &off);
    return sk_store_sealed(st, off)->pins;
}

void sk_store_proc_dead(struct sk_store *st, uint32_t proc) {
    if (st->overflow) sk_store_proc_dead(st->overflow, proc);
    struct sk_store_proc *p = sk_store_proc_find(st, proc);
    if (!p) return;
    while (p->pins) {
        struct sk_pin *pin = p->pins;
        struct sk_ext *x = pin->ext;
        SK_ASSERT(x->state == SK_EXT_SEALED && pin->count <= x->pins && pin->count <= st->n_pins);
        x->pins -= (uint32_t)pin->count;
        st->n_pins -= pin->count;
        forget_pin(st, p, pin);
        if (x->refs == 0 && x->pins == 0) sk_store_drop_sealed(st, x);
    }
    while (p->leases) sk_store_drop_lease(st, p, p->leases);
    sk_map_del(&st->procs, (uint64_t)proc + 1);
    st->last_proc = NULL;
    sk_free(p);
}
