/* ipc.h - contract of the ipc layer: memfd segments, futex bells, single-producer rings, worker
 * processes.
 *
 * The layer knows bytes and processes; it knows no task, object or column. Shared memory holds
 * offsets and fixed-width integers only.
 *
 * Lifetimes
 *  1. A segment is a memfd: it has no name in any file system and is gone with the last process
 *     that maps it.
 *  2. A process may be SIGKILLed between any two instructions. A ring's consumer then sees every
 *     message that was committed before, and nothing of a message that was only reserved. The
 *     surviving side never blocks on the dead one: waits carry a deadline, and the driver rings
 *     the waiter's bell when a process has died.
 *  3. Children do not outlive the driver: the fork server watches a pidfd of the driver, and
 *     workers carry PR_SET_PDEATHSIG=SIGKILL towards the fork server, so SIGKILL of the driver
 *     takes all of them within milliseconds. Processes that user code forks from them end with
 *     them (stray.c).
 *
 * Thread-safety: on each side, an object belongs to one thread (or one lock) unless its comment
 * says otherwise. */
#ifndef SK_IPC_H
#define SK_IPC_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/err.h"

/* ---- needs.c: the kernel --------------------------------------------------------------------- */

/* Fails where the kernel, or a sandbox, lacks a system call that nothing replaces. */
sk_rc sk_ipc_needs(struct sk_err *err) SK_MUST_USE;

/* ---- fd.c: descriptors of the engine, which the user may have closed ------------------------- */

struct sk_fd_id { /* identity of the file that a descriptor leads to; zero: none */
    uint64_t dev, ino;
};
struct sk_fd_id sk_fd_id(int fd);
bool sk_fd_ours(int fd, struct sk_fd_id was);
/* closes the descriptor, unless its number now belongs to a file of the user */
void sk_fd_close(int *fd, struct sk_fd_id was);
#define SK_FD_LOST                                                                                 \
    "the program has closed descriptors of the engine (closefrom, os.closerange, dup2 over them, " \
    "a daemon); it should keep those that it "                                                     \
    "did not open, or call skate.init() after closing them"

/* ---- seg.c: memfd segments ------------------------------------------------------------------- */

struct sk_seg {
    int fd;        /* the memfd; -1 when closed */
    uint8_t *base; /* the memory, mapped read-write in whole; untouched pages cost nothing */
    size_t size;   /* bytes, page multiple */
    int tail_fd;   /* file mapped behind the memory by sk_seg_tail; -1: none */
    size_t tail;   /* bytes of that file behind the memory; 0: none */
    struct sk_fd_id id, tail_id;
};
#define SK_SEG_EMPTY ((struct sk_seg){.fd = -1, .tail_fd = -1})

/* Creates a segment (close-on-exec, F_SEAL_SHRINK, mode 0600) and maps it. `huge` asks for huge
 * pages by madvise(MADV_HUGEPAGE). Errors: SK_EIO, SK_ENOMEM. */
sk_rc sk_seg_create(struct sk_seg *s, const char *label, size_t size, bool huge,
                    struct sk_err *err) SK_MUST_USE;
/* Maps a descriptor that was inherited from the creator, and makes it close-on-exec. The call takes
 * the descriptor (it is closed on failure). SK_ECORRUPT: the file is smaller than `size`. */
sk_rc sk_seg_attach(struct sk_seg *s, int fd, size_t size, bool huge,
                    struct sk_err *err) SK_MUST_USE;
void sk_seg_close(struct sk_seg *s);    /* unmaps and closes; idempotent */
void sk_seg_close_fd(struct sk_seg *s); /* closes the descriptors only; the mapping stays */
/* True if the user has closed a descriptor of the segment; calls that need the descriptor then fail
 * with SK_EIO. */
bool sk_seg_lost(const struct sk_seg *s);
/* Maps `len` bytes of a file, from its start, right behind the segment's memory. Offsets [size,
 * size + len) are then on disk as far as the page cache does not hold them; touching a part for
 * which sk_seg_fill has not reserved disk raises SIGBUS. The segment moves, so call this before
 * anybody has an address in it. The call takes the descriptor (on failure it is closed and the
 * segment unchanged) and makes it close-on-exec. Errors: SK_EIO, SK_ENOMEM, SK_ECORRUPT when the
 * file is shorter. */
