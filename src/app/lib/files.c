/* files.c - local files and S3 behind one set of calls: chooses the kind by the name, and keeps the
 * last error's message. */
#include "files.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char message[1200];
struct files_count files_count;
bool files_past_cache;

const char *files_error(void) { return message; }

int files_fail(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return -1;
}

static const struct files_ops *ops_of(const char *url) {
    if (strncmp(url, "s3://", 5) != 0) return &files_local;
#ifdef SKATE_CURL
    return &files_s3;
#else
    files_fail("%s: this build has no libcurl, so it knows no S3", url);
    return NULL;
#endif
}

int files_size(const char *url, uint64_t *bytes, uint64_t *version) {
    const struct files_ops *o = ops_of(url);
    return o ? o->size(url, bytes, version) : -1;
}
int files_read(const struct files_range *r, size_t n) {
    /* successive ranges of the same kind are read by one call */
    for (size_t i = 0, k; i < n; i += k) {
        const struct files_ops *o = ops_of(r[i].url);
        for (k = 1; i + k < n && ops_of(r[i + k].url) == o; k++) continue;
        if (!o || o->read(r + i, k)) return -1;
    }
    return 0;
}
void files_ahead(const struct files_range *r, uint32_t further) {
    const struct files_ops *o = ops_of(r->url);
    if (o && o->ahead) o->ahead(r, further);
}
int files_create(const char *url, struct files_out **out) {
    const struct files_ops *o = ops_of(url);
    return o ? o->create(url, out) : -1;
}
int files_sweep(const char *folder) {
    const struct files_ops *o = ops_of(folder);
    return o ? o->sweep(folder) : -1;
}
