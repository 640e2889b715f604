/* ipc.h - contract of the ipc layer: memfd segments, futex bells, single-producer rings, worker
 * processes.
 *
 * Knows bytes and processes; knows no task, object or column. Shared memory holds offsets and
 * fixed-width integers only.
 *
 * Lifetimes
 *  1. A segment is a memfd: no name in any file system, gone with the last process that maps it.
 *  2. A process may be SIGKILLed between any two instructions. A ring's consumer sees every message
 *     that was committed before and nothing of one that was only reserved. The surviving side never
 *     blocks on the dead one: waits carry a deadline, and the watcher (proc.c) rings the waiter's
 *         bell on a death.
 *  3. Children do not outlive the driver: the fork server watches a pidfd of the driver, and
 *     workers carry PR_SET_PDEATHSIG=SIGKILL towards the fork server, so SIGKILL of the driver
 *     takes all of them within milliseconds. What user code forks from them goes with them
 *     (stray.c).
 *
 * Thread-safety: an object belongs to one thread (or one lock) a side unless its comment says
 * otherwise. */
#ifndef SK_IPC_H
#define SK_IPC_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

/* ---- fd.c: descriptors of ours that the user may have closed --------------------------------- */

struct sk_fd_id { /* what a descriptor leads to; zero: nothing */
    uint64_t dev, ino;
};
struct sk_fd_id sk_fd_id(int fd);
bool sk_fd_ours(int fd, struct sk_fd_id was);
void sk_fd_close(int *fd, struct sk_fd_id was); /* unless it is someone else's by now */
#define SK_FD_LOST                                                                                 \
    "the program has closed descriptors of the engine (closefrom, os.closerange, dup2 over them, " \
    "a daemon); it should keep those that it "                                                     \
    "did not open, or call skate.init() after closing them"

/* ---- seg.c: memfd segments ------------------------------------------------------------------- */

struct sk_seg {
    int fd;        /* -1 when closed */
    uint8_t *base; /* mapped read-write over the whole size; sparse: untouched pages cost nothing */
    size_t size;   /* bytes, page multiple */
    int tail_fd;   /* sk_seg_tail; -1: none */
    size_t tail;   /* bytes that lie behind those, of a file */
    struct sk_fd_id id, tail_id;
};
#define SK_SEG_EMPTY ((struct sk_seg){.fd = -1, .tail_fd = -1})

/* Creates (close-on-exec, F_SEAL_SHRINK, mode 0600) and maps. Errors: SK_EIO, SK_ENOMEM. `huge`:
 * madvise(MADV_HUGEPAGE). */
sk_rc sk_seg_create(struct sk_seg *s, const char *label, size_t size, bool huge,
                    struct sk_err *err) SK_MUST_USE;
/* Maps a descriptor inherited from the creator; takes the descriptor (closed on failure) and makes
 * it close-on-exec. SK_ECORRUPT when the file is smaller than `size`. */
sk_rc sk_seg_attach(struct sk_seg *s, int fd, size_t size, bool huge,
                    struct sk_err *err) SK_MUST_USE;
void sk_seg_close(struct sk_seg *s);    /* idempotent */
void sk_seg_close_fd(struct sk_seg *s); /* the descriptors only: what is mapped stays so */
/* the user has closed a descriptor of it. What needs one says SK_EIO then */
bool sk_seg_lost(const struct sk_seg *s);
/* Maps `len` bytes of a file, from its start, right behind the segment: offsets [size, size + len)
 * of it are on disk, as far as the page cache does not hold them, and touching what sk_seg_fill did
 * not get is SIGBUS. Before anybody has an address in the segment: it moves. Takes the descriptor
 * (closed on failure, and the segment is as it was) and makes it close-on-exec. Errors: SK_EIO,
 * SK_ENOMEM, SK_ECORRUPT when the file is shorter. */
sk_rc sk_seg_tail(struct sk_seg *s, const char *label, int fd, size_t len,
                  struct sk_err *err) SK_MUST_USE;