sk_rc sk_seg_tail(struct sk_seg *s, const char *label, int fd, size_t len,
                  struct sk_err *err) SK_MUST_USE;
/* Reserves disk for [off, off + len) of the tail, which is then safe to touch until it is punched.
 * Errors: SK_ENOSPC, SK_EIO. */
sk_rc sk_seg_fill(struct sk_seg *s, sk_off off, size_t len, struct sk_err *err) SK_MUST_USE;
/* Returns the pages of [off, off+len) to the system (FALLOC_FL_PUNCH_HOLE); partial pages at
 * the ends are kept. */
sk_rc sk_seg_punch(struct sk_seg *s, sk_off off, size_t len, struct sk_err *err) SK_MUST_USE;
/* Bytes of pages that exist, without the tail; 0 if that cannot be known (in a simulation). */
uint64_t sk_seg_present(const struct sk_seg *s);
/* Call before [off, off + len) is written. Where many pages of a touched 2 MiB unit are missing
 * (*cold*: never written, or punched), the unit is fetched as a huge page, over 10 times cheaper
 * than page faults of 4 KiB (numbers in seg.c). All bytes of the units stay as they are; any
 * process that maps the segment may call this at any time. Only a hint: returns the bytes that it
 * fetched, 0 when nothing was cold or the kernel refuses (no MADV_COLLAPSE before Linux 6.1,
 * fragmented memory); the first write then pays. */
size_t sk_seg_warm(struct sk_seg *s, sk_off off, size_t len);
/* Maps [off, off + len) a second time, writable, at another address. With `own` writes stay private
 * to this mapping, while pages that are not written still show the segment (MAP_PRIVATE). *at NULL
 * makes a new window; else *at is a window of the same bytes, which is replaced. *at becomes the
 * address of the first byte. SK_ENOSYS in a simulation. */
sk_rc sk_seg_window(const struct sk_seg *s, sk_off off, size_t len, bool own, void **at,
                    struct sk_err *err) SK_MUST_USE;
void sk_seg_window_close(void *at, size_t len);
/* Finds the file that holds [off, off + len), and the offset in that file. The descriptor *fd stays
 * the segment's: do not close it. SK_EINVAL: the range is not in the segment. */
sk_rc sk_seg_file(const struct sk_seg *s, sk_off off, size_t len, int *fd, uint64_t *at,
                  struct sk_err *err) SK_MUST_USE;

/* ---- sysmem.c: how much memory and CPU the machine or the cgroup allows ---------------------- */

struct sk_sysmem;
struct sk_sysmem_now {
    /* Limit and use in bytes: of the machine, or of the level of the cgroup that has the least
     * left. The page cache of files does not count as used. */
    uint64_t limit_bytes, used_bytes;
    uint64_t total_bytes; /* the least of all limits, in bytes */
    char where[160];      /* the limit that limit_bytes comes from, for messages */
};
/* Finds the cgroups of this process (v1, v2 or both). `root` is put in front of all paths, for
 * tests; NULL: nothing. SK_ENOMEM. */
sk_rc sk_sysmem_create(struct sk_sysmem **out, const char *root, struct sk_err *err) SK_MUST_USE;
void sk_sysmem_destroy(struct sk_sysmem *m); /* NULL is fine */
/* Reads the memory's state; limit_bytes becomes `permille` thousandths of the limit. SK_EIO: /proc
 * cannot be read. One thread at a time. */
sk_rc sk_sysmem_read(struct sk_sysmem *m, uint32_t permille, struct sk_sysmem_now *out,
                     struct sk_err *err) SK_MUST_USE;
/* Number of kills by the kernel's out-of-memory killer so far, in the cgroup, or on the machine if
 * there is no cgroup. */
uint64_t sk_sysmem_oom_kills(struct sk_sysmem *m);
uint64_t sk_sysmem_cpu_milli(struct sk_sysmem *m); /* CPU quota in thousandths of a core; 0: none */
/* Private memory of a process in bytes: neither pages of files nor shared memory. false: the
 * process is gone. sk_proc_anon counts pages shared with a parent by copy-on-write in full.
 * sk_proc_own counts only the process's share of such pages, and swap; it costs 20 ms a GB. */
