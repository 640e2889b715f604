/* fd.c - tells whether a descriptor number still leads to the engine's file. User code may close
 * descriptors that it does not know (closefrom, os.closerange, a daemon) and then get the same
 * number for a file of its own. So the engine asks before it writes to a number, maps it or closes
 * it.
 *
 * Files, pipes and sockets are told apart. Eventfds, epolls and (before Linux 6.9) pidfds share one
 * identity in the kernel, so they are only told apart from the others. Cost: an fstat, 0.2 us. */
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/ipc_int.h"

struct sk_fd_id sk_fd_id(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? (struct sk_fd_id){st.st_dev, st.st_ino}
                                          : (struct sk_fd_id){0};
}

bool sk_fd_ours(int fd, struct sk_fd_id was) {
    struct sk_fd_id is = sk_fd_id(fd);
    return is.ino && is.ino == was.ino && is.dev == was.dev;
}

void sk_fd_close(int *fd, struct sk_fd_id was) {
    if (*fd >= 0 && sk_fd_ours(*fd, was)) (void)close(*fd);
    *fd = -1;
}
