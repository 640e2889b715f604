/* wordcount.c - counts the words in the files of a folder, on all cores, with the C interface of
 * skate.
 *
 *     wordcount FOLDER [CPUS [REDUCERS [CHUNK_BYTES]]]          prints the total and the 20 most
 *     frequent words
 *
 * The program is its own worker: skate_worker_main at the top of main turns a started worker
 * process into a loop that runs the functions marked SKATE_TASK. There is no server to start and
 * nothing is left behind, however the program ends.
 *     file chunks --> map (a task a chunk) --> R partial tables each --> reduce (R tasks) --> R
 *     short lists --> the driver merges
 *                        \--> progress (an actor: one process, calls in order) <-- the driver asks
 *                        at the end
 *
 * A map task counts the words that begin in its chunk; table r has those whose hash is r mod R.
 * Tables stay in shared memory: reduce task r gets all tables r as arguments, mapped and not
 * copied, and starts when the last of them exists. The driver holds references only, and may
 * release one as soon as it was passed on. A map task whose worker dies is run again; it returns
 * the same tables, so nobody notices.
 *
 * A word is a run of ASCII letters and bytes above 127; letters count as lower case. The output
 * does not depend on the number of CPUs, of
 * reducers or the size of chunks: counts are sums, and the order is by count, then by bytes. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "skate.h"

enum { TOP = 1 + 20 }; /* the empty word stands for all: the total is just the most frequent */
struct word {
    const char *s;
    uint32_t len, hash;
    uint64_t n;
};
struct table {
    struct word *w;
    size_t n, cap;
}; /* open addressing; entries point into somebody's bytes */

static uint32_t hash(const char *s, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

/* a worker without memory ends; the task is tried elsewhere */
static void *need(void *p) { return p ? p : (abort(), p); }

static void add(struct table *t, const char *s, uint32_t len, uint32_t h, uint64_t n) {
    if (t->n * 2 >= t->cap) {
        struct table big = {need(calloc(t->cap ? t->cap * 2 : 1024, sizeof *t->w)), 0,
                            t->cap ? t->cap * 2 : 1024};
        for (size_t i = 0; i < t->cap; i++)
            if (t->w[i].s) add(&big, t->w[i].s, t->w[i].len, t->w[i].hash, t->w[i].n);
        free(t->w);
        *t = big;
    }
    size_t i = h & (t->cap - 1);
    while (t->w[i].s && (t->w[i].hash != h || t->w[i].len != len || memcmp(t->w[i].s, s, len) != 0))
        i = (i + 1) & (t->cap - 1);
    if (!t->w[i].s) t->w[i] = (struct word){s, len, h, 0}, t->n++;
    t->w[i].n += n;
}

static int by_rank(const void *a, const void *b) { /* frequent first, then by bytes */
    const struct word *x = a, *y = b;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);
    return x->n != y->n ? (x->n > y->n ? -1 : 1) : c ? c : x->len < y->len ? -1 : x->len > y->len;
}

static struct word *list(const struct table *t, int (*order)(const void *, const void *)) {
    /* its t->n words */
    struct word *w = need(malloc((t->n + 1) * sizeof *w));
    for (size_t i = 0, n = 0; i < t->cap; i++)
        if (t->w[i].s) w[n++] = t->w[i];
    if (order) qsort(w, t->n, sizeof *w, order);
    return w;
}

/* On the wire: count, length, bytes, one after the other. Returns the size; p may be NULL. */
static size_t wire(char *p, const struct word *w, size_t n) {
    size_t at = 0;
    for (; n; at += 12 + w->len, w++, n--)
        if (p)
            memcpy(p + at, &w->n, 8), memcpy(p + at + 8, &w->len, 4),
                memcpy(p + at + 12, w->s, w->len);
    return at;
}
static void wire_add(struct table *t, const char *p, size_t size) {
    for (const char *end = p + size; p < end;) {
        uint64_t n;
        uint32_t len;
        memcpy(&n, p, 8), memcpy(&len, p + 8, 4);
        add(t, p + 12, len, hash(p + 12, len), n);
        p += 12 + len;
    }
}

