/* spill_int.h - shared by spill.c (the book) and spill_io.c (threads and system calls).
 *
 *   file (nameless):  [stretch: head bytes pad, head bytes pad, ... pad to 4 KiB][stretch ...][punched][stretch ...
 *
 * Each object is a head of 64 bytes, its sums and its bytes, each padded to 64. Sums: of an object of more than 64 KiB, the checksum of each 64 KiB of it, so that a
 * part can be read and checked by itself. A stretch starts at a multiple of 4 KiB and is padded to one, so that it can be
 * written and read without the page cache. */
#ifndef SK_SPILL_INT_H
#define SK_SPILL_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "store/store.h"

#define SK_SPILL_PAGE 4096u
#define SK_SPILL_HEAD 64u
#define SK_SPILL_BUF ((size_t)4 << 20) /* one write or read at most */
#define SK_SPILL_THREADS 2u
#define SK_SPILL_FILE_BYTES (UINT64_C(128) << 20)
#define SK_SPILL_MAGIC 0x4c505353u
#define SK_SPILL_CHUNK (UINT64_C(64) << 10)

struct sk_spill_head { /* on disk, little-endian as the machine is; no other process reads it */
    uint32_t magic, version;
    uint64_t id, len;
    uint32_t crc;      /* of the sums; without those, of the bytes */
    uint32_t head_crc; /* of what is above */
    uint8_t pad[32];
};
_Static_assert(sizeof(struct sk_spill_head) == SK_SPILL_HEAD, "fixed layout");

static inline uint64_t sk_spill_n_sums(uint64_t len) { return len > SK_SPILL_CHUNK ? (len + SK_SPILL_CHUNK - 1) / SK_SPILL_CHUNK : 0; }
static inline uint64_t sk_spill_body(uint64_t len) { /* where the bytes begin, behind at.off */
    return SK_SPILL_HEAD + SK_ALIGN(sk_spill_n_sums(len) * sizeof(uint32_t), SK_SPILL_HEAD);
}

struct sk_spill_place { /* one directory; the book's, but `path`, which is constant */
    char *path;
    struct sk_spill_file *cur; /* the file that grows; NULL: none yet */
    int64_t refused_ns;        /* it was full, or broken, then; 0: not that we know */
};

struct sk_spill_file {
    struct sk_list link; /* sp->files; changed under mu */
    struct sk_spill_place *place;
    uint32_t refs;   /* under mu: its stretches, holes that wait, and one while it is the one that grows */
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
    uint8_t *pages;         /* how many of those lie on each page, see spill.c; NULL: one object has it all */
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
    pthread_t threads[SK_SPILL_THREADS];
    /* shared with the threads */
    pthread_mutex_t open_mu; /* taken alone or before mu */
    pthread_mutex_t mu;      /* guards what follows; never held during I/O */
    pthread_cond_t more;
    _Atomic bool stop;
    struct sk_list reads, writes; /* jobs that wait */
    struct sk_list dead;          /* stretches to give back to the disk */
    struct sk_list holes;         /* parts of others */
    struct sk_list done;          /* jobs */
    struct sk_list files;
    uint32_t n_files; /* open */
    _Atomic uint32_t n_done;
};

void *sk_spill_thread(void *sp);
int sk_spill_nameless(const char *dir,
                      bool *direct); /* a file there; -1: errno. direct: past the page cache, if that can be; set to what came of it */
bool sk_spill_turn(void *sp);        /* one thing that a thread would do; false: there is nothing */
void sk_spill_file_close(struct sk_spill *sp, struct sk_spill_file *f); /* and frees it */

#endif
