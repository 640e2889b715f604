/* ipc_int.h - inside the ipc layer: what the two halves of the fork server say to each other
 * (proc.c asks, proc_server.c answers).
 *
 * Commands go driver -> server, one datagram each, fixed width; a note carries its bytes as a memfd
 * (SCM_RIGHTS), so that size never matters to the socket. Each command is answered by exactly one
 * datagram at once (STARTED, FAILED or the internal ACK), and ENDED
 * comes later by itself: that is what tells the driver that there is room again for commands it had
 * to hold back. */
#ifndef SK_IPC_INT_H
#define SK_IPC_INT_H

#include "ipc/ipc.h"

enum { FORK_SPAWN = 1, FORK_KILL = 2, FORK_NOTE = 3 };
enum { FORK_ACK = 0 }; /* a report's kind that sk_forksrv_next swallows */

struct fork_cmd {
    uint32_t kind;
    uint32_t worker;   /* SPAWN */
    int32_t pid, sig;  /* KILL */
    uint64_t note_len; /* NOTE; 0: no descriptor comes along */
};
_Static_assert(sizeof(struct fork_cmd) == 24, "on the wire");
_Static_assert(sizeof(struct sk_fork_report) == 24, "on the wire");

/* stray.c. Server and workers call it at their start, once each: what they fork from now on ends
 * with them. SK_EIO. */
sk_rc sk_stray_watch(struct sk_err *err) SK_MUST_USE;
void sk_stray_ours(bool ours); /* the next fork is the server's own: it makes a worker */

#define FORK_NOTE_MAX ((size_t)4 << 20)
#define FORK_ENV_SOCK "SKATE_FORK_FD"
#define FORK_ENV_DRIVER "SKATE_DRIVER_PID"
#define FORK_ENV_LIVE "SKATE_LIVE_FD"

#endif
