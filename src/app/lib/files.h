/* files.h - the files that the programs read and write: local files, and objects of S3
 * (s3://bucket/key) if the build has libcurl.
 *
 * A call returns 0, or -1; after -1, files_error() says what failed and why. An output file gets
 * its name only when it is committed, so a file with that name is complete. Not thread-safe.
 * Requests to S3 are counted, because they cost money. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct files_out;
/* n bytes of a file from offset `at` on, and the memory into which they are read */
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
    /* reads ahead; NULL: this kind of files does not gain from reading ahead */
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

/* Finds the size of a file in bytes. *version: a number that differs after the file was written
 * again, if that can be detected. */
int files_size(const char *url, uint64_t *bytes, uint64_t *version);
/* Reads all n ranges, several at a time if that is faster. */
int files_read(const struct files_range *r, size_t n);
/* A hint that another range of the same size, `further` ranges behind r, will be read soon, so that
 * it can be fetched meanwhile. Does not wait and cannot fail. */
void files_ahead(const struct files_range *r, uint32_t further);
/* If a program sets this, local files are read and written past the page cache, if the file system
 * can do that. It pays for data larger than memory: cached pages are dropped before they are read
 * again, and filling fresh memory costs more than the copy. */
extern bool files_past_cache;
int files_create(const char *url, struct files_out **out);
static inline int files_write(struct files_out *o, const void *from, size_t n) {
    return o->ops->write(o, from, n);
}
static inline int files_commit(struct files_out *o) { return o->ops->commit(o); }
static inline void files_abort(struct files_out *o) { o->ops->abort(o); }
/* Removes incomplete files that dead writers have left in a folder (or below a prefix). A local
 * folder is created if it does not exist. */
int files_sweep(const char *folder);

const char *files_error(void);
/* Sets the text of files_error(). Returns -1. */
int files_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern struct files_count {
    uint64_t gets, puts; /* requests that this process has made to S3 */
} files_count;

#endif