/* Disk for [off, off+len) of the tail, which is then safe to touch until it is punched. SK_ENOSPC,
 * SK_EIO. */
sk_rc sk_seg_fill(struct sk_seg *s, sk_off off, size_t len, struct sk_err *err) SK_MUST_USE;
/* Gives the pages of [off, off+len) back to the system (FALLOC_FL_PUNCH_HOLE); partial pages at the
 * ends are kept. */
sk_rc sk_seg_punch(struct sk_seg *s, sk_off off, size_t len, struct sk_err *err) SK_MUST_USE;
uint64_t
/* bytes of pages that exist, without the tail; 0 when that cannot be known (a simulation) */
sk_seg_present(const struct sk_seg *s);
/* [off, off+len) is about to be written: the 2 MiB units that it touches and where many of its
 * pages are missing (*cold*: never written, or punched) come as huge pages, over 10 times cheaper
 * than faulting them in by 4 KiB pages (numbers in seg.c). Keeps all bytes, also of others in the
 * same units; any process that maps the segment may call it at any time. A hint: returns the bytes
 * that it fetched, 0 when nothing was cold or the kernel refuses (no MADV_COLLAPSE before Linux
 * 6.1, memory in pieces), and then the first write pays. */
size_t sk_seg_warm(struct sk_seg *s, sk_off off, size_t len);
/* Maps [off, off+len) once more, at an address of its own, to be written. `own`: what is written
 * from now on is seen by nobody else, while pages that are not written still show what the segment
 * holds (MAP_PRIVATE). *at NULL: a new window; else that window, of the same bytes, is replaced.
 * *at is the address of the first byte. SK_ENOSYS in a simulation. */
sk_rc sk_seg_window(const struct sk_seg *s, sk_off off, size_t len, bool own, void **at,
                    struct sk_err *err) SK_MUST_USE;
void sk_seg_window_close(void *at, size_t len);
/* The file that [off, off+len) is in, and where: *fd stays the segment's. SK_EINVAL: it is not in
 * the segment. */
sk_rc sk_seg_file(const struct sk_seg *s, sk_off off, size_t len, int *fd, uint64_t *at,
                  struct sk_err *err) SK_MUST_USE;

/* ---- sysmem.c: what the machine, or our cgroup, lets us have --------------------------------- */

struct sk_sysmem;
struct sk_sysmem_now {
    uint64_t limit_bytes,
        /* of the machine or a level of our cgroup: the one with the least left. The cache of files
         * is not used */
        used_bytes;
    uint64_t total_bytes; /* the least of all limits */
    char where[160];      /* whose limit that is, for messages */
};
/* Finds our cgroups (v1, v2, both). root: in front of all paths, for tests; NULL: none.
 * SK_ENOMEM. */
sk_rc sk_sysmem_create(struct sk_sysmem **out, const char *root, struct sk_err *err) SK_MUST_USE;
void sk_sysmem_destroy(struct sk_sysmem *m); /* NULL is fine */
/* limit_bytes is so many thousandths of a limit. SK_EIO: no /proc. One thread at a time. */
sk_rc sk_sysmem_read(struct sk_sysmem *m, uint32_t permille, struct sk_sysmem_now *out,
                     struct sk_err *err) SK_MUST_USE;
/* so far, by the kernel, in our cgroup (or, where there is none, on the machine) */
uint64_t sk_sysmem_oom_kills(struct sk_sysmem *m);
uint64_t sk_sysmem_cpu_milli(struct sk_sysmem *m); /* CPU quota in thousandths of a core, 0: none */
/* Memory of a process that is not of a file and not shared memory. False: it is gone. sk_proc_anon
 * counts what is shared with a parent by copy-on-write in full, sk_proc_own by its part, and counts
 * what is in swap; it costs 20 ms a GB. */
bool sk_proc_anon(pid_t pid, uint64_t *bytes);
bool sk_proc_own(pid_t pid, uint64_t *bytes);
/* A process as /proc tells it: its state, a letter ('T' or 't': it is stopped), and its parent.
 * False: it is gone. */