bool sk_proc_anon(pid_t pid, uint64_t *bytes);
bool sk_proc_own(pid_t pid, uint64_t *bytes);
/* The state of a process in /proc, a letter ('T' or 't': stopped), and its parent. false: the
 * process is gone. */
bool sk_proc_state(pid_t pid, char *state, pid_t *parent);

/* ---- futex.c: futex and bell ----------------------------------------------------------------- */

/* Waits on a shared (not private) futex. Returns 0 when woken or when *word != expected,
 * SK_ETIMEOUT at the deadline. A signal (EINTR) counts as a wake-up. deadline_ns: absolute
 * CLOCK_MONOTONIC, INT64_MAX = none. */
sk_rc sk_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);
void sk_futex_wake(_Atomic uint32_t *word, int n);

/* A bell in shared memory, with one sleeper and many ringers. While the sleeper is awake, ringing
 * makes no system call.
 *
 *  field  | writers                | readers | order                            | after a crash
 *  seq    | any ringer             | sleeper | fetch_add seq_cst                | harmless: a lost
 *                                                                                ring
 *  asleep | the sleeper stores a   | ringers | store seq_cst, then re-read seq; | harmless: one
 *         | token, a ringer clears |         | compare-exchange of the token to | wasted wake-up
 *         | it                     |         | 0                                |
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
/* Waits until seq != seen: spins up to spin_ns (with pauses; yields when the core is contended),
 * then sleeps until the deadline. Pattern: seen = sk_bell_seq(b); if (nothing to do)
 * sk_bell_wait(b, seen, ...). Returns SK_OK or SK_ETIMEOUT. */
sk_rc sk_bell_wait(struct sk_bell *b, uint32_t seen, int64_t spin_ns, int64_t deadline_ns);

/* ---- ring.c: single-producer single-consumer message ring ------------------------------------ */

/* In shared memory: a header of three cache lines, then `size` data bytes (a power of two). A
 * message is an 8-byte header (length, flags) and a body, 8-byte aligned and contiguous; a wrap
 * marker fills the end. head and tail are 64-bit byte counts that never wrap. One release store in
 * commit publishes tail; whatever was written before it is lost if the producer dies. */
struct sk_ring_shm;
struct sk_ring { /* private handle of one side; producer and consumer each have one */
    struct sk_ring_shm *shm;
    uint8_t *data;
    uint64_t size;
    /* byte counts: this side's own position, and its copy of the other side's */
    uint64_t head, tail;
    /* bytes with header: producer, of the reserved message; consumer, of the peeked message */
    uint64_t reserved;
};
/* Bytes of shared memory for a ring of `size` data bytes (a power of two, at least 4 KiB). */
size_t sk_ring_bytes(size_t size);
/* Formats `mem` as an empty ring; the handle may be used by either side. */
void sk_ring_create(struct sk_ring *r, void *mem, size_t size);
/* Opens a ring that exists. SK_ECORRUPT: magic, version or size in `mem` do not match `size`. */
sk_rc sk_ring_attach(struct sk_ring *r, void *mem, size_t size, struct sk_err *err) SK_MUST_USE;
/* The longest body that can ever be reserved (at least size / 4). */
size_t sk_ring_max_msg(const struct sk_ring *r);
/* Producer: returns room for a body of `len` bytes, 8-byte aligned, or NULL if the ring is full
 * now. */
void *sk_ring_reserve(struct sk_ring *r, size_t len);
/* Producer: publishes the message; len is at most the reserved length. */
void sk_ring_commit(struct sk_ring *r, size_t len);
/* Consumer: the next body, valid until pop, or NULL when the ring is empty. An impossible header
 * (the peer died half-way or corrupted the ring) gives NULL and *len = SIZE_MAX: treat the peer as
 * dead. */
const void *sk_ring_peek(struct sk_ring *r, size_t *len);
void sk_ring_pop(struct sk_ring *r);
bool sk_ring_empty(struct sk_ring *r); /* consumer: true if all published messages are popped */
/* True if the ring is consistent (positions, magic, all message headers between head and tail); for
 * kill tests. */
