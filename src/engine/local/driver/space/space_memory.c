/* space_memory.c - memory of the store for a new value: at once (from the store, or from the
 * overflow behind it), or later, by a wait. Runs with the lock held. Invariant: a wait is answered
 * once, with memory or an error, and in order as long as memory is being freed.
 *
 * Not here: making room for a wait (space.c). */
#include <stdio.h>

#include "base/log/log.h"
#include "base/mem.h"
#include "engine/local/driver/space/space_int.h"

/* ---- memory that is given at once ------------------------------------------------------------ */

/* Leaves a sixteenth of the store free for values that are read back: if disk and store were both
 * full, nothing could be read any more. */
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                     struct sk_err *err) {
    uint64_t size = size_of(l) - lent_of(l), left = left_of(l);
    bool kept = l->stored.n_disk || l->space.writing_bytes;
    /* a value of this size needs the memory that is lent to workers' heaps, too */
    if (len > size - size / 16) size = size_of(l), left = sk_store_free_bytes(l->store);
    if (len <= size && left < len + (kept ? SK_MIN(size / 16, size - len) : 0) &&
        (kept || lent_of(l)))
        return SK_ERR(err, SK_EFULL, "store is full: need %llu bytes; %llu of %llu are free%s%s",
                      (unsigned long long)len, (unsigned long long)left, (unsigned long long)size,
                      size < size_of(l) ? " as long as tasks need the rest of the memory" : "",
                      kept ? ", and 1/16 is kept for objects that come back from disk" : "");
    return sk_store_alloc(l->store, proc, len, off, err);
}

sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                        struct sk_err *err) {
    struct sk_space *sp = &l->space;
    struct sk_err why = {.msg = ""};
    uint64_t n = SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN);
    if (!l->data_seg.tail) return SK_EFULL;
    SK_DCHECK(sp->spill); /* the overflow is a file in the spill directories */
    sk_rc rc = sk_spill_overflow(sp->spill, sk_store_overflow_used(l->store), n, &why);
    if (rc == SK_OK) rc = sk_store_alloc_overflow(l->store, proc, len, off, &why);
    if (rc == SK_OK) {
        SK_DCHECK(*off >= size_of(l));
        rc = sk_seg_fill(&l->data_seg, *off, n, &why);
        /* this cannot fail, because a whole lease is given back */
        if (rc != SK_OK) SK_IGNORE(sk_store_unlease(l->store, proc, *off, len, NULL));
    }
    /* reserves no more disk than the value uses */
    SK_IGNORE(sk_spill_overflow(sp->spill, sk_store_overflow_used(l->store), 0, NULL));
    if (rc != SK_OK) {
        char store[sizeof why.msg];
        snprintf(store, sizeof store, "%.300s", err ? err->msg : "");
        return SK_ERR(err, rc == SK_EFULL ? SK_EFULL : SK_ENOSPC,
                      "%s%son disk it cannot be, either: %.300s", store, *store ? "; " : "",
                      why.msg);
    }
    if (!sp->n_overflow++)
        sk_log(SK_LOG_WARN,
               "overflow bytes=%llu msg=\"the store is full of what is in use, or too small for "
               "this object: it is kept on disk, mapped\"",
               (unsigned long long)len);
    sp->overflow_bytes += len;
    return SK_OK;
}

/* Gives back the disk space of values freed in the overflow. */
void sk_space_give_back(struct sk_local *l) {
    sk_off off;
    uint64_t len;
    bool any = false;
    while (sk_store_take_overflow(l->store, &off, &len)) {
        any = true;
        SK_DCHECK(off >= size_of(l) && off + len <= size_of(l) + l->data_seg.tail);
        /* On a file system that cannot punch holes, the blocks stay: they are used again, or freed
         * together with the file. */
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len, NULL));
    }
    if (any)
        SK_IGNORE(sk_spill_overflow(l->space.spill, sk_store_overflow_used(l->store), 0, NULL));
}

/* ---- waits for memory ------------------------------------------------------------------------ */

/* Answers a worker's lease request with memory. */
static void leased(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t off,
                   uint64_t len) {
    struct {
        uint32_t type, rc;
        uint64_t req, off, len;
    } m = {SK_M_REPLY, SK_OK, req, off, len};
    (void)sk_driver_link_reply(l, w, &m, sizeof m);
}