bool sk_proc_state(pid_t pid, char *state, pid_t *parent);

/* ---- futex.c: futex and bell ----------------------------------------------------------------- */

/* Shared (not private) futex. Returns 0 when woken or when *word != expected, SK_ETIMEOUT at the
 * deadline. EINTR counts as woken.
 * deadline_ns: CLOCK_MONOTONIC absolute, INT64_MAX = none. */
sk_rc sk_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);
void sk_futex_wake(_Atomic uint32_t *word, int n);

/* A bell: one sleeper, many ringers, in shared memory. No wake-up system call while the sleeper is
 * awake.
 *
 *  field   | writers        | readers | order                                   | what a crash
 *      leaves
 *  seq     | any ringer     | sleeper | fetch_add seq_cst                             | a ring that
 *      nobody hears twice: harmless
 *  asleep  | the sleeper, a | ringers | store token seq_cst, then re-read seq;        | a token
 *      with nobody asleep: one wasted wake
 *          | ringer clears  |         | ringer: compare-exchange token -> 0           |
 *
 * The token is the seq that the sleeper saw (times 2, plus 1; 0 = awake). A ringer clears only a
 * token older than its own ring: with a plain flag, a ringer delayed between its add and its
 * clearing would clear the flag of a *later* sleep that had already heard it, and the next ringer
 * would wake nobody (happened after 4 million messages of ipc_bench stream; tests/c/test_ipc_bell.c
 * keeps it). */
struct sk_bell {
    _Atomic uint32_t seq;
    _Atomic uint32_t asleep;
    uint8_t pad[56];
};
_Static_assert(sizeof(struct sk_bell) == 64, "one cache line");

void sk_bell_ring(struct sk_bell *b);
static inline uint32_t sk_bell_seq(struct sk_bell *b) {
    return atomic_load_explicit(&b->seq, memory_order_acquire);
}
/* Waits until seq != seen: spins up to spin_ns (pause; yields when a core is contended), then
 * sleeps to the deadline.
 * Pattern: seen = sk_bell_seq(b); if (nothing to do) sk_bell_wait(b, seen, ...). Returns SK_OK or
 * SK_ETIMEOUT. */
sk_rc sk_bell_wait(struct sk_bell *b, uint32_t seen, int64_t spin_ns, int64_t deadline_ns);

/* ---- ring.c: single-producer single-consumer message ring ------------------------------------ */

/* In shared memory: a header of three cache lines, then `size` data bytes (a power of two). A
 * message is an 8-byte header (length, flags) and a body, 8-byte aligned and contiguous; a wrap
 * marker fills the end. head and tail are 64-bit byte counts that never wrap. tail is published by
 * one release store in commit: everything before it can be lost. */
struct sk_ring_shm;
struct sk_ring { /* one side's private handle; producer and consumer each have their own */
    struct sk_ring_shm *shm;
    uint8_t *data;
    uint64_t size;
    uint64_t head, tail; /* this side's cached view of the other side, and its own position */
    /* producer: bytes of the message under construction; consumer: bytes of the message peeked */
    uint64_t reserved;
};
/* shared memory needed for a data size (power of two >= 4 KiB) */
size_t sk_ring_bytes(size_t size);
/* formats `mem`; either side may be used on this handle */
void sk_ring_create(struct sk_ring *r, void *mem, size_t size);
/* SK_ECORRUPT when magic, version or size in `mem` are not what `size` says. */
sk_rc sk_ring_attach(struct sk_ring *r, void *mem, size_t size, struct sk_err *err) SK_MUST_USE;
/* largest body that can ever be reserved (>= size/4) */
size_t sk_ring_max_msg(const struct sk_ring *r);
/* producer: body of `len` bytes, 8-aligned, or NULL when full now */
void *sk_ring_reserve(struct sk_ring *r, size_t len);
/* producer: publish; len <= reserved length */
void sk_ring_commit(struct sk_ring *r, size_t len);
/* Consumer: the next body or NULL when empty. Valid until pop. A header that cannot be true (peer
 * died in mid-air or went mad) gives NULL and *len = SIZE_MAX: treat the peer as dead. */
