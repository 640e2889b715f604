/* files.h - where the programs read and write: local files, and objects of S3 (s3://bucket/key)
 * where the build has libcurl.
 *
 * A call returns 0, or -1 and files_error() says what and why. A file that is written has its name
 * only when it is committed: it is whole or not there. Not thread-safe. Requests are counted,
 * because they cost money. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct files_out;
struct files_range { /* n bytes from `at` on, to memory */
    const char *url;
    uint64_t at;
    void *to;
    size_t n;
};
struct files_ops { /* files_local.c, files_s3.c */
    const char *scheme;
    int (*size)(const char *url, uint64_t *bytes, uint64_t *version);
    int (*read)(const struct files_range *r, size_t n);
    void (*ahead)(const struct files_range *r, uint32_t further); /* NULL: has no use for it */
    int (*create)(const char *url, struct files_out **out);
    int (*write)(struct files_out *o, const void *from, size_t n);
    int (*commit)(struct files_out *o); /* and frees */
    void (*abort)(struct files_out *o); /* and frees */
    int (*sweep)(const char *folder);
};
struct files_out {
    const struct files_ops *ops;
};
extern const struct files_ops files_local, files_s3;

/* version: another number when the file was written again (as far as one can see). */
int files_size(const char *url, uint64_t *bytes, uint64_t *version);
/* all of n ranges, or an error; several at a time where that is faster */
int files_read(const struct files_range *r, size_t n);
/* The range of the same size `further` ranges behind r will be read soon: it may be fetched
 * meanwhile. A hint: nothing waits for it, nothing can fail. */
void files_ahead(const struct files_range *r, uint32_t further);
/* Of this process: files of this machine are read and written past the page cache, where the file
 * system can. For more than memory could hold: what would be cached is gone before it is asked for
 * again, and memory that is filled for the first time costs more than the copy. */
extern bool files_past_cache;
int files_create(const char *url, struct files_out **out);
static inline int files_write(struct files_out *o, const void *from, size_t n) {
    return o->ops->write(o, from, n);
}
static inline int files_commit(struct files_out *o) { return o->ops->commit(o); }
static inline void files_abort(struct files_out *o) { o->ops->abort(o); }
/* Removes what writers that died have left in a folder (or below a prefix). A local folder is made
 * if it is not there. */
int files_sweep(const char *folder);

const char *files_error(void);
int files_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* -1 */
extern struct files_count {
    uint64_t gets, puts; /* requests to S3 by this process */
} files_count;

#endif
