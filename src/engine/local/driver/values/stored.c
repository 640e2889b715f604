/* stored.c - the entry of each object whose bytes are in the store or on disk, with its state on
 * the way to disk and back. Runs with the lock held.
 *
 * Not here: choosing the values to evict and to read back (space.c). Invariant: an object has an
 * entry exactly while it is READY and its bytes may move between store and disk; the counts of
 * values on disk match the entries. Cost: one allocation an object, a move in a list for each
 * use. */
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

#define TO(state) (1u << SK_STORED_##state)
static const uint8_t FOLLOWS[SK_STORED_STATES] = {
    [SK_STORED_LRU] = TO(WRITING) | TO(DISK),
    [SK_STORED_WRITING] = TO(LRU) | TO(DISK),
    [SK_STORED_DISK] = TO(AHEAD) | TO(WANTED) | TO(READING) | TO(LRU),
    [SK_STORED_AHEAD] = TO(DISK) | TO(WANTED) | TO(READING),
    [SK_STORED_WANTED] = TO(READING) | TO(DISK),
    [SK_STORED_READING] = TO(DISK),
};
_Static_assert(SK_STORED_STATES <= 8, "a bit for each");

/* Moves st to `state`, behind the other entries in that state. */
static void to(struct sk_local *l, struct sk_stored *st, enum sk_stored_state state) {
    SK_ASSERT(FOLLOWS[st->state] >> state & 1);
    st->state = (uint8_t)state;
    sk_list_del(&st->link);
    if (state != SK_STORED_DISK) sk_list_push_back(&l->stored.in[state], &st->link);
}

void sk_stored_init(struct sk_local *l) {
    for (uint32_t i = 0; i < SK_STORED_STATES; i++) sk_list_init(&l->stored.in[i]);
}

void sk_stored_new(struct sk_local *l, struct sk_obj *o) {
    if (!l->space.spill || o->st) return;
    struct sk_stored *st = sk_calloc(SK_TAG_ENGINE, sizeof *st);
    if (!st) return; /* without an entry the value just stays in the store */
    SK_DCHECK(o->where == SK_V_STORE);
    st->o = o;
    sk_list_init(&st->sibling);
    sk_list_init(&st->link);
    sk_list_push_back(&l->stored.in[SK_STORED_LRU], &st->link);
    o->st = st;
}

void sk_stored_follow(struct sk_local *l, struct sk_obj *o, const struct sk_sink *s) {
    if (SK_LIKELY(sk_list_empty(&l->moves.followers)) || !o->st) return;
    SK_DCHECK(o->where == SK_V_STORE && !o->st->follower);
    o->st->follower = sk_moves_number(l, s);
}

void sk_stored_gone(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    sk_space_released(l);
    if (!st) return;
    SK_DCHECK(st->o == o);
    SK_ASSERT(o->state != SK_O_READY || o->where != SK_V_DISK ||
              (l->stored.n_disk > 0 && l->stored.disk_object_bytes >= o->len));
    if (st->io) st->io->user = NULL; /* the code that ends the job cleans up */
    if (o->state == SK_O_READY && o->where == SK_V_DISK)
        l->stored.n_disk--, l->stored.disk_object_bytes -= o->len;
    sk_list_del(&st->link);
    sk_list_del(&st->sibling);
    uint64_t len = st->part ? sk_part_of(st)->len : o->len;
    /* space.spill is NULL while the engine closes */
    if (l->space.spill) sk_spill_drop(l->space.spill, &st->at, len);
    sk_free(st);
    o->st = NULL;
}

void sk_stored_used(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    SK_DCHECK(st->o == o && o->state == SK_O_READY);
    if (st->state != SK_STORED_LRU) return;
    sk_list_del(&st->link);
    sk_list_push_back(&l->stored.in[SK_STORED_LRU], &st->link);
}

void sk_stored_on_disk(struct sk_local *l, uint64_t len) {
    l->stored.n_disk++;
    l->stored.disk_object_bytes += len;
}

/* ---- to disk --------------------------------------------------------------------------------- */

void sk_stored_begin_write(struct sk_local *l, struct sk_stored *st, struct sk_spill_item *io) {
    to(l, st, SK_STORED_WRITING);
    st->io = io;
}

void sk_stored_written(struct sk_local *l, struct sk_stored *st, const struct sk_spill_item *x,
                       struct sk_stored *before) {
    SK_ASSERT(st->state == SK_STORED_WRITING && st->o->where == SK_V_STORE);
    st->io = NULL;
    sk_list_del(&st->link); /* the caller puts the entry into another list */
    if (!x) {
        sk_stored_stay(l, st, false);
        return;
    }
    st->at = x->at;
    if (before) sk_list_insert_before(before->sibling.next, &st->sibling);
}

void sk_stored_stay(struct sk_local *l, struct sk_stored *st, bool last) {
    to(l, st, SK_STORED_LRU);
    if (last) return;
    sk_list_del(&st->link);
    sk_list_push_front(&l->stored.in[SK_STORED_LRU], &st->link);
}