const void *sk_ring_peek(struct sk_ring *r, size_t *len);
void sk_ring_pop(struct sk_ring *r);
bool sk_ring_empty(struct sk_ring *r); /* consumer: nothing published that was not popped */
/* True when the structure is consistent (positions, magic, all message headers between head and
 * tail); used by kill tests. */
bool sk_ring_check(const struct sk_ring *r);

/* ---- proc.c: the fork server and the processes it makes -------------------------------------- */

/* Driver side. The fork server is a fresh exec of argv, single-threaded; it forks workers on
 * request, reaps them and reports how they ended. argv/envp: NULL-terminated (envp NULL: the
 * driver's); the child finds its control socket in environment variable SKATE_FORK_FD (a number),
 * the driver in SKATE_DRIVER_PID, and inherits exactly 0, 1, 2 and the descriptors listed in keep[]
 * (same numbers; keep they close-on-exec in the driver). `argv` must exec, not wrap: the server
 * checks that the driver is its parent. No call here waits for the server (it may be importing
 * modules for seconds), stop excepted. A struct sk_forksrv belongs to one lock. */
struct sk_forksrv_out; /* commands that the socket had no room for; flushed by every call below */
struct sk_forksrv {
    pid_t pid; /* 0 when not running */
    /* SOCK_SEQPACKET; -1 when not running; readable when a report is there (call next), EOF when
     * the server died */
    int sock;
    int pidfd; /* of the server: readable when it ended */
    /* read end of a pipe that server and workers hold open: EOF when the last of them is gone */
    int live;
    struct sk_forksrv_out *out;
    struct sk_fd_id sock_id, pidfd_id, live_id;
};
#define SK_FORKSRV_EMPTY ((struct sk_forksrv){.sock = -1, .pidfd = -1, .live = -1})
struct sk_fork_report { /* one datagram, fixed width */
    uint32_t kind;      /* SK_FORK_STARTED, SK_FORK_ENDED, SK_FORK_FAILED */
    uint32_t worker;    /* the caller's worker number */
    int32_t pid;
    int32_t status;        /* ENDED: as of waitpid; FAILED: the errno of fork */
    uint64_t maxrss_bytes; /* ENDED: peak resident set */
};
enum {
    SK_FORK_STARTED = 1,
    SK_FORK_ENDED = 2,
    SK_FORK_FAILED = 3 /* the system refused another process; pid is 0 */
};

/* What to look at when the system refuses a process or a thread. */
#define SK_FORK_HINT "check ulimit -u, and pids.max of the cgroup"

sk_rc sk_forksrv_start(struct sk_forksrv *f, char *const argv[], char *const envp[],
                       const int *keep, int n_keep, struct sk_err *err) SK_MUST_USE;
/* asynchronous; see report */
sk_rc sk_forksrv_spawn(struct sk_forksrv *f, uint32_t worker, struct sk_err *err) SK_MUST_USE;
/* Signals a worker that the server has not reaped yet (so never a stranger with a reused pid);
 * SK_OK says only that the request is on its way. */
sk_rc sk_forksrv_kill(struct sk_forksrv *f, pid_t pid, int sig, struct sk_err *err) SK_MUST_USE;
/* Free-form bytes for the server's Python half (modules to import before forking): delivered to
 * on_note in the server, in order with the spawns. At most 4 MiB (SK_EINVAL). */
sk_rc sk_forksrv_note(struct sk_forksrv *f, const void *p, size_t n,
                      struct sk_err *err) SK_MUST_USE;
/* Next report without blocking: SK_OK, SK_EAGAIN (none), SK_EDEAD (the server is gone and, with it,
 * all workers). */
sk_rc sk_forksrv_next(struct sk_forksrv *f, struct sk_fork_report *out,
                      struct sk_err *err) SK_MUST_USE;
