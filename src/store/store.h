/* store.h - contract of the store layer, which gives extents of the data segment to processes.
 *
 * Every process maps one sparse memfd segment as large as the store's limit (untouched pages cost
 * nothing). Only the engine's process keeps the book: shared memory holds bytes and no metadata, so
 * a killed worker cannot leave metadata half written. A worker writes into an extent that was
 * *leased* to it and says in a message which part is *sealed*. When a worker dies, its unsealed
 * leases and its pins are released.
 *
 *     free --alloc(proc)--> leased(proc) --commit--> sealed (refs >= 1, immutable)
 *     sealed --last unref or unpin--> free (warm) --punch--> free (cold)
 *
 * The first touch of a fresh page costs ten times the copy. So freed extents are reused warm (with
 * their pages), lowest address first, and holes are punched only when the engine is idle. The
 * book-keeping is pure (alloc, quota, evict) and makes no system call: the caller gets the ranges
 * to punch.
 *
 * Thread-safety: none; the engine's lock guards a store. */
#ifndef SK_STORE_H
#define SK_STORE_H

#include "base/base.h"
#include "base/err.h"
#include "base/containers/list.h"

#define SK_STORE_ALIGN 64u
/* process numbers: 0 is the engine's own process, workers are 1 and up */
#define SK_PROC_DRIVER 0u
/* process number of the spill threads: owns extents that are being written to disk or read
 * back */
#define SK_PROC_SPILL 0x7ffffeu

struct sk_store;

struct sk_store_stats {
    uint64_t size_bytes;   /* size of the store */
    uint64_t leased_bytes; /* leased to writers, not sealed */
    uint64_t sealed_bytes; /* bytes of live objects */
    uint64_t warm_bytes;   /* free bytes whose pages are present */
    uint64_t peak_bytes;   /* highest sum of leased and sealed so far */
    uint64_t n_extents;    /* number of leased or sealed extents */
    uint64_t n_pins;       /* sum of all pin counts */
};

/* All lengths below are rounded up to a multiple of 64; 0 counts as 64, so that an empty object has
 * an offset of its own. */

/* Creates the book of a segment of `size` bytes (rounded down to 64; at most 64 TiB). */
sk_rc sk_store_create(struct sk_store **out, uint64_t size, struct sk_err *err) SK_MUST_USE;
/* Adds `size` bytes on disk behind the segment (sk_seg_tail) to the book: the *overflow*, for
 * values that must be somewhere when nothing can leave memory. Only sk_store_alloc_overflow
 * allocates there. All other calls below work for it, by the offset; statistics and
 * sk_store_free_bytes do not count it. */
sk_rc sk_store_add_overflow(struct sk_store *st, uint64_t size, struct sk_err *err) SK_MUST_USE;
void sk_store_destroy(struct sk_store *st);

/* Leases [*off, *off + round_up(len, 64)) to `proc`. Takes warm extents first (best fit), then
 * fresh pages, lowest address first. SK_EFULL: the message has size, used bytes and the largest
 * free run, or says that the object is larger than the store. */
sk_rc sk_store_alloc(struct sk_store *st, uint32_t proc, uint64_t len, sk_off *off,
                     struct sk_err *err) SK_MUST_USE;
/* Leases memory of the overflow, with the same rules as sk_store_alloc. */
sk_rc sk_store_alloc_overflow(struct sk_store *st, uint32_t proc, uint64_t len, sk_off *off,
                              struct sk_err *err) SK_MUST_USE;
/* Seals [off, off + len) of an extent that is leased to proc (off 64-aligned; any part of the
 * lease). The range becomes an object's extent with one reference. SK_EINVAL: the range is not
 * within a lease of proc (a faulty worker); nothing changed. */
sk_rc sk_store_commit(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                      struct sk_err *err) SK_MUST_USE;
/* Returns the unsealed part of a lease: all of it, or its end. SK_EINVAL, SK_ENOMEM (only for the
 * end of a lease): nothing changed. */
sk_rc sk_store_unlease(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                       struct sk_err *err) SK_MUST_USE;
/* Count references to a sealed extent, given by its start. The extent is freed when refs and pins
 * are both 0. An offset that starts no sealed extent is a bug of the engine (SK_ASSERT): peers name
 * objects by id, never by offset. */
void sk_store_ref(struct sk_store *st, sk_off off);
void sk_store_unref(struct sk_store *st, sk_off off);
/* Pins: process `proc` maps the bytes (zero-copy values). Counted for each pair of process and
 * extent. pin: on SK_ENOMEM nothing changed. unpin: false when proc has no pin there. */
