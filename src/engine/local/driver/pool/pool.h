/* pool.h - worker processes: when they are made and ended, and the fork server that makes them.
 *
 * Calls: link, prints, send, space. The code of this part may call these parts of the driver and no
 * others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_POOL_H
#define SK_LOCAL_POOL_H

#include "engine/conf.h"
#include "engine/local/driver/link/link.h"
#include "engine/rules/starts.h"
#include "ipc/ipc.h"

struct sk_local;
struct sk_lworker;
struct sk_err;

struct sk_worker_pool {          /* state of pool.c */
    struct sk_lworker **workers; /* by slot, NULL = free */
    /* n_slots: most processes at once; workers[n_used..] were never used */
    uint32_t n_slots, n_used;
    uint32_t n_live, next_proc;
    /* of n_live: workers told to end, to make room for a process of another kind */
    uint32_t n_evicted;
    uint32_t n_bad_starts; /* processes in a row that ended before they were ready */
    /* not empty: the reason why no worker can be made; the loop then fails all tasks and actors
     * that wait for a worker */
    char in_vain[320];
    struct {              /* forks that the system refused while there were other processes */
        uint32_t n;       /* number of refusals in a row */
        int32_t e;        /* errno of the last refusal */
        uint32_t there;   /* number of processes at the time of that refusal */
        int64_t again_ns; /* when the next fork is tried */
    } refused;
    int64_t look_ns; /* time of the next sk_pool_look */
    int64_t idle_reap_ns;
    /* l->forksrv has ended; a new one is started when a worker is needed */
    bool server_dead;
    struct sk_starts starts; /* starts of fork servers */
    uint64_t n_servers;      /* number of fork servers started, with the first */
    struct {                 /* how a fork server is started; set when the engine is opened */
        char *const *argv, *const *env;
        struct {
            uint8_t *p;
            size_t n;
        } note; /* preload notes, sent again to a new server */
    } spawn;
};

/* Sets the pool up, without starting a process. */
sk_rc sk_pool_open(struct sk_local *l, const struct sk_engine_conf *conf,
                   struct sk_err *err) SK_MUST_USE;
void sk_pool_close(struct sk_local *l);
/* Most worker processes at the moment: max_workers or, for a second after the system refused
 * several forks in a row, as many as there were. */
uint32_t sk_pool_limit(const struct sk_local *l);
/* Makes a worker. NULL: the system refused, or the limit is reached; in the latter case an idle
 * worker of another kind is told to end, and its end leads to another try. */
struct sk_lworker *sk_pool_spawn(struct sk_local *l);
/* Reports of the fork server about w: its process was made; the system refused to make it (errno
 * `e`). */
void sk_pool_started(struct sk_local *l, struct sk_lworker *w, int32_t pid);
void sk_pool_refused(struct sk_local *l, struct sk_lworker *w, int32_t e);
/* Call when the process of w has ended. pid: its pid, if the fork server had not reported it
 * before. */
void sk_pool_ended(struct sk_lworker *w, int32_t pid);
/* Call when the first message of w has arrived: w can be given tasks. */
void sk_pool_ready(struct sk_local *l, struct sk_lworker *w, int32_t pid);
/* Frees the slot of w, whose process has ended. */
void sk_pool_gone(struct sk_local *l, struct sk_lworker *w);
/* Call when a process has ended before it was ready. After several in a row, the loop fails all
 * tasks and actors that wait for workers. */
void sk_pool_bad_start(struct sk_local *l, const char *why);
/* state as in sk_worker_info */
static inline uint32_t sk_pool_worker_state(const struct sk_lworker *w) {
    return w->killed                         ? 3
           : w->place.state == SK_W_STARTING ? 0
           : w->place.state == SK_W_IDLE     ? 1
                                             : 2;
}
/* Takes tasks that have not begun off workers whose process is stopped (SIGSTOP, a debugger).
 * Called from time to time. */
void sk_pool_look(struct sk_local *l, int64_t now_ns);
/* Ends idle workers that are not needed, and takes back leases and pages of the store that are
 * not used. */
void sk_pool_reap(struct sk_local *l, int64_t now_ns);
/* starts a fork server */
sk_rc sk_pool_server(struct sk_local *l, struct sk_err *err) SK_MUST_USE;
/* True if the user has closed descriptors that are needed to make workers. */
bool sk_pool_fd_lost(const struct sk_local *l);
/* Records that the fork server has ended, and its workers with it; the workers' ends are still to
 * be handled. True: the server ended by itself. */
bool sk_pool_server_gone(struct sk_local *l);
/* Call when a fork server ended or could not be started before any worker was ready: another one is
 * started after a wait, or the loop fails all tasks and actors that wait for workers. */
void sk_pool_server_failed(struct sk_local *l, bool by_itself, const char *why);
/* Moves in_vain into why[cap]. */
void sk_pool_take_in_vain(struct sk_local *l, char *why, size_t cap);
bool sk_pool_any_up(const struct sk_local *l);
bool sk_pool_check(const struct sk_local *l);
/* number of processes in a row that may end before they are ready, before the engine gives up */
#define SK_BAD_STARTS 8

#endif