void sk_space_answer(struct sk_local *l, struct sk_mem_wait *r, sk_rc rc, const char *msg) {
    struct sk_err err;
    SK_DCHECK(!r->w || r->w->n_mem_waits > 0);
    sk_list_del(&r->link);
    if (rc == SK_OK && r->graph && (rc = sk_lgraph_own(l, r->graph, r->off, r->got, &err)) != SK_OK)
        msg = err.msg;
    r->rc = rc;
    sk_progressed(l);
    sk_space_released(l);
    if (!r->w) {
        if (rc != SK_OK) r->rc = SK_ERR(r->err, rc, "%s", msg);
        return;
    }
    r->w->n_mem_waits--;
    if (rc == SK_OK) {
        leased(l, r->w, r->req, r->off, r->got);
        r->w->has_lease |= !r->graph;
    } else {
        sk_driver_link_error(l, r->w, r->req, rc, msg);
    }
    sk_free(r);
}

bool sk_space_try(struct sk_local *l, struct sk_mem_wait *r) {
    uint32_t proc = sk_space_proc_of(r);
    SK_DCHECK(r->min <= r->len);
    r->got = r->len;
    sk_rc rc = sk_space_alloc(l, proc, r->len, &r->off, NULL);
    if (rc != SK_OK && r->min < r->len) {
        r->got = r->min;
        rc = sk_space_alloc(l, proc, r->min, &r->off, NULL);
    }
    if (rc == SK_EFULL) return false;
    SK_DCHECK(rc != SK_OK || r->got >= r->min);
    sk_space_answer(l, r, rc, "no memory for the store's book");
    return true;
}

void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t graph,
                    uint64_t len, uint64_t min) {
    struct sk_err err = {.msg = "no memory"};
    struct sk_mem_wait now = {.w = w, .graph = graph, .len = len, .min = min};
    bool wait = l->space.spill && min <= size_of(l);
    sk_rc rc = SK_EFULL;
    if (!wait && l->data_seg.tail) {
        /* the request is larger than the store: this call fails and gives the error message */
        SK_IGNORE(sk_space_alloc(l, sk_space_proc_of(&now), min, &now.off, &err));
        rc = sk_space_overflow(l, sk_space_proc_of(&now), min, &now.off, &err);
        now.got = min;
    } else if (!wait || sk_list_empty(&l->space.mem_waits)) {
        rc = sk_space_alloc(l, sk_space_proc_of(&now), len, &now.off, &err);
        now.got = len;
        if (rc == SK_EFULL && min < len) {
            rc = sk_space_alloc(l, sk_space_proc_of(&now), min, &now.off, &err);
            now.got = min;
        }
    }
    struct sk_mem_wait *r = rc == SK_EFULL && wait ? sk_alloc(SK_TAG_ENGINE, sizeof *r) : NULL;
    if (rc == SK_OK && graph) rc = sk_lgraph_own(l, graph, now.off, now.got, &err);
    if (r) {
        *r = (struct sk_mem_wait){
            .w = w, .req = req, .graph = graph, .len = len, .min = min, .rc = SK_EAGAIN};
        w->n_mem_waits++;
        sk_list_push_back(&l->space.mem_waits, &r->link);
        /* tasks queued behind this one must not wait for it */
        if (w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w);
    } else if (rc == SK_OK) {
        leased(l, w, req, now.off, now.got);
        w->has_lease |= !graph;
    } else {
        sk_driver_link_error(l, w, req, rc, err.msg);
    }
}

void sk_space_lease_now(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len) {
    sk_off off;
    /* objects are evicted when less than this is free */
    bool plenty = !sk_space_awaited(l) && len <= size_of(l) && left_of(l) >= len + size_of(l) / 16;
    if (!plenty || sk_space_alloc(l, w->proc, len, &off, NULL) != SK_OK) {
        sk_driver_link_error(l, w, req, SK_EFULL, "the store has little room");
        return;
    }
    leased(l, w, req, off, len);
    w->has_lease = true;
}

void sk_space_await(struct sk_local *l, struct sk_mem_wait *r) {
    SK_DCHECK(!r->w && r->rc == SK_EAGAIN);
    sk_list_push_back(&l->space.mem_waits, &r->link);
    sk_bell_ring(&l->ctl->bell[0]); /* the thread that drives may be asleep on this bell */
}

void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w) {
    sk_space_released(l);
    if (!w->n_mem_waits) return;
    SK_LIST_EACH_SAFE (it, tmp, &l->space.mem_waits) {
        struct sk_mem_wait *r = sk_container_of(it, struct sk_mem_wait, link);
        if (r->w != w) continue;
        sk_list_del(&r->link);
        sk_free(r);
        w->n_mem_waits--;
    }
    /* otherwise a wait would be answered after its worker was freed */
    SK_ASSERT(w->n_mem_waits == 0);
}