sk_rc sk_store_pin(struct sk_store *st, uint32_t proc, sk_off off) SK_MUST_USE;
bool sk_store_unpin(struct sk_store *st, uint32_t proc, sk_off off);
/* Number of pins of a sealed extent, over all processes. */
uint32_t sk_store_pins(const struct sk_store *st, sk_off off);
/* Drops all pins and leases of a dead process. Objects that it sealed stay. */
void sk_store_proc_dead(struct sk_store *st, uint32_t proc);

/* Takes the next warm free run of at least min_len for punching and marks it cold; false when there
 * is none. The caller punches it. */
bool sk_store_take_punch(struct sk_store *st, uint64_t min_len, sk_off *off, uint64_t *len);
/* Takes the next freed range of the overflow for punching, widened to free neighbours up to borders
 * of 64 KiB; false when there is none. */
bool sk_store_take_overflow(struct sk_store *st, sk_off *off, uint64_t *len);
uint64_t sk_store_overflow_used(const struct sk_store *st);
/* all free bytes; the largest run may be smaller */
uint64_t sk_store_free_bytes(const struct sk_store *st);
void sk_store_get_stats(const struct sk_store *st, struct sk_store_stats *out);
/* Checks the invariants of the whole store: extents cover [0, size) without gap, no two free
 * neighbours are both warm or both cold, counts add up. */
bool sk_store_check(const struct sk_store *st);
/* writes a readable picture into buf */
void sk_store_dump(const struct sk_store *st, char *buf, size_t cap);

/* ---- quota.c (pure): admission and reservation ----------------------------------------------- */

/* A byte budget: reserve before work starts, turn the reservation into use as outputs are made,
 * release bytes that are freed. */
struct sk_quota {
    uint64_t limit, reserved, used;
};
/* Reserves n bytes. False when limit - used - reserved < n; then nothing has changed. */
bool sk_quota_reserve(struct sk_quota *q, uint64_t n);
void sk_quota_unreserve(struct sk_quota *q, uint64_t n);
/* Counts n bytes that exist now; they use up from_reserved bytes of the reservation. */
void sk_quota_use(struct sk_quota *q, uint64_t from_reserved, uint64_t n);
void sk_quota_unuse(struct sk_quota *q, uint64_t n);
uint64_t sk_quota_room(const struct sk_quota *q); /* may be 0, never wraps */

/* ---- evict.c (pure): what to evict first ----------------------------------------------------- */

struct sk_evict_cand {
    uint64_t id, bytes;
    int64_t last_use_ns;
    int64_t remake_ns;          /* cost in ns to compute it again; INT64_MAX: impossible */
    uint64_t write_bytes_per_s; /* speed of the spill disk; 0: there is none */
    bool pinned;                /* in use: never a victim */
    bool soon;                  /* a queued task will need it: taken after all others */
};
enum sk_evict_how { SK_EVICT_KEEP, SK_EVICT_DROP, SK_EVICT_SPILL };
/* Chooses victims until `need` bytes are covered: first those whose loss costs least per byte
 * (compute again, or write and read back), then those that were unused longest. Sets how[i] for
 * each candidate; returns the bytes covered (may be below need). */
uint64_t sk_evict_choose(const struct sk_evict_cand *c, size_t n, uint64_t need,
                         enum sk_evict_how *how);

/* ---- spill.c, spill_io.c: bytes of objects on disk ------------------------------------------- */

/* Objects are written in *jobs* of a few MiB. Each job is one stretch of a file without a name
 * (O_TMPFILE, so that a killed process leaves nothing); a file takes stretches until it has 128
 * MiB. The disk space of a stretch is returned when its last object is dropped; pages without an
 * object are returned earlier, when they are a quarter of it. Jobs go to the directories in turn; a
 * directory that is full or fails is skipped for a while.
 *
 * The caller's thread keeps the book; own threads do all I/O and call `wake` when a job is done.
 * The bytes of a job must not move or change until sk_spill_next_done returns the job.
 * Thread-safety: none, but `wake` is called on other threads. */
