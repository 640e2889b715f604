/* space_room.c - bytes for somebody, now or not at all: of the store, as far as it may be used now, or of the overflow behind it. Runs with the lock held.
 *
 * Not here: waiting for room (space.c). */
#include <stdio.h>

#include "base/log.h"
#include "engine/local/driver/space_int.h"

/* A sixteenth is left to what comes back from disk: with a full disk and a full store nothing could be read any more. */
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) {
    uint64_t size = size_of(l) - lent_of(l), left = left_of(l);
    bool kept = l->stored.n_disk || l->space.writing_bytes;
    if (len > size - size / 16) size = size_of(l), left = sk_store_free_bytes(l->store); /* what is lent could never do */
    if (len <= size && left < len + (kept ? SK_MIN(size / 16, size - len) : 0) && (kept || lent_of(l)))
        return SK_ERR(err, SK_EFULL, "store is full: need %llu bytes; %llu of %llu are free%s%s", (unsigned long long)len,
                      (unsigned long long)left, (unsigned long long)size,
                      size < size_of(l) ? " as long as tasks need the rest of the memory" : "",
                      kept ? ", and 1/16 is kept for objects that come back from disk" : "");
    return sk_store_alloc(l->store, proc, len, off, err);
}

sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) {
    struct sk_space *sp = &l->space;
    struct sk_err why = {.msg = ""};
    uint64_t n = SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN);
    if (!l->data_seg.tail) return SK_EFULL;
    SK_DCHECK(sp->spill); /* the tail is a file of its directories */
    sk_rc rc = sk_spill_overflow(sp->spill, sk_store_overflow_used(l->store), n, &why);
    if (rc == SK_OK) rc = sk_store_alloc_overflow(l->store, proc, len, off, &why);
    if (rc == SK_OK) {
        SK_DCHECK(*off >= size_of(l));
        rc = sk_seg_fill(&l->data_seg, *off, n, &why);
        if (rc != SK_OK) SK_IGNORE(sk_store_unlease(l->store, proc, *off, len, NULL)); /* whole: cannot fail */
    }
    SK_IGNORE(sk_spill_overflow(sp->spill, sk_store_overflow_used(l->store), 0, NULL)); /* nothing more is asked for */
    if (rc != SK_OK) {
        char store[sizeof why.msg];
        snprintf(store, sizeof store, "%.300s", err ? err->msg : "");
        return SK_ERR(err, rc == SK_EFULL ? SK_EFULL : SK_ENOSPC, "%s%son disk it cannot be, either: %.300s", store, *store ? "; " : "",
                      why.msg);
    }
    if (!sp->n_overflow++)
        sk_log(SK_LOG_WARN,
               "overflow bytes=%llu msg=\"the store is full of what is in use, or too small for this object: it is kept on disk, mapped\"",
               (unsigned long long)len);
    sp->overflow_bytes += len;
    return SK_OK;
}

/* Disk of what was freed in the overflow. */
void sk_space_give_back(struct sk_local *l) {
    sk_off off;
    uint64_t len;
    bool any = false;
    while (sk_store_take_overflow(l->store, &off, &len)) {
        any = true;
        SK_DCHECK(off >= size_of(l) && off + len <= size_of(l) + l->data_seg.tail);
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len,
                               NULL)); /* a file system that cannot: the blocks are used again, or go with the file */
    }
    if (any) SK_IGNORE(sk_spill_overflow(l->space.spill, sk_store_overflow_used(l->store), 0, NULL));
}
