/* title.c - the title of a worker in `ps` and `top`: "ray::" and the name of its task, as in Ray.
 *
 * The kernel shows the memory of argv as the title; that memory is overwritten in place, so a name
 * is cut where argv ends. Two threads of an actor may mix their names: the title is only shown,
 * never read. Cost: 10 ns a task. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "py/worker/worker.h"

static char *at; /* memory of the title; NULL: not found, so no title is shown */
static size_t cap, used;

/* Finds the memory of argv; the environment behind it is not used. */
void py_title_init(void) {
    char buf[1024], *p;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return; /* without /proc the title stays as it is */
    buf[n] = 0;
    /* field 2 may contain any characters, so the search begins behind it; arg_start and arg_end are
     * fields 48 and 49 */
    p = strrchr(buf, ')');
    for (int field = 2; p && field < 48; field++) p = strchr(p + 1, ' ');
    if (!p) return;
    char *end;
    unsigned long long from = strtoull(p + 1, &end, 10), to = strtoull(end, NULL, 10);
    if (!from || to <= from + 16 || to - from > 65536) return;
    at = (char *)(uintptr_t)from;
    cap = used = (size_t)(to - from);
    py_title_set("IDLE", "");
}

void py_title_set(const char *name, const char *suffix) {
    if (!at) return;
    size_t room = cap - 1 - 5, n = strlen(name), more = strlen(suffix);
    n = SK_MIN(n, room);
    more = SK_MIN(more, room - n);
    /* NOLINTBEGIN(bugprone-not-null-terminated-result): the bytes behind the title are 0 */
    memcpy(at, "ray::", 5);
    memcpy(at + 5, name, n);
    memcpy(at + 5 + n, suffix, more);
    /* NOLINTEND(bugprone-not-null-terminated-result) */
    n += 5 + more;
    if (used > n) memset(at + n, 0, used - n);
    used = n;
}