struct sk_spill;
struct sk_spill_stretch;
struct sk_spill_at { /* where an object is on disk; stretch NULL: not on disk */
    struct sk_spill_stretch *stretch;
    uint64_t off;
};
struct sk_spill_item {
    uint64_t id;
    uint8_t *bytes; /* source of a write, destination of a read */
    uint64_t len;
    /* read only this part of the object into `bytes`; part_len 0: all */
    uint64_t part_at, part_len;
    struct sk_spill_at at; /* set by sk_spill_write; given to sk_spill_read */
    /* The item's result once the job is done. A read may fail with SK_ECORRUPT or SK_EIO; the job's
     * err is of the last item that failed. */
    sk_rc rc;
    void *user;
};
enum { SK_SPILL_WRITE = 1, SK_SPILL_READ };
struct sk_spill_job { /* made by sk_spill_job; the caller fills items[0, n) */
    struct sk_list link;
    uint32_t what, n;
    /* of a read, used by spill_io.c: items begun and finished, in the order on disk */
    uint32_t n_begun, n_over;
    uint64_t tried; /* used by spill.c: bit i is set if directory i refused the job */
    sk_rc rc;       /* result of a write, for all items alike */
    struct sk_err err;
    struct sk_spill_item items[];
};
#define SK_SPILL_DIRS 64u
/* Quota: nine tenths of the free space of the disks, computed again whenever it is exceeded. */
#define SK_SPILL_QUOTA_FREE UINT64_MAX
struct sk_spill_conf {
    /* 1 to SK_SPILL_DIRS directories; a missing one is created (its last path component) */
    const char *const *dirs;
    uint32_t n_dirs;
    uint64_t quota_bytes; /* of disk; 0: no quota */
    void (*wake)(void *arg);
    void *wake_arg;
};
struct sk_spill_stats {
    uint64_t quota_bytes;
    uint64_t disk_bytes; /* held now, with the overflow */
    /* objects and parts of objects since the start */
    uint64_t n_written, written_bytes, n_read, read_bytes;
    /* bytes read from files, with checksums and gaps between objects */
    uint64_t io_read_bytes;
    uint64_t n_failed; /* number of failed jobs */
    uint64_t n_files;  /* number of files open now */
};
/* Tries to create a file in each directory; starts no thread yet. SK_EIO, SK_EINVAL: a directory
 * cannot be used. */
sk_rc sk_spill_create(struct sk_spill **out, const struct sk_spill_conf *conf,
                      struct sk_err *err) SK_MUST_USE;
/* Waits for I/O under way; drops jobs that have not begun. */
void sk_spill_destroy(struct sk_spill *sp);
/* NULL: no memory; free it with sk_free */
struct sk_spill_job *sk_spill_job(uint32_t n) SK_MUST_USE;
/* Hands in a job. It takes disk space of its lengths plus 4 bytes for each 4 KiB, rounded up to 64
 * for each object and to 4 KiB for the job. SK_ENOSPC (over the quota), SK_ENOMEM, SK_EIO (no
 * thread can be started): nothing changed, and the caller keeps the job. */
sk_rc sk_spill_write(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) SK_MUST_USE;
sk_rc sk_spill_read(struct sk_spill *sp, struct sk_spill_job *job, struct sk_err *err) SK_MUST_USE;
/* Returns a finished job, which the caller owns again; NULL: no job has finished. A failed write
 * holds no disk space. */
struct sk_spill_job *sk_spill_next_done(struct sk_spill *sp);
/* Releases the disk place of an object of `len` bytes. */
void sk_spill_drop(struct sk_spill *sp, struct sk_spill_at *at, uint64_t len);
/* Adds one more user of a place on disk; each user releases the place by sk_spill_drop. */
void sk_spill_share(const struct sk_spill_at *at, uint64_t len);
/* Position on disk, for sorting; in one file, positions differ by the bytes between objects. */
uint64_t sk_spill_pos(const struct sk_spill_at *at);
void sk_spill_get_stats(const struct sk_spill *sp, struct sk_spill_stats *out);
/* Time in ns that the disk took to write a byte, over all that was written so far, without the time
 * in which nothing was to be written; 0: nothing was written. */
double sk_spill_write_ns(const struct sk_spill *sp);
/* For tests: checks stretches, pages and files against the counts. Takes time linear in what is on
 * disk. */
bool sk_spill_check(struct sk_spill *sp);
/* Opens a sparse file of `bytes` without a name, for the store's overflow, in the first directory
 * that allows it. */
sk_rc sk_spill_open_overflow(struct sk_spill *sp, uint64_t bytes, int *fd,
                             struct sk_err *err) SK_MUST_USE;
/* Tells that the overflow file holds `now` bytes, which count for the quota, and is to get `more`.
 * SK_ENOSPC: over the quota. */
sk_rc sk_spill_overflow(struct sk_spill *sp, uint64_t now, uint64_t more,
                        struct sk_err *err) SK_MUST_USE;

#endif
