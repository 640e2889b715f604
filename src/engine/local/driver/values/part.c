/* part.c - arguments that are a part of an object's value. Runs with the lock held.
 *
 * If the value is in memory, the task gets a view of the part, and the whole value is held,
 * pinned and spilled as usual. If the value is on disk, the part gets an object of its own when
 * the task is about to be sent. That object is on disk from the beginning, at the part's place
 * in the value's copy, and is read back, waits for room and is evicted as any other object. So all
 * that space.c has to know of parts is the number of bytes to ask for. The object belongs to one
 * task and goes with the task's arguments. Invariant: a part shares the place on disk, so it does
 * not matter what becomes of the value meanwhile. Cost: two allocations a part, and only if the
 * value is on disk. */
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/local_int.h"

uint64_t sk_part_find(const struct sk_ltask *t, uint32_t arg) {
    for (uint32_t i = 0; t->extra && i < t->extra->parts.n; i++)
        if (t->extra->parts.p[i].arg == arg) return t->extra->parts.p[i].oid;
    return 0;
}

sk_rc sk_part_make(struct sk_local *l, struct sk_ltask *t, uint32_t arg, const struct sk_obj *o,
                   const struct sk_val *v) {
    SK_ASSERT(o->state == SK_O_READY && o->where == SK_V_DISK && o->st->at.stretch && !o->st->part);
    SK_ASSERT(v->len && v->off <= o->len && v->len <= o->len - v->off);
    uint64_t id = sk_new_ids(l, 1);
    struct sk_obj *part = NULL;
    struct sk_stored_part *s = sk_calloc(SK_TAG_ENGINE, sizeof *s);
    if (!t->extra) t->extra = sk_calloc(SK_TAG_ENGINE, sizeof *t->extra);
    if (!s || !t->extra ||
        !sk_vec_reserve(&t->extra->parts, SK_TAG_ENGINE, t->extra->parts.n + 1) ||
        sk_obj_new(l, id, SK_PROC_DRIVER, &part, NULL) != SK_OK) {
        sk_free(s);
        return SK_ENOMEM;
    }
    *s = (struct sk_stored_part){
        .st = {.o = part, .at = o->st->at, .state = SK_STORED_DISK, .part = true},
        .whole = o->id,
        .len = o->len,
        .at = v->off};
    sk_list_init(&s->st.link);
    sk_list_init(&s->st.sibling);
    sk_spill_share(&s->st.at, o->len);
    sk_obj_set_on_disk(part, o->kind, v->len, &s->st);
    sk_stored_on_disk(l, part->len);
    t->extra->parts.p[t->extra->parts.n++] = (struct sk_part){.arg = arg, .oid = id};
    return SK_OK;
}

void sk_parts_drop(struct sk_local *l, struct sk_ltask *t) {
    if (SK_LIKELY(!t->extra)) return;
    for (uint32_t i = 0; i < t->extra->parts.n; i++)
        SK_IGNORE(sk_own_unref(l->own, t->extra->parts.p[i].oid, SK_PROC_DRIVER, 1, NULL));
    t->extra->parts.n = 0;
}
