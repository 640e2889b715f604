/* store.h - contract of the store layer: who holds which extent of the data segment.
 *
 * One sparse memfd segment as large as the store's limit is mapped by every process (untouched
 * pages cost nothing). Only the engine's
 * process keeps the book: shared memory holds bytes and no metadata, so there is nothing in it that
 * a killed worker could leave half done. A worker writes into an extent that was *leased* to it and
 * says in a message which part is *sealed*; the death of a worker gives its unsealed leases and its
 * pins back.
 *
 *     free --alloc(proc)--> leased(proc) --commit--> sealed (refs >= 1, immutable) --last
 *     unref/unpin--> free (warm) --punch--> free (cold)
 *
 * First touch of a fresh page costs ten times the copy, so freed extents are reused warm, lowest
 * address first, and holes are punched only when idle. Pure book-keeping (alloc, quota, evict) does
 * no system call: `punch` lists are handed to the caller.
 *
 * Thread-safety: none; the engine's lock guards a store. */
#ifndef SK_STORE_H
#define SK_STORE_H

#include "base/base.h"
#include "base/err.h"
#include "base/containers/list.h"

#define SK_STORE_ALIGN 64u
#define SK_PROC_DRIVER 0u       /* process numbers: 0 is the engine's own, workers are 1.. */
#define SK_PROC_SPILL 0x7ffffeu /* holds what is being written to disk or read back */

struct sk_store;

struct sk_store_stats {
    uint64_t size_bytes;   /* limit */
    uint64_t leased_bytes; /* handed to writers, not sealed */
    uint64_t sealed_bytes; /* alive objects */
    uint64_t warm_bytes;   /* free, pages present */
    uint64_t peak_bytes;   /* highest leased + sealed */
    uint64_t n_extents;    /* leased or sealed */
    uint64_t n_pins;       /* sum of all pin counts */
};

/* Lengths: every `len` below is rounded up to a multiple of 64; 0 counts as 64, so that an empty
 * object has an offset of its own. */

/* Book for `size` bytes (rounded down to 64; at most 64 TiB) starting at offset 0. */
sk_rc sk_store_create(struct sk_store **out, uint64_t size, struct sk_err *err) SK_MUST_USE;
/* The book is also to keep `size` bytes that lie behind, on disk (sk_seg_tail): the *overflow*, for
 * what must be somewhere when nothing can leave memory. Nothing gets there but by
 * sk_store_alloc_overflow; everything else below works for it by the offset, statistics and
 * sk_store_free_bytes leave it out. */
sk_rc sk_store_add_overflow(struct sk_store *st, uint64_t size, struct sk_err *err) SK_MUST_USE;
void sk_store_destroy(struct sk_store *st);

/* Leases [*off, *off + round_up(len, 64)) to `proc`. SK_EFULL: says size, used, largest free run,
 * and "larger than the store" when it can never fit. Warm extents first (best fit), then fresh
 * pages lowest address first. */
sk_rc sk_store_alloc(struct sk_store *st, uint32_t proc, uint64_t len, sk_off *off,
                     struct sk_err *err) SK_MUST_USE;
/* the same */
sk_rc sk_store_alloc_overflow(struct sk_store *st, uint32_t proc, uint64_t len, sk_off *off,
                              struct sk_err *err) SK_MUST_USE;
/* Seals [off, off+len) of an extent leased to proc (off 64-aligned; any part of the lease). It
 * becomes an object's extent with one reference. SK_EINVAL when it is not within a lease of proc (a
 * worker gone mad): nothing changed. */
sk_rc sk_store_commit(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                      struct sk_err *err) SK_MUST_USE;
/* Gives back the unsealed part of a lease (exactly, or a tail of it). SK_EINVAL, SK_ENOMEM (tail
 * only): nothing changed. */
sk_rc sk_store_unlease(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                       struct sk_err *err) SK_MUST_USE;
/* References to a sealed extent by its start offset. The extent is freed when refs and pins are
 * both 0. An offset that starts no sealed extent is a bug of the engine (SK_ASSERT): peers name
 * objects by id, never by offset. */