void sk_stored_to_disk(struct sk_local *l, struct sk_stored *st) {
    struct sk_obj *o = st->o;
    /* a copy must be on disk, or the bytes would be lost */
    SK_ASSERT(o->where == SK_V_STORE && st->at.stretch && !st->io);
    sk_store_unref(l->store, o->u.off);
    to(l, st, SK_STORED_DISK);
    o->where = SK_V_DISK;
    l->stored.n_out++;
    sk_stored_on_disk(l, o->len);
    if (st->follower) sk_moves_note(l, st, true);
}

/* ---- back into the store --------------------------------------------------------------------- */

void sk_stored_want(struct sk_local *l, struct sk_obj *o) {
    struct sk_stored *st = o->st;
    SK_DCHECK(st->o == o && (o->where != SK_V_DISK || st->at.stretch));
    if (st->state == SK_STORED_DISK || st->state == SK_STORED_AHEAD) to(l, st, SK_STORED_WANTED);
}

void sk_stored_want_next(struct sk_local *l, struct sk_obj *o, struct sk_stored *after) {
    struct sk_stored *st = o ? o->st : NULL;
    if (!st || o->state != SK_O_READY || o->where != SK_V_DISK || st == after ||
        st->state == SK_STORED_READING)
        return;
    SK_DCHECK(after->state == SK_STORED_WANTED);
    if (st->state != SK_STORED_WANTED) to(l, st, SK_STORED_WANTED);
    sk_list_del(&st->link);
    sk_list_insert_before(after->link.next, &st->link);
}

void sk_stored_soon(struct sk_local *l, struct sk_obj *o) {
    if (o->st->state == SK_STORED_DISK) to(l, o->st, SK_STORED_AHEAD);
}

void sk_stored_soon_over(struct sk_local *l) {
    for (struct sk_list *it; (it = sk_list_first(&l->stored.in[SK_STORED_AHEAD]));)
        to(l, sk_container_of(it, struct sk_stored, link), SK_STORED_DISK);
}

void sk_stored_begin_read(struct sk_local *l, struct sk_stored *st) {
    to(l, st, SK_STORED_READING);
}

void sk_stored_reads(struct sk_stored *st, struct sk_spill_item *io) {
    SK_DCHECK(st->state == SK_STORED_READING && !st->io);
    st->io = io;
}

void sk_stored_unwant(struct sk_local *l, struct sk_stored *st) {
    st->io = NULL;
    to(l, st, SK_STORED_DISK);
}

void sk_stored_no_jobs(struct sk_local *l) {
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_WRITING])
        sk_container_of(it, struct sk_stored, link)->io = NULL;
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_READING])
        sk_container_of(it, struct sk_stored, link)->io = NULL;
}

void sk_stored_back(struct sk_local *l, struct sk_stored *st, sk_off off) {
    struct sk_obj *o = st->o;
    SK_ASSERT(o->where == SK_V_DISK && l->stored.n_disk > 0 &&
              l->stored.disk_object_bytes >= o->len);
    SK_DCHECK(sk_list_empty(&st->link) && !st->io);
    o->u.off = off;
    o->where = SK_V_STORE;
    l->stored.n_disk--;
    l->stored.disk_object_bytes -= o->len;
    to(l, st, SK_STORED_LRU);
    if (st->follower) sk_moves_note(l, st, false);
}

bool sk_stored_check(const struct sk_local *l) {
    uint64_t n_disk = 0, bytes = 0, n_listed = 0, id;
    void *v;
    for (uint32_t s = 0; s < SK_STORED_STATES; s++)
        SK_LIST_EACH (it, &l->stored.in[s]) {
            const struct sk_stored *st = sk_container_of(it, struct sk_stored, link);
            if (s == SK_STORED_DISK || st->state != s ||
                !st->io != (s != SK_STORED_WRITING && s != SK_STORED_READING))
                return false;
            if (st->o->where != (s <= SK_STORED_WRITING ? SK_V_STORE : SK_V_DISK)) return false;
            n_listed++;
        }
    for (uint32_t c = 0; sk_own_each(l->own, &c, &id, &v);) {
        const struct sk_obj *o = v;
        const struct sk_stored *st = o->st;
        if (!st && o->state == SK_O_READY && o->where == SK_V_DISK) return false;
        if (!st) continue;
        if (st->o != o || o->state != SK_O_READY ||
            (o->where != SK_V_STORE && o->where != SK_V_DISK))
            return false;
        if (st->io && st->io->user != st) return false;
        n_listed -= !sk_list_empty(&st->link);
        if (o->where != SK_V_DISK) continue;
        if (!st->at.stretch) return false;
        n_disk++;
        bytes += o->len;
    }
    return n_disk == l->stored.n_disk && bytes == l->stored.disk_object_bytes && n_listed == 0;
}
