/* needs.c - whether the kernel has what the layer cannot do without. Not here: what it can replace
 * (close_range, MADV_POPULATE_READ, huge pages), which is tried where it is used. Cost: four system
 * calls, once in a process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ipc/ipc.h"

sk_rc sk_ipc_needs(struct sk_err *err) {
    const char *call = "pidfd_open"; /* the youngest, of Linux 5.3 */
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd >= 0) {
        (void)close(fd);
        call = "memfd_create";
        fd = memfd_create("skate-needs", MFD_CLOEXEC);
    }
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) {
        if (fd >= 0) (void)close(fd);
        /* another failure, such as no descriptor, is told by the call that needs one */
        return SK_OK;
    }
    int why = errno;
    struct utsname is = {0};
    (void)uname(&is);
    return SK_ERR(err, SK_EIO,
                  "skate needs Linux 5.3 or newer, and %s is refused on this %s %s (%s); if the "
                  "kernel is newer, a sandbox forbids the call: allow it in its seccomp profile",
                  call, is.sysname, is.release, strerror(why));
}