void sk_store_ref(struct sk_store *st, sk_off off);
void sk_store_unref(struct sk_store *st, sk_off off);
/* Pins: a process maps the bytes (zero-copy values). Counted by (proc, extent). pin: SK_ENOMEM,
 * nothing changed. unpin of what proc does
 * not pin: false. */
sk_rc sk_store_pin(struct sk_store *st, uint32_t proc, sk_off off) SK_MUST_USE;
bool sk_store_unpin(struct sk_store *st, uint32_t proc, sk_off off);
/* of a sealed extent, by all processes */
uint32_t sk_store_pins(const struct sk_store *st, sk_off off);
/* Drops all pins and leases of a process. Its sealed objects live on. */
void sk_store_proc_dead(struct sk_store *st, uint32_t proc);

/* Next warm free run of at least min_len to punch, marked cold; false when none. The caller does
 * the punching. */
bool sk_store_take_punch(struct sk_store *st, uint64_t min_len, sk_off *off, uint64_t *len);
/* Next range of the overflow that was freed, with what is free around it up to the borders of 64
 * KiB; false when none. */
bool sk_store_take_overflow(struct sk_store *st, sk_off *off, uint64_t *len);
uint64_t sk_store_overflow_used(const struct sk_store *st);
uint64_t sk_store_free_bytes(const struct sk_store *st); /* in all; the largest run may be less */
void sk_store_get_stats(const struct sk_store *st, struct sk_store_stats *out);
/* Whole-store invariant walk: extents tile [0,size), no two free neighbours of one temperature,
 * counts add up. */
bool sk_store_check(const struct sk_store *st);
void sk_store_dump(const struct sk_store *st, char *buf, size_t cap); /* human text */

/* ---- quota.c (pure): admission and reservation ----------------------------------------------- */

/* Byte budget with named holders: reserve before work starts, turn reservation into use as outputs
 * come, give back. */
struct sk_quota {
    uint64_t limit, reserved, used;
};
/* false when limit - used - reserved < n; nothing changed */
bool sk_quota_reserve(struct sk_quota *q, uint64_t n);
void sk_quota_unreserve(struct sk_quota *q, uint64_t n);
/* n bytes exist now; of them from_reserved were promised */
void sk_quota_use(struct sk_quota *q, uint64_t from_reserved, uint64_t n);
void sk_quota_unuse(struct sk_quota *q, uint64_t n);
uint64_t sk_quota_room(const struct sk_quota *q); /* may be 0, never wraps */

/* ---- evict.c (pure): what to give up first --------------------------------------------------- */

struct sk_evict_cand {
    uint64_t id, bytes;
    int64_t last_use_ns;
    int64_t remake_ns;          /* cost to compute again; INT64_MAX: impossible */
    uint64_t write_bytes_per_s; /* of the spill disk; 0: no disk */
    bool pinned;                /* in use: never a victim */
    bool soon;                  /* a queued task will need it: after all others */
};
enum sk_evict_how { SK_EVICT_KEEP, SK_EVICT_DROP, SK_EVICT_SPILL };
/* Chooses victims until `need` bytes are covered: cheapest (remake or write+read back) per byte
 * first, older first on ties. how[i] for each candidate; returns bytes covered (may be < need). */
uint64_t sk_evict_choose(const struct sk_evict_cand *c, size_t n, uint64_t need,
                         enum sk_evict_how *how);

/* ---- spill.c, spill_io.c: bytes of objects on disk ------------------------------------------- */

/* Objects are written in *jobs* of a few MiB, each job one stretch of a nameless file (O_TMPFILE,
 * so that a killed process leaves nothing); a file takes stretches until it is 128 MiB. The disk
 * space of a stretch comes back when its last object is dropped, that of its pages without an
 * object when they are a quarter of it. Jobs go to the directories in turn; one that is full, or
 * fails, is passed over for a while.
 *
 * The caller's thread keeps the book; own threads do all I/O, and call `wake` when a job is done.
 * Bytes of a job must not move or change until the job comes out of sk_spill_next_done.
 * Thread-safety: none, but `wake` comes from other threads. */
