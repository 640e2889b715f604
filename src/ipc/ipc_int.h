/* ipc_int.h - inside the ipc layer: the messages between the two halves of the fork server (proc.c
 * asks, proc_server.c answers).
 *
 * Commands go from the driver to the server, one datagram each, of fixed width. A note carries its
 * bytes as a memfd (SCM_RIGHTS), so the socket does not limit its size. The server answers each
 * command at once by exactly one datagram (STARTED, FAILED or the internal ACK): that tells the
 * driver that the socket has room for commands that it had to hold back. ENDED is sent later,
 * unasked. */
#ifndef SK_IPC_INT_H
#define SK_IPC_INT_H

#include "ipc/ipc.h"

enum { FORK_SPAWN = 1, FORK_KILL = 2, FORK_NOTE = 3 };
enum { FORK_ACK = 0 }; /* kind of a report that sk_forksrv_next does not pass on */

struct fork_cmd {
    uint32_t kind;
    uint32_t worker;   /* of SPAWN */
    int32_t pid, sig;  /* of KILL */
    uint64_t note_len; /* of a NOTE command: length in bytes; 0: no descriptor is attached */
};
_Static_assert(sizeof(struct fork_cmd) == 24, "on the wire");
_Static_assert(sizeof(struct sk_fork_report) == 24, "on the wire");

/* Called by the server and by each worker at its start, once: from now on, processes that the
 * server or worker forks end together with it (stray.c). SK_EIO. */
sk_rc sk_stray_watch(struct sk_err *err) SK_MUST_USE;
/* witness.c: called by the server, once, after sk_stray_watch. Takes w->fd. */
void sk_witness_start(struct sk_witness *w, int driver_fd);
/* Tells the fork handler whether the child of the next fork is a worker: the server calls this with
 * true before it forks a worker, and with false afterwards. */
void sk_stray_ours(bool ours);

#define FORK_NOTE_MAX ((size_t)4 << 20)
#define FORK_ENV_SOCK "SKATE_FORK_FD"
#define FORK_ENV_DRIVER "SKATE_DRIVER_PID"
#define FORK_ENV_LIVE "SKATE_LIVE_FD"

#endif
