/* fd.c - descriptors of ours among those of the user, who may close what he does not know
 * (closefrom, os.closerange, a daemon) and then has the number for a file
 * of his own: whoever of us is about to write to a number, to map it or to close it asks first
 * whether it still leads where it did.
 *
 * Files, pipes and sockets are told apart. Eventfds, epolls and (before Linux 6.9) pidfds are one
 * to the kernel, and only told apart from those.
 * Cost: an fstat, 0.2 us. */
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