bool sk_ring_check(const struct sk_ring *r);

/* ---- proc.c: the fork server and the processes it makes -------------------------------------- */

/* Driver side. The fork server is a fresh, single-threaded exec of argv. It forks workers on
 * request, reaps them and reports how they ended. argv and envp are NULL-terminated (envp NULL: the
 * driver's environment). The server finds its control socket in environment variable SKATE_FORK_FD
 * (a number) and the driver's pid in SKATE_DRIVER_PID. It inherits exactly 0, 1, 2 and the
 * descriptors in keep[] (under the same numbers; keep them close-on-exec in the driver). `argv`
 * must exec the server and not start it as a child: the server checks that the driver is its
 * parent. No call here but stop waits for the server, which may be importing modules for seconds. A
 * struct sk_forksrv belongs to one lock. */
/* commands that did not fit into the socket; every call below sends as many as fit */
struct sk_forksrv_out;
struct sk_forksrv {
    pid_t pid; /* pid of the server; 0 when not running */
    /* Control socket (SOCK_SEQPACKET); -1 when not running. Readable when a report has arrived
     * (call sk_forksrv_next), EOF when the server has died. */
    int sock;
    int pidfd; /* pidfd of the server: readable when the server has ended */
    /* Read end of a pipe that server and workers hold open: EOF when the last of them has ended. */
    int live;
    struct sk_forksrv_out *out;
    struct sk_fd_id sock_id, pidfd_id, live_id;
};
#define SK_FORKSRV_EMPTY ((struct sk_forksrv){.sock = -1, .pidfd = -1, .live = -1})
struct sk_fork_report { /* sent as one datagram of fixed width */
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

/* Text for messages: the limits to look at when the system refuses a process or a thread. */
#define SK_FORK_HINT "check ulimit -u, and pids.max of the cgroup"

sk_rc sk_forksrv_start(struct sk_forksrv *f, char *const argv[], char *const envp[],
                       const int *keep, int n_keep, struct sk_err *err) SK_MUST_USE;
/* Asks for a worker; a report says later whether it started. */
sk_rc sk_forksrv_spawn(struct sk_forksrv *f, uint32_t worker, struct sk_err *err) SK_MUST_USE;
/* Asks the server to signal a worker. The server signals only workers that it has not reaped, so
 * never another process with a reused pid. SK_OK says only that the request is on its way. */
sk_rc sk_forksrv_kill(struct sk_forksrv *f, pid_t pid, int sig, struct sk_err *err) SK_MUST_USE;
/* Sends bytes to the Python side of the server (modules to import before forking); on_note gets
 * them there, in order with the spawn requests. At most 4 MiB (SK_EINVAL). */
sk_rc sk_forksrv_note(struct sk_forksrv *f, const void *p, size_t n,
                      struct sk_err *err) SK_MUST_USE;
/* Takes the next report without blocking: SK_OK, SK_EAGAIN (no report), SK_EDEAD (the server has
 * died and with it all workers). */
sk_rc sk_forksrv_next(struct sk_forksrv *f, struct sk_fork_report *out,
                      struct sk_err *err) SK_MUST_USE;
/* Kills server and workers by SIGKILL, waits for their end, and closes the descriptors. Gives up
 * the wait after 2 s, when a process that user code forked and left behind still holds the liveness
 * pipe. Idempotent; safe on SK_FORKSRV_EMPTY and on a zeroed struct. Returns true if the server had
 * already ended by itself (exit, not a signal), as far as that can be known. */
bool sk_forksrv_stop(struct sk_forksrv *f);
/* True if the server runs but the user has closed a descriptor of it; commands and sk_forksrv_next
 * then fail with SK_EIO. */
bool sk_forksrv_lost(const struct sk_forksrv *f);
/* True if the driver's half is consistent: it has all of its descriptors or none, the held commands
 * are in order, and exactly the notes that are not sent yet have their bytes. Costs a walk over the
 * held commands. The server's own half is checked after each of its turns in debug builds. */
bool sk_forksrv_check(const struct sk_forksrv *f);

/* Server side: runs in the fresh exec until the driver ends (then _exit). Returns only in a forked
 * worker, with the worker's number. Server and workers ignore SIGINT (a Ctrl-C reaches the
 * terminal's whole process group; the driver decides) and SIGPIPE; SIGCHLD is at its default; the
 * signal mask is that of the call. */
/* What a process does that the server makes at its start to outlive the driver for a moment
 * (witness.c). Server and witness close fd, which the callbacks do not need: they have the memory
 * mapped. Both are called in the witness, which is single-threaded and has no descriptor of the
 * server: they make system calls only. */
struct sk_witness {
    int fd;
    bool (*over)(void *ctx); /* the server has ended: true if there is nothing to save */
    void (*save)(void *ctx); /* the driver has ended */
    void *ctx;
};
/* Callbacks of the program that the server runs in (an interpreter). All are called in the server;
 * each may be NULL. */
struct sk_forksrv_hooks {
    void (*on_note)(void *ctx, const void *p, size_t n);
    void (*before_fork)(void *ctx); /* directly before each fork */
    /* Called in the server after each fork, also after one that failed. It is not called in the
     * worker: there the caller of sk_forksrv_run does this work. */
    void (*after_fork)(void *ctx);
    void *ctx;
    const struct sk_witness *witness; /* NULL: none */
};
uint32_t sk_forksrv_run(int sock, const struct sk_forksrv_hooks *hooks); /* hooks NULL: none */

/* ---- stray.c: processes that user code forks from a server or a worker without an exec ------- */

/* True in a process that a task forked (a *stray*): it must touch no ring. It is killed when the
 * server or worker that it comes from ends. */
extern bool sk_stray_;
/* Ends a stray that is about to do something that only its parent may do; `what` names that act
 * in the message on stderr. */
void sk_stray_end(const char *what) __attribute__((noreturn));

/* ---- machine.c: a simulated machine in the place of this one --------------------------------- */

/* For simulations: replaces the operating system, for the whole process, which must have one thread
 * (tests/c/sim/machine). While a machine is set, it provides segments, sleeping on bells and the
 * fork server; rings, the counts of bells and everything else work as always. */
struct sk_machine {
    void *ctx;
    /* Returns page-aligned memory with any content; NULL: no memory. */
    uint8_t *(*seg_open)(void *ctx, const char *label, size_t size);
    void (*seg_close)(void *ctx, uint8_t *base);
    /* sleeps like sk_bell_wait, without a spin */
    sk_rc (*bell_wait)(void *ctx, struct sk_bell *b, uint32_t seen, int64_t deadline_ns);
    /* requests a worker; `next` gives the report about it later */
    void (*spawn)(void *ctx, uint32_t worker);
    void (*kill)(void *ctx, pid_t pid, int sig);
    /* gives the next report, as sk_forksrv_next does; false: no report now */
    bool (*next)(void *ctx, struct sk_fork_report *out);
    /* Takes the place of a thread: the machine calls turn(arg) later, again and again, until turn
     * returns false because nothing is left to do. */
    void (*work)(void *ctx, bool (*turn)(void *arg), void *arg);
    void (*work_over)(void *ctx, void *arg);
    /* A file without a name. These calls return -1 and set errno, as the system calls that they
     * stand for. */
    int (*file_open)(void *ctx);
    ssize_t (*file_write)(void *ctx, int fd, const void *p, size_t n, uint64_t off);
    ssize_t (*file_read)(void *ctx, int fd, void *p, size_t n, uint64_t off);
    void (*file_punch)(void *ctx, int fd, uint64_t off, uint64_t len);
    /* Reserves disk like posix_fallocate: returns 0 or an errno. */
    int (*file_fill)(void *ctx, int fd, uint64_t off, uint64_t len);
    void (*file_close)(void *ctx, int fd);
    /* Called when process `proc` has made a value at offset `off` of the store. */
    void (*sealed)(void *ctx, uint32_t proc, uint64_t off);
};
void sk_machine_set(const struct sk_machine *m); /* NULL: back to the real machine */
extern const struct sk_machine *sk_machine_;     /* NULL: the real machine */

#endif