struct chunk {
    uint64_t size, off, len; /* of the file; of the chunk */
    char path[1000];
};
static struct progress {
    uint64_t bytes, words;
} so_far; /* of the actor */
SKATE_TASK(progress_new) { return SKATE_OK; }
SKATE_TASK(progress_add) {
    struct progress p = {0};
    int rc = skate_arg_copy(t, 0, &p, sizeof p);
    so_far.bytes += p.bytes, so_far.words += p.words;
    return rc;
}
SKATE_TASK(progress_get) { return skate_return(t, 0, &so_far, sizeof so_far); }

static int is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c > 127; }
/* Counts the words that begin in [i, end) of a file into tables by hash. */
static uint64_t count_words(struct table *t, size_t n_tables, unsigned char *s, uint64_t size,
                            uint64_t i, uint64_t end) {
    uint64_t n = 0, from;
    /* one that began before is not ours */
    while (i > 0 && i < size && is_letter(s[i - 1]) && is_letter(s[i])) i++;
    for (;; n++) {
        while (i < end && !is_letter(s[i])) i++;
        if (i >= end) return n;
        for (from = i; i < size && is_letter(s[i]); i++)
            s[i] = (unsigned char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]);
        uint32_t h = hash((char *)s + from, i - from);
        add(&t[h % n_tables], (char *)s + from, (uint32_t)(i - from), h, 1);
    }
}

SKATE_TASK(map) { /* chunk, handle of the actor -> one table a reducer */
    struct chunk c;
    skate_actor progress;
    size_t n_out = skate_n_returns(t);
    if (skate_arg_copy(t, 0, &c, sizeof c) || skate_arg_actor(t, 1, &progress)) return SKATE_EINVAL;
    int fd = open(c.path, O_RDONLY | O_CLOEXEC), rc = SKATE_OK;
    void *text =
        /* our own copy: it is put into lower case */
        fd < 0 ? MAP_FAILED : mmap(NULL, c.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd >= 0) close(fd);
    if (text == MAP_FAILED)
        return skate_actor_release(progress), skate_fail(t, "cannot read %s", c.path);
    struct table *words = need(calloc(n_out, sizeof *words));
    struct progress done = {c.len, count_words(words, n_out, text, c.size, c.off, c.off + c.len)};
    if (done.words) add(&words[hash("", 0) % n_out], "", 0, hash("", 0), done.words);
    for (size_t r = 0; r < n_out && !rc; r++) {
        struct word *w = list(&words[r], NULL);
        struct skate_buf b;
        if (!(rc = skate_buf_alloc(wire(NULL, w, words[r].n), &b))) {
            (void)wire(b.data, w, words[r].n); /* straight into shared memory */
            rc = skate_return_buf(t, r, &b, b.size);
        }
        free(w), free(words[r].w);
    }
    if (!rc)
        rc = skate_actor_call(progress, "progress_add", &SKATE_BYTES(&done, sizeof done), 1, 0,
                              NULL, NULL);
    skate_actor_release(progress);
    return free(words), munmap(text, c.size), rc;
}

SKATE_TASK(reduce) { /* tables -> the most frequent words in them */
    struct table words = {0};
    for (size_t i = 0, bytes; i < skate_n_args(t); i++) {
        const char *p = skate_arg_data(t, i, &bytes);
        wire_add(&words, p, bytes);
    }
    struct word *top = list(&words, by_rank);
    size_t n = words.n < TOP ? words.n : TOP, size = wire(NULL, top, n);
    char *out = need(malloc(size + 1));
    int rc = skate_return(t, 0, out, wire(out, top, n));
    return free(out), free(top), free(words.w), rc;
}