struct sk_spill;
struct sk_spill_stretch;
struct sk_spill_at { /* where an object is on disk; stretch NULL: nowhere */
    struct sk_spill_stretch *stretch;
    uint64_t off;
};
struct sk_spill_item {
    uint64_t id;
    uint8_t *bytes; /* from or to */
    uint64_t len;
    uint64_t part_at, part_len; /* read: of the len bytes only these, to `bytes`; part_len 0: all */
    struct sk_spill_at at;      /* written: set by sk_spill_write; read: given */
    /* of this item, when done. Read: SK_ECORRUPT, SK_EIO; err of the job is that of the last one
     * that failed */
    sk_rc rc;
    void *user;
};
enum { SK_SPILL_WRITE = 1, SK_SPILL_READ };
struct sk_spill_job { /* from sk_spill_job; the caller fills items[0..n) */
    struct sk_list link;
    uint32_t what, n;
    uint32_t n_begun, n_over; /* spill_io.c: read, of the items in order of place */
    uint64_t tried;           /* spill.c: directories that refused it */
    sk_rc rc;                 /* written: all or nothing */
    struct sk_err err;
    struct sk_spill_item items[];
};
#define SK_SPILL_DIRS 64u
/* nine tenths of what is free there, asked anew when more is wanted */
#define SK_SPILL_QUOTA_FREE UINT64_MAX
struct sk_spill_conf {
    const char *const *dirs; /* 1 to SK_SPILL_DIRS; made when missing (one level) */
    uint32_t n_dirs;
    uint64_t quota_bytes; /* of disk; 0: as much as there is; SK_SPILL_QUOTA_FREE */
    void (*wake)(void *arg);
    void *wake_arg;
};
struct sk_spill_stats {
    uint64_t quota_bytes;
    uint64_t disk_bytes; /* held now, with the overflow */
    /* objects and parts of objects, since the start */
    uint64_t n_written, written_bytes, n_read, read_bytes;
    /* that files were asked for: with sums, and gaps between objects */
    uint64_t io_read_bytes;
    uint64_t n_failed; /* jobs */
    uint64_t n_files;  /* open now */
};
/* SK_EIO, SK_EINVAL: a directory cannot be used. Tries to make a file in each, and makes no thread
 * yet. */
sk_rc sk_spill_create(struct sk_spill **out, const struct sk_spill_conf *conf,
                      struct sk_err *err) SK_MUST_USE;
/* waits for the I/O that is under way; jobs that wait are dropped */
void sk_spill_destroy(struct sk_spill *sp);
struct sk_spill_job *sk_spill_job(uint32_t n) SK_MUST_USE; /* NULL: no memory; freed by sk_free */
/* Bytes of disk that a job of these lengths takes are those plus 4 for each 4 KiB of one, rounded
 * up to 64 each and to 4 KiB together. SK_ENOSPC: over the quota; SK_ENOMEM, SK_EIO (no thread):
 * the job is still the caller's, nothing changed. */
sk_rc sk_spill_write(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) SK_MUST_USE;
sk_rc sk_spill_read(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) SK_MUST_USE;
/* NULL: none now; the job is the caller's. A failed write holds no disk */
struct sk_spill_job *sk_spill_next_done(struct sk_spill *sp);
/* the object, of `len` bytes, needs its place no more */
void sk_spill_drop(struct sk_spill *sp, struct sk_spill_at *at, uint64_t len);
/* one more needs it, and will drop it, too */
void sk_spill_share(const struct sk_spill_at *at, uint64_t len);
/* order on disk; objects of one file lie apart by their difference */
uint64_t sk_spill_pos(const struct sk_spill_at *at);
void sk_spill_get_stats(const struct sk_spill *sp, struct sk_spill_stats *out);
/* stretches, pages and files against the sums; for tests. Linear in what is on disk */
bool sk_spill_check(struct sk_spill *sp);
/* A nameless file of `bytes` without blocks, for the store's overflow, in the first directory that
 * lets us. */
sk_rc sk_spill_open_overflow(struct sk_spill *sp, uint64_t bytes, int *fd,
                             struct sk_err *err) SK_MUST_USE;
/* That file holds `now` bytes, which count for the quota, and is to hold `more`. SK_ENOSPC: over
 * the quota. */
sk_rc sk_spill_overflow(struct sk_spill *sp, uint64_t now, uint64_t more,
                        struct sk_err *err) SK_MUST_USE;

#endif
