/* pool.h - worker processes: which is made, which goes; the fork server that makes them.
 *
 * Calls: link, prints, send, space. */
#ifndef SK_LOCAL_POOL_H
#define SK_LOCAL_POOL_H

#include "engine/conf.h"
#include "engine/local/driver/link/link.h"
#include "engine/rules/starts.h"
#include "ipc/ipc.h"

struct sk_local;
struct sk_lworker;
struct sk_err;

struct sk_worker_pool {          /* pool.c */
    struct sk_lworker **workers; /* by slot, NULL = free */
    /* slots, which are so many processes at most; workers[n_used..] were never used */
    uint32_t n_slots, n_used;
    uint32_t n_live, next_proc;
    uint32_t n_evicted;    /* of n_live: told to make room for a process of another kind */
    uint32_t n_bad_starts; /* processes that ended before they were ready, since one was */
    /* not empty: why what waits for workers now waits in vain; the loop fails it */
    char in_vain[320];
    struct {              /* forks, by the system, while there were other processes */
        uint32_t n;       /* since one was not */
        int32_t e;        /* errno of the last */
        uint32_t there;   /* so many processes there were then */
        int64_t again_ns; /* when the next is asked for */
    } refused;
    int64_t look_ns; /* when they are looked at next: sk_pool_look */
    int64_t idle_reap_ns;
    /* l->forksrv has ended; a new one is started when a worker is wanted */
    bool server_dead;
    struct sk_starts starts; /* of servers */
    uint64_t n_servers;      /* that were started, with the first */
    struct {                 /* how a fork server is started, from the engine's opening on */
        char *const *argv, *const *env;
        struct {
            uint8_t *p;
            size_t n;
        } note; /* preload, replayed to a new one */
    } spawn;
};

/* starts nothing */
sk_rc sk_pool_open(struct sk_local *l, const struct sk_engine_conf *conf,
                   struct sk_err *err) SK_MUST_USE;
void sk_pool_close(struct sk_local *l);
/* How many processes there may be: max_workers, or as many as there were for a second after the
 * system refused one several times in a row. */
uint32_t sk_pool_limit(const struct sk_local *l);
/* Makes a worker. NULL: the system refuses one, or there are as many as there may be; then an idle
 * worker of another kind is told to end, and its end looks again. */
struct sk_lworker *sk_pool_spawn(struct sk_local *l);
/* What the fork server said of w: it has made its process; the system refused to (errno `e`). */
void sk_pool_started(struct sk_local *l, struct sk_lworker *w, int32_t pid);
void sk_pool_refused(struct sk_local *l, struct sk_lworker *w, int32_t e);
/* Its process has ended. pid: for one that the fork server had not told of. */
void sk_pool_ended(struct sk_lworker *w, int32_t pid);
/* The first message of w has come: it can be given tasks. */
void sk_pool_ready(struct sk_local *l, struct sk_lworker *w, int32_t pid);
/* Its process has ended: its slot is free. */
void sk_pool_gone(struct sk_local *l, struct sk_lworker *w);
/* A process ended before it was ready. After several in a row the loop fails what waits for
 * workers. */
void sk_pool_bad_start(struct sk_local *l, const char *why);
static inline uint32_t sk_pool_worker_state(const struct sk_lworker *w) { /* of sk_worker_info */
    return w->killed                         ? 3
           : w->place.state == SK_W_STARTING ? 0
           : w->place.state == SK_W_IDLE     ? 1
                                             : 2;
}
/* Takes tasks that have not begun off workers whose process is stopped (SIGSTOP, a debugger).
 * Called from time to time. */
void sk_pool_look(struct sk_local *l, int64_t now_ns);
/* Looks at idle workers, at leases, and at pages of the store that nobody uses. */
void sk_pool_reap(struct sk_local *l, int64_t now_ns);
sk_rc sk_pool_server(struct sk_local *l, struct sk_err *err) SK_MUST_USE; /* a fork server */
/* True if the user has closed descriptors that workers are made with. */
bool sk_pool_fd_lost(const struct sk_local *l);
/* The fork server has ended, and with it its workers, whose ends are not dealt with yet. True: it
 * ended by itself. */
bool sk_pool_server_gone(struct sk_local *l);
/* A fork server ended, or could not be started, before any worker was ready: the next one is
 * started after a while, or the loop fails what waits for workers. */
void sk_pool_server_failed(struct sk_local *l, bool by_itself, const char *why);
/* Moves the text of in_vain into why[cap]. */
void sk_pool_take_in_vain(struct sk_local *l, char *why, size_t cap);
bool sk_pool_any_up(const struct sk_local *l);
bool sk_pool_check(const struct sk_local *l);
/* so many processes in a row that end before they are ready: it is no accident */
#define SK_BAD_STARTS 8

#endif