/* SIGKILLs server and workers, waits for them (all gone on return; gives up after 2 s when a
 * process that user code forked and left behind still holds the liveness pipe), closes. Idempotent;
 * safe on SK_FORKSRV_EMPTY and on a zeroed struct. True: the server had ended by itself (exit, not
 * a signal), as far as anybody knows. */
bool sk_forksrv_stop(struct sk_forksrv *f);
/* it runs, and the user has closed a descriptor of it: commands and `next` say SK_EIO */
bool sk_forksrv_lost(const struct sk_forksrv *f);
/* True when the driver's half is consistent: all of its descriptors or none, what it holds back in
 * order, a note's bytes with each note and nothing with what has been sent. Its cost is what it
 * holds back. The server's own half is checked after each of its turns in debug builds. */
bool sk_forksrv_check(const struct sk_forksrv *f);

/* Server side: runs in the fresh exec until the driver goes away (then _exit). Returns only in a
 * forked worker, with its number. SIGINT is ignored in server and workers (a Ctrl-C reaches the
 * whole group of a terminal; the driver decides); SIGPIPE, too; SIGCHLD is default, the signal mask
 * is the one of the call. */
/* of whom the process belongs to, an interpreter; all are called in the server, each may be NULL */
struct sk_forksrv_hooks {
    void (*on_note)(void *ctx, const void *p, size_t n);
    void (*before_fork)(void *ctx); /* what it must do around a fork: directly before it, */
    /* and after it, refused or not. In the worker its turn comes when sk_forksrv_run has
     * returned */
    void (*after_fork)(void *ctx);
    void *ctx;
};
uint32_t sk_forksrv_run(int sock, const struct sk_forksrv_hooks *hooks); /* NULL: none */

/* ---- stray.c: what user code forks from a server or a worker, without starting another program
 * ------------------------------------- */

/* this process is one: it must touch no ring. It is killed when the server or worker that it comes
 * from ends */
extern bool sk_stray_;
/* Ends a stray that is about to do what only its parent may; `what` goes to stderr. */
void sk_stray_end(const char *what) __attribute__((noreturn));

/* ---- machine.c: another machine than this one ------------------------------------------------ */

/* For simulations: what stands in the place of the operating system, for the whole process and one
 * thread (tests/c/sim/machine). While one is set, segments, sleeping on bells and the fork server
 * are its; rings, bells' counts and all else stay as they are. */
struct sk_machine {
    void *ctx;
    /* page aligned; any content; NULL: no memory */
    uint8_t *(*seg_open)(void *ctx, const char *label, size_t size);
    void (*seg_close)(void *ctx, uint8_t *base);
    /* as sk_bell_wait */
    sk_rc (*bell_wait)(void *ctx, struct sk_bell *b, uint32_t seen, int64_t deadline_ns);
    /* reports come later */
    void (*spawn)(void *ctx, uint32_t worker);
    void (*kill)(void *ctx, pid_t pid, int sig);
    bool (*next)(void *ctx, struct sk_fork_report *out); /* false: none now */
    /* In the place of a thread: turn(arg) is called later, again and again until it says that there
     * is nothing to do. */
    void (*work)(void *ctx, bool (*turn)(void *arg), void *arg);
    void (*work_over)(void *ctx, void *arg);
    /* a file without a name; these return -1 with errno, as the calls that they stand for */
    int (*file_open)(void *ctx);
    ssize_t (*file_write)(void *ctx, int fd, const void *p, size_t n, uint64_t off);
    ssize_t (*file_read)(void *ctx, int fd, void *p, size_t n, uint64_t off);
    void (*file_punch)(void *ctx, int fd, uint64_t off, uint64_t len);
    /* 0, or errno: as posix_fallocate */
    int (*file_fill)(void *ctx, int fd, uint64_t off, uint64_t len);
    void (*file_close)(void *ctx, int fd);
    /* told: process `proc` has made a value in the store there */
    void (*sealed)(void *ctx, uint32_t proc, uint64_t off);
};
void sk_machine_set(const struct sk_machine *m); /* NULL: the real one again */
extern const struct sk_machine *sk_machine_;     /* NULL: the real one */

#endif
