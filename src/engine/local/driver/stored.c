/* stored.c - the entry of each object whose bytes are in the store or on disk, and its place in the lists of space.c. Runs with the lock held.
 *
 * Not here: which of them goes and which comes back (space.c). Invariant: an object has its entry exactly while it is READY and its bytes may move between
 * store and disk; the counts of what is on disk are those of the entries. Cost: one allocation an object, a move in a list for each use. */
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

void sk_stored_new(struct sk_local *l, struct sk_obj *o) {
    if (!l->space.spill || o->st) return;
    struct sk_stored *st = sk_calloc(SK_TAG_ENGINE, sizeof *st);
    if (!st) return; /* it stays in the store, that is all */
    SK_DCHECK(o->where == SK_V_STORE);
    st->o = o;
    sk_list_init(&st->sibling);
    sk_list_init(&st->link);
    sk_list_push_back(&l->space.lru, &st->link);
    o->st = st;
}

void sk_stored_follow(struct sk_local *l, struct sk_obj *o, const struct sk_sink *s) {
    if (SK_LIKELY(sk_list_empty(&l->moves.followers)) || !o->st) return;
    SK_DCHECK(o->where == SK_V_STORE && !o->st->follower);
    o->st->follower = sk_moves_number(l, s);
}

void sk_stored_gone(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    l->space.n_eased++;
    if (!st) return;
    SK_DCHECK(st->o == o);
    SK_ASSERT(o->state != SK_O_READY || o->where != SK_V_DISK || (l->space.n_disk > 0 && l->space.disk_object_bytes >= o->len));
    if (st->io) st->io->user = NULL; /* whoever ends the job cleans up */
    if (o->state == SK_O_READY && o->where == SK_V_DISK) l->space.n_disk--, l->space.disk_object_bytes -= o->len;
    sk_list_del(&st->link);
    sk_list_del(&st->sibling);
    uint64_t len = st->part ? sk_part_of(st)->len : o->len;
    if (l->space.spill) sk_spill_drop(l->space.spill, &st->at, len); /* not: the end of the engine */
    sk_free(st);
    o->st = NULL;
}

void sk_stored_used(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    SK_DCHECK(st->o == o && o->state == SK_O_READY);
    if (o->where != SK_V_STORE || st->io) return;
    sk_list_del(&st->link);
    sk_list_push_back(&l->space.lru, &st->link);
}

void sk_stored_on_disk(struct sk_local *l, uint64_t len) {
    l->space.n_disk++;
    l->space.disk_object_bytes += len;
}

void sk_stored_to_disk(struct sk_local *l, struct sk_stored *st) {
    struct sk_obj *o = st->o;
    SK_ASSERT(o->where == SK_V_STORE && st->at.stretch && !st->io); /* its bytes are on disk, or they are gone */
    sk_store_unref(l->store, o->u.off);
    sk_list_del(&st->link);
    o->where = SK_V_DISK;
    l->space.n_out++;
    sk_stored_on_disk(l, o->len);
    if (st->follower) sk_moves_note(l, st, true);
}

void sk_stored_want(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    SK_DCHECK(st->o == o && (o->where != SK_V_DISK || st->at.stretch));
    if (o->where != SK_V_DISK || st->io || (!sk_list_empty(&st->link) && !st->ahead)) return;
    st->ahead = false;
    sk_list_del(&st->link);
    sk_list_push_back(&l->space.restores, &st->link);
}

void sk_stored_back(struct sk_local *l, struct sk_stored *st, sk_off off) {
    struct sk_obj *o = st->o;
    SK_ASSERT(o->where == SK_V_DISK && l->space.n_disk > 0 && l->space.disk_object_bytes >= o->len);
    SK_DCHECK(sk_list_empty(&st->link) && !st->io);
    o->u.off = off;
    o->where = SK_V_STORE;
    l->space.n_disk--;
    l->space.disk_object_bytes -= o->len;
    sk_list_push_back(&l->space.lru, &st->link);
    if (st->follower) sk_moves_note(l, st, false);
}
