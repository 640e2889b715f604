/* spill_int.h - shared by spill.c (the book) and spill_io.c (threads and system calls).
 *
 *   file (without a name):  [stretch: object pad, object pad, ... pad to 4 KiB][stretch ...][hole]
 *
 * An object is its chunks of 4 KiB, each behind its checksum, padded to 64 bytes. A *stretch* has
 * the objects of one write job. It starts at a multiple of 4 KiB and is padded to one, so that it
 * can be written and read without the page cache. */
#ifndef SK_SPILL_INT_H
#define SK_SPILL_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/containers/list.h"
#include "store/store.h"

#define SK_SPILL_PAGE 4096u
#define SK_SPILL_ALIGN 64u              /* alignment in bytes of an object's place */
#define SK_SPILL_BUF ((size_t)4 << 20)  /* largest write in bytes */
#define SK_SPILL_LOOK ((size_t)1 << 20) /* largest read in bytes */
#define SK_SPILL_WRITERS 2u             /* threads that write and read */
#define SK_SPILL_THREADS 6u /* number of all threads; those that are not writers only read */
#define SK_SPILL_FILE_BYTES (UINT64_C(128) << 20)

/* On disk an object is a row of chunks; each is a checksum of 4 bytes (in the machine's byte order:
 * no other machine reads the file) and up to 4 KiB of the object. The checksum starts from the
 * object's id, its length and the chunk's number, so bytes of another place or of another object
 * fail the check, and a read of a part needs only the chunks that the part touches. An object of 0
 * bytes has one empty chunk. */
#define SK_SPILL_CHUNK UINT64_C(4096)
#define SK_SPILL_SUM sizeof(uint32_t)

static inline uint64_t sk_spill_n_chunks(uint64_t len) {
    return len ? (len + SK_SPILL_CHUNK - 1) / SK_SPILL_CHUNK : 1;
}
/* Offset of chunk i from at.off. */
static inline uint64_t sk_spill_chunk_at(uint64_t i) { return i * (SK_SPILL_SUM + SK_SPILL_CHUNK); }
static inline uint64_t sk_spill_on_disk(uint64_t len) {
    return SK_ALIGN(len + sk_spill_n_chunks(len) * SK_SPILL_SUM, SK_SPILL_ALIGN);
}
static inline uint64_t sk_spill_first_chunk(const struct sk_spill_item *x) {
    return x->part_len ? x->part_at / SK_SPILL_CHUNK : 0;
}
static inline uint64_t sk_spill_begins(const struct sk_spill_item *x) {
    /* offset in the file of the first byte that a read of x needs */
    return x->at.off + sk_spill_chunk_at(sk_spill_first_chunk(x));
}
/* The start value of a chunk's checksum. */
uint32_t sk_spill_sum(uint64_t id, uint64_t len, uint64_t chunk);

/* one directory; used by the caller's thread only, except `path`, which never changes */
struct sk_spill_place {
    char *path;
    struct sk_spill_file *cur; /* file that takes the next stretches; NULL: none yet */
    /* time of the last failed write to the directory (full or broken); 0: none */
    int64_t refused_ns;
};

struct sk_spill_file {
    struct sk_list link; /* in sp->files; changed under mu */
    struct sk_spill_place *place;
    /* Reference count, guarded by mu: stretches, lists of holes to be punched, and 1 while the
     * file takes new stretches. */
    uint32_t refs;
    uint64_t end;    /* bytes given to stretches; the caller's thread only */
    uint64_t serial; /* number of the file; the caller's thread only */
    int fd;          /* -1: not opened yet. Set once under open_mu, then constant */
    bool direct;
};

struct sk_spill_stretch {
    struct sk_list link;        /* in sp->stretches, or in sp->dead (under mu) */
    struct sk_spill_file *file; /* holds a reference to the file */
    uint64_t off, len;
    uint64_t punched_bytes; /* bytes of len that have been returned to the disk */
    uint32_t n_live;        /* objects in this stretch, and reads under way */
    uint32_t n_dead; /* pages without object or read that were not returned to the disk yet */
    /* For each page, how many objects and reads use it (see spill.c); NULL: one object has the
     * whole stretch. */
    uint8_t *pages;
};

struct sk_spill_holes { /* pages of a stretch to be returned to the disk */
    struct sk_list link;
    struct sk_spill_file *file; /* holds a reference to the file */
    uint32_t n;
    struct sk_spill_hole {
        uint64_t off, len;
    } run[];
};

struct sk_spill {
    /* the book: used by the caller's thread only */
    struct sk_spill_place *places;
    uint32_t n_places, next_place;
    char *names; /* names of all directories, for messages */
    uint64_t quota_bytes, disk_bytes, overflow_bytes;
    bool quota_of_free; /* quota_bytes was computed from the free space of the disks */
    uint64_t n_written, written_bytes, n_read, read_bytes, n_failed;
    uint64_t n_files_made;
    _Atomic uint64_t io_read_bytes; /* bytes that the threads have read from files */
    struct sk_list stretches;
    void (*wake)(void *arg);
    void *wake_arg;
    uint32_t n_threads; /* threads started so far */
    struct sk_spill_io {
        struct sk_spill *sp;
        pthread_t thread;
        bool writes;
        uint8_t *buf; /* buffer of this thread; NULL: freed while idle */
    } io[SK_SPILL_THREADS];
    /* shared with the threads, from here on */
    pthread_mutex_t open_mu;         /* opens files; locked alone or before mu */
    pthread_mutex_t mu;              /* guards the members below; never held during I/O */
    pthread_cond_t more, more_reads; /* wake threads that write; threads that only read */
    _Atomic bool stop;
    struct sk_list reads, writes; /* jobs that are not wholly begun */
    struct sk_list dead;          /* stretches to return to the disk */
    struct sk_list holes;         /* parts of other stretches to return to the disk */
    struct sk_list done;          /* jobs that are done, until sk_spill_next_done takes them */
    struct sk_list files;
    uint32_t n_files;   /* number of open files */
    uint32_t n_writing; /* threads that write a job */
    /* time up to which write_ns counts, while there are such threads */
    int64_t counted_ns;
    /* Written under mu, read without: bytes that the threads have written to files, and the time in
     * which at least one of them wrote, up to the end of its last job. */
    _Atomic uint64_t io_written_bytes;
    _Atomic int64_t write_ns;
    _Atomic uint32_t n_done;
};

void *sk_spill_thread(void *io);
/* Opens a file without a name in `dir`. Returns its descriptor, or -1 and sets errno. *direct: in,
 * whether O_DIRECT (no page cache) is requested; out, whether it is set. */
int sk_spill_nameless(const char *dir, bool *direct);
bool sk_spill_turn(void *sp); /* does one piece of a thread's work; false: there is none */
void sk_spill_file_close(struct sk_spill *sp, struct sk_spill_file *f); /* closes and frees f */

#endif
