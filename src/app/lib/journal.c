/* journal.c - the finished outputs of a job, in a text file. */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

/* how long to wait for the lock, in 0.1 s: a killed controller holds it until the kernel has freed
 * its memory */
enum { PATIENCE = 100 };

static void add(struct journal *j, const char *line) {
    if (j->fd >= 0 && write(j->fd, line, strlen(line)) != (ssize_t)strlen(line))
        tool_die("%s: %s", j->path, strerror(errno));
}

struct journal journal_open(const char *path, uint64_t fingerprint, uint32_t n, uint64_t *done) {
    struct journal j = {-1, path};
    struct stat st;
    memset(done, 0, n * sizeof *done);
    if (!path) return j;
    if ((j.fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) < 0)
        tool_die("%s: %s", path, strerror(errno));
    for (int i = 0; flock(j.fd, LOCK_EX | LOCK_NB); i++) {
        if (i == PATIENCE) tool_die("%s: another process has this job", path);
        (void)poll(NULL, 0, 100);
    }
    if (fstat(j.fd, &st)) tool_die("%s: %s", path, strerror(errno));
    char head[80], *text = tool_need(calloc(1, (size_t)st.st_size + 1));
    if (tool_read(j.fd, text, (size_t)st.st_size, 0)) tool_die("%s: %s", path, strerror(errno));
    snprintf(head, sizeof head, "cloudsort 1 %016" PRIx64 " %" PRIu32 "\n", fingerprint, n);
    char *last = strrchr(text, '\n'), *line = text + strlen(head);
    if (!last) { /* the file is new, or its first line is incomplete */
        if (ftruncate(j.fd, 0)) tool_die("%s: %s", path, strerror(errno));
        add(&j, head);
    } else {
        if (strncmp(text, head, strlen(head)) != 0)
            tool_die("%s: the journal of another job (other input, output or options): give it the "
                     "same, or remove the journal and the output",
                     path);
        /* removes an incomplete last line */
        if (ftruncate(j.fd, last + 1 - text)) tool_die("%s: %s", path, strerror(errno));
        for (uint32_t i; line <= last; line = strchr(line, '\n') + 1) {
            uint64_t records;
            if (sscanf(line, "done %" SCNu32 " %" SCNu64, &i, &records) != 2 || i >= n)
                tool_die("%s: damaged: '%.40s'", path, line);
            done[i] = records + 1;
        }
    }
    free(text);
    return j;
}

void journal_done(struct journal *j, uint32_t output, uint64_t records) {
    char line[80];
    snprintf(line, sizeof line, "done %" PRIu32 " %" PRIu64 "\n", output, records);
    add(j, line);
}

void journal_remove(struct journal *j) {
    if (j->fd < 0) return;
    (void)unlink(j->path);
    (void)close(j->fd);
}