static void ok(int rc) {
    /* workers and memory go with it */
    if (rc) fprintf(stderr, "wordcount: %s: %s\n", skate_code_name(rc), skate_error()), exit(1);
}

int main(int argc, char **argv) {
    int worker = skate_worker_main(argc, argv);
    if (worker) return worker < 0;
    size_t n_reduce = argc > 3 ? (size_t)atoi(argv[3]) : 4, n_map = 0, cap = 64;
    uint64_t chunk_bytes = argc > 4 ? strtoull(argv[4], NULL, 10) : 1 << 20;
    if (argc < 2 || n_reduce < 1 || n_reduce > 1000 || chunk_bytes < 1)
        return fprintf(stderr, "usage: %s FOLDER [CPUS [REDUCERS [CHUNK_BYTES]]]\n", argv[0]), 2;
    ok(skate_init(SKATE_WITH(struct skate_opts, .cpus = argc > 2 ? atof(argv[2]) : 0)));
    skate_actor progress;
    ok(skate_actor_create("progress_new", NULL, 0, NULL, &progress));
    skate_ref *parts = need(malloc(cap * n_reduce * sizeof *parts)),
              *tops = need(malloc(n_reduce * sizeof *tops));
    struct dirent **files;
    int n_files = scandir(argv[1], &files, NULL, alphasort);
    if (n_files < 0) return perror(argv[1]), 1;
    for (int i = 0; i < n_files; free(files[i++])) {
        struct chunk c = {0};
        struct stat st;
        int len = snprintf(c.path, sizeof c.path, "%s/%s", argv[1], files[i]->d_name);
        if (len >= (int)sizeof c.path || stat(c.path, &st) || !S_ISREG(st.st_mode)) continue;
        for (c.size = (uint64_t)st.st_size; c.off < c.size; c.off += c.len, n_map++) {
            c.len = c.size - c.off < chunk_bytes ? c.size - c.off : chunk_bytes;
            if (n_map == cap) parts = need(realloc(parts, (cap *= 2) * n_reduce * sizeof *parts));
            struct skate_arg args[] = {SKATE_BYTES(&c, sizeof c), SKATE_ACTOR(progress)};
            ok(skate_submit("map", args, 2, n_reduce, NULL, &parts[n_map * n_reduce]));
        }
    }
    struct skate_arg *args = need(malloc((n_map + 1) * sizeof *args));
    for (size_t r = 0; r < n_reduce; r++) {
        for (size_t m = 0; m < n_map; m++) args[m] = SKATE_REF(parts[m * n_reduce + r]);
        ok(skate_submit("reduce", args, n_map, 1, NULL, &tops[r]));
    }
    /* the reduce tasks hold them now */
    for (size_t i = 0; i < n_map * n_reduce; i++) skate_release(parts[i]);
    struct table words = {0};
    struct skate_value *v = need(calloc(n_reduce, sizeof *v)), pv;
    for (size_t r = 0; r < n_reduce; r++) {
        ok(skate_get(tops[r], -1, &v[r]));
        wire_add(&words, v[r].data, v[r].size);
    }
    struct word *top = list(&words, by_rank);
    skate_ref asked;
    /* behind the calls of all map tasks: those are done */
    ok(skate_actor_call(progress, "progress_get", NULL, 0, 1, NULL, &asked));
    ok(skate_get(asked, -1, &pv));
    fprintf(stderr, "%llu bytes read\n",
            /* more when a map task was run again */
            (unsigned long long)((const struct progress *)pv.data)->bytes);
    for (size_t i = 0; i < words.n && i < TOP; i++)
        printf("%10llu %.*s\n", (unsigned long long)top[i].n, (int)top[i].len, top[i].s);
    skate_value_release(&pv), skate_release(asked), skate_actor_release(progress);
    for (size_t r = 0; r < n_reduce; r++) skate_value_release(&v[r]), skate_release(tops[r]);
    skate_shutdown();
    return free(files), free(top), free(words.w), free(v), free(args), free(tops), free(parts), 0;
}
