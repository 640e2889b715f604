/* files.h - the files that the programs read and write: local files, and objects of S3
 * (s3://bucket/key) if the build has libcurl.
 *
 * A call returns 0, or -1, and then files_error() says what failed and why. A file gets its name
 * only when it is committed: it is whole or does not exist. Not thread-safe. Requests to S3 are
 * counted, because they cost money. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct files_out;
/* a range of a file, n bytes from `at` on, and the memory that gets its bytes */
struct files_range {
    const char *url;
    uint64_t at;
    void *to;
    size_t n;
};
struct files_ops { /* the calls of one kind of files: files_local.c, files_s3.c */
    const char *scheme;
    int (*size)(const char *url, uint64_t *bytes, uint64_t *version);
    int (*read)(const struct files_range *r, size_t n);
    /* NULL: this kind of files does not gain from read-ahead */
    void (*ahead)(const struct files_range *r, uint32_t further);
    int (*create)(const char *url, struct files_out **out);
    int (*write)(struct files_out *o, const void *from, size_t n);
    int (*commit)(struct files_out *o); /* frees o, too */
    void (*abort)(struct files_out *o); /* frees o, too */
    int (*sweep)(const char *folder);
};
struct files_out {
    const struct files_ops *ops;
};
extern const struct files_ops files_local, files_s3;

/* Finds the size of a file. *version changes when the file is written again, as far as that can be
 * detected. */
int files_size(const char *url, uint64_t *bytes, uint64_t *version);
/* Reads all n ranges, several at a time if that is faster. */
int files_read(const struct files_range *r, size_t n);
/* A hint that the range of the same size `further` ranges behind r will be read soon; it may be
 * fetched meanwhile. Does not wait and cannot fail. */
void files_ahead(const struct files_range *r, uint32_t further);
/* Set by this process: local files are read and written past the page cache, where the file system
 * can. For data larger than memory: cached pages are gone before they are read again, and filling
 * fresh memory costs more than the copy. */
extern bool files_past_cache;
int files_create(const char *url, struct files_out **out);
static inline int files_write(struct files_out *o, const void *from, size_t n) {
    return o->ops->write(o, from, n);
}
static inline int files_commit(struct files_out *o) { return o->ops->commit(o); }
static inline void files_abort(struct files_out *o) { o->ops->abort(o); }
/* Removes what dead writers left in a folder (or below a prefix). A local folder is created if it
 * does not exist. */
int files_sweep(const char *folder);

const char *files_error(void);
/* sets files_error() and returns -1 */
int files_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern struct files_count {
    uint64_t gets, puts; /* requests that this process has made to S3 */
} files_count;

#endif
