/* spill_int.h - shared by spill.c (the book) and spill_io.c (threads and system calls).
 *
 *   file (nameless):  [stretch: head bytes pad, head bytes pad, ... pad to 4 KiB][stretch
 *                     ...][punched][stretch ...
 *
 * Each object is a head of 64 bytes, its sums and its bytes, each padded to 64. Sums: of an object
 * of more than 64 KiB, the checksum of each 64 KiB of it, so that a part can be read and checked by
 * itself. A stretch starts at a multiple of 4 KiB and is padded to one, so that it can be written
 * and read without the page cache. */
#ifndef SK_SPILL_INT_H
#define SK_SPILL_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/containers/list.h"
#include "store/store.h"

#define SK_SPILL_PAGE 4096u
#define SK_SPILL_ALIGN 64u              /* of an object's place */
#define SK_SPILL_BUF ((size_t)4 << 20)  /* one write at most */
#define SK_SPILL_LOOK ((size_t)1 << 20) /* one read at most */
#define SK_SPILL_WRITERS 2u             /* threads that write and read */
#define SK_SPILL_THREADS 6u             /* with those that only read */
#define SK_SPILL_FILE_BYTES (UINT64_C(128) << 20)

/* On disk an object is its chunks, one behind the other: the checksum of each, little-endian as the
 * machine is, and its bytes. No other process reads it. The checksum begins with the object's id,
 * its length and the number of the chunk, so that bytes of another place, or of another object, do
 * not pass; and whoever reads a part needs nothing but the chunks that it lies in. An object of no
 * bytes has one chunk of none. */
#define SK_SPILL_CHUNK UINT64_C(4096)
#define SK_SPILL_SUM sizeof(uint32_t)

static inline uint64_t sk_spill_n_chunks(uint64_t len) {
    return len ? (len + SK_SPILL_CHUNK - 1) / SK_SPILL_CHUNK : 1;
}
/* Where chunk i begins, behind at.off. */
static inline uint64_t sk_spill_chunk_at(uint64_t i) { return i * (SK_SPILL_SUM + SK_SPILL_CHUNK); }
static inline uint64_t sk_spill_on_disk(uint64_t len) {
    return SK_ALIGN(len + sk_spill_n_chunks(len) * SK_SPILL_SUM, SK_SPILL_ALIGN);
}
static inline uint64_t sk_spill_first_chunk(const struct sk_spill_item *x) {
    return x->part_len ? x->part_at / SK_SPILL_CHUNK : 0;
}
static inline uint64_t sk_spill_begins(const struct sk_spill_item *x) {
    /* what is read of x, in the file */
    return x->at.off + sk_spill_chunk_at(sk_spill_first_chunk(x));
}
/* what the checksum of a chunk begins with */
uint32_t sk_spill_sum(uint64_t id, uint64_t len, uint64_t chunk);

struct sk_spill_place { /* one directory; the book's, but `path`, which is constant */
    char *path;
    struct sk_spill_file *cur; /* the file that grows; NULL: none yet */
    int64_t refused_ns;        /* it was full, or broken, then; 0: not that we know */
};

struct sk_spill_file {
    struct sk_list link; /* sp->files; changed under mu */
    struct sk_spill_place *place;
    /* under mu: its stretches, holes that wait, and one while it is the one that grows */
    uint32_t refs;
    uint64_t end;    /* the book's */
    uint64_t serial; /* the book's */
    int fd;          /* -1: not opened yet. Under open_mu until it is open, then constant */
    bool direct;
};

struct sk_spill_stretch {
    struct sk_list link;        /* sp->stretches, or sp->dead (under mu) */
    struct sk_spill_file *file; /* a reference */
    uint64_t off, len;
    uint64_t punched_bytes; /* of len: given back already */
    uint32_t n_live;        /* objects that have their place here, and reads under way */
    uint32_t n_dead;        /* pages without any of those, not given back yet */
    /* how many of those lie on each page, see spill.c; NULL: one object has it all */
    uint8_t *pages;
};

struct sk_spill_holes { /* pages of a stretch to give back to the disk */
    struct sk_list link;
    struct sk_spill_file *file; /* a reference */
    uint32_t n;
    struct sk_spill_hole {
        uint64_t off, len;
    } run[];
};

struct sk_spill {
    /* the book: the caller's thread only */
    struct sk_spill_place *places;
    uint32_t n_places, next_place;
    char *names; /* of all directories, for messages */
    uint64_t quota_bytes, disk_bytes, overflow_bytes;
    bool quota_of_free; /* quota_bytes is what free_there found last */
    uint64_t n_written, written_bytes, n_read, read_bytes, n_failed;
    uint64_t n_files_made;
    _Atomic uint64_t io_read_bytes; /* the threads' */
    struct sk_list stretches;
    void (*wake)(void *arg);
    void *wake_arg;
    uint32_t n_threads; /* started so far */
    struct sk_spill_io {
        struct sk_spill *sp;
        pthread_t thread;
        bool writes;
        uint8_t *buf; /* its own; NULL: given back */
    } io[SK_SPILL_THREADS];
    /* shared with the threads */
    pthread_mutex_t open_mu;         /* taken alone or before mu */
    pthread_mutex_t mu;              /* guards what follows; never held during I/O */
    pthread_cond_t more, more_reads; /* for threads that write, and for those that do not */
    _Atomic bool stop;
    struct sk_list reads, writes; /* jobs of which not all was begun */
    struct sk_list dead;          /* stretches to give back to the disk */
    struct sk_list holes;         /* parts of others */
    struct sk_list done;          /* jobs */
    struct sk_list files;
    uint32_t n_files; /* open */
    _Atomic uint32_t n_done;
};

void *sk_spill_thread(void *io);
int sk_spill_nameless(const char *dir,
                      /* a file there; -1: errno. direct: past the page cache, if that can be; set
                       * to what came of it */
                      bool *direct);
bool sk_spill_turn(void *sp); /* one thing that a thread would do; false: there is nothing */
void sk_spill_file_close(struct sk_spill *sp, struct sk_spill_file *f); /* and frees it */

#endif
