/* array_fuzz.c - Arrow batches from outside that lie: random trees of types, some facts of which
 * are changed, are given to sk_block_check_batch. What passes is used as operators use it:
 * measured, written, validated and read, taken into a batch, sliced and joined.
 *
 *     array_fuzz [ROUNDS] [FILE...]   prints "tried N refused N read N"; seed in SK_TEST_SEED
 *
 * A buffer that is too short cannot be found, so all buffers have room for the largest rows and
 * offsets that a lie may claim. */
#include <stdio.h>

#include "block_read.h"
#include "data/batch.h"
#include "fuzz.h"

enum { NODES = 64, SLOTS = 8, ROWS = 20, FAR = 3000, ROOM = 64 << 10 };

struct node {
    struct ArrowSchema s, *s_children[SLOTS];
    struct ArrowArray a, *a_children[SLOTS];
    const void *buffers[SLOTS];
};
static struct node nodes[NODES];
static uint8_t *room[NODES][SLOTS];
static uint32_t n_nodes;

static void die(const char *what, const char *why) {
    fprintf(stderr, "array_fuzz: %s: %s\n", what, why);
    abort();
}
static void release_array(struct ArrowArray *a) { a->release = NULL; }
static void release_schema(struct ArrowSchema *s) { s->release = NULL; }

/* Buffer i of the node that was made last, filled with zeros. */
static void *buffer(struct node *n, int i) {
    uint8_t **p = &room[n - nodes][i];
    if (!*p && !(*p = malloc(ROOM))) die("no memory", "");
    memset(*p, 0, 2048);
    return (void *)(uintptr_t)(n->buffers[i] = *p);
}

static struct node *new_node(const char *format, int64_t rows, int n_buffers) {
    struct node *n = &nodes[n_nodes++];
    memset(n, 0, sizeof *n);
    n->s = (struct ArrowSchema){.format = format,
                                .name = "x",
                                .flags = ARROW_FLAG_NULLABLE,
                                .children = n->s_children,
                                .release = release_schema};
    n->a = (struct ArrowArray){.length = rows,
                               .n_buffers = n_buffers,
                               .buffers = n->buffers,
                               .children = n->a_children,
                               .release = release_array};
    return n;
}
static void add_child(struct node *n, struct node *child) {
    n->s_children[n->s.n_children++] = &child->s;
    n->a_children[n->a.n_children++] = &child->a;
}

static struct node *make(int64_t rows, int depth);

static struct node *make_text(const char *format, int64_t rows, bool large) {
    struct node *n = new_node(format, rows, 3);
    int64_t at = 0;
    void *offsets = buffer(n, 1);
    for (int64_t i = 0; i <= rows; i++, at += (int64_t)(next() % 9))
        if (large) ((int64_t *)offsets)[i] = at;
        else ((int32_t *)offsets)[i] = (int32_t)at;
    (void)buffer(n, 2);
    return n;
}

static struct node *make_views(int64_t rows) {
    struct node *n = new_node(next() % 2 ? "vu" : "vz", rows, 4);
    int32_t *v = buffer(n, 1);
    (void)buffer(n, 2);
    *(int64_t *)buffer(n, 3) = 500;
    for (int64_t i = 0; i < rows; i++) v[4 * i] = (int32_t)(next() % 40), v[4 * i + 3] = (int32_t)i;
    return n;
}

static struct node *make_list(int64_t rows, int depth) {
    struct node *n = new_node(next() % 4 ? "+l" : "+L", rows, 2);
    bool large = n->s.format[1] == 'L';
    int64_t at = 0;
    void *offsets = buffer(n, 1);
    for (int64_t i = 0; i <= rows; i++) {
        if (large) ((int64_t *)offsets)[i] = at;
        else ((int32_t *)offsets)[i] = (int32_t)at;
        if (i < rows) at += (int64_t)(next() % 3);
    }
    add_child(n, make(at, depth + 1));
    return n;
}

static struct node *make_coded(int64_t rows) {
    struct node *n = new_node("i", rows, 2), *values = make_text("u", 5, false);
    int32_t *codes = buffer(n, 1);
    for (int64_t i = 0; i < rows; i++) codes[i] = (int32_t)(next() % 5);
    n->s.dictionary = &values->s;
    n->a.dictionary = &values->a;
    return n;
}

static struct node *make_union(int64_t rows, int depth) {
    bool dense = next() % 2;
    struct node *n = new_node(dense ? "+ud:0,7" : "+us:0,7", rows, dense ? 2 : 1);
    uint8_t *types = buffer(n, 0);
    int32_t *at = dense ? buffer(n, 1) : NULL, used[2] = {0, 0};
    for (int64_t i = 0; i < rows; i++) {
        int side = (int)(next() % 2);
        types[i] = side ? 7 : 0;
        if (at) at[i] = used[side]++;
    }
    for (int side = 0; side < 2; side++) add_child(n, make(dense ? used[side] : rows, depth + 1));
    return n;
}

static struct node *make_runs(int64_t rows, int depth) {
    struct node *n = new_node("+r", rows, 0);
    struct node *ends = new_node("i", (rows + 1) / 2, 2);
    int32_t *e = buffer(ends, 1);
    for (int64_t i = 0; i < ends->a.length; i++)
        e[i] = (int32_t)(2 * (i + 1) < rows ? 2 * (i + 1) : rows);
    add_child(n, ends);
    add_child(n, make(ends->a.length, depth + 1));
    return n;
}

/* A random node of a valid batch. */
static struct node *make(int64_t rows, int depth) {
    static const char *const flat[] = {"l", "g", "c", "S", "i", "d:9,2", "w:5", "tsu:", "b"};
    uint64_t kind = depth > 3 || n_nodes > NODES - 20 ? next() % 4 : next() % 12;
    struct node *n;
    switch (kind) {
    case 0:
    case 1: n = new_node(flat[next() % SK_COUNT(flat)], rows, 2), (void)buffer(n, 1); break;
    case 2: n = make_text("u", rows, false); break;
    case 3: n = make_text("Z", rows, true); break;
    case 4:
    case 5: n = make_list(rows, depth); break;
    case 6: n = make_coded(rows); break;
    case 7: n = make_views(rows); break;
    case 8: return make_union(rows, depth);
    case 9: return make_runs(rows, depth);
    case 10:
        n = new_node("+w:2", rows, 1);
        add_child(n, make(2 * rows, depth + 1));
        break;
    default:
        n = new_node("+s", rows, 1);
        add_child(n, make(rows, depth + 1));
        add_child(n, make(rows, depth + 1));
        break;
    }
    if (next() % 3 == 0) {
        uint8_t *bits = buffer(n, 0);
        for (int i = 0; i < 8; i++) bits[i] = (uint8_t)next();
        n->a.null_count = -1;
    }
    return n;
}

static int64_t odd(void) { return (int64_t)(next() % 202) - 2; }

static void lie_in_array(struct node *n) {
    struct ArrowArray *a = &n->a;
    uint64_t i = next() % SLOTS;
    int32_t value = (int32_t)(next() % FAR) - 20;
    switch (next() % 12) {
    case 0: a->length = odd(); break;
    case 1: a->offset = next() % 8 ? odd() : INT64_MAX; break;
    case 2: a->null_count = odd(); break;
    case 3: a->n_buffers = (int64_t)(next() % SLOTS) - 1; break;
    case 4: a->n_children = (int64_t)(next() % SLOTS) - 1; break;
    case 5: a->buffers = NULL; break;
    case 6: a->children = NULL; break;
    case 7: a->release = NULL; break;
    case 8: a->dictionary = a->dictionary ? NULL : &nodes[next() % n_nodes].a; break;
    case 9: n->buffers[i] = NULL; break;
    case 10: n->a_children[i] = NULL; break;
    default: /* offsets of 8 bytes stay small, since their bytes exist */
        if (!n->buffers[i % 2]) break;
        uint8_t *p = (uint8_t *)(uintptr_t)n->buffers[i % 2];
        if (strchr("ZL", n->s.format ? n->s.format[n->s.format[0] == '+'] : 'Z'))
            memcpy(p + 8 * (next() % 50), &(int64_t){SK_MAX(value, 0)}, 8);
        else memcpy(p + 4 * (next() % 100), &value, 4);
    }
}

static void lie_in_schema(struct node *n) {
    static const char *const formats[] = {NULL, "",   "lx",  "n",  "g",    "u",       "b",  "+l",
                                          "+s", "+r", "+vl", "vu", "+w:1", "+us:0,7", "+m", "d:1"};
    static const char *const metadata[] = {"\xFF\xFF\xFF\xFF", "\1\0\0\0\xFF\xFF\xFF\xFF",
                                           "\1\0\0\0\1\0\0\0k\0\0\0\0"};
    struct ArrowSchema *s = &n->s;
    switch (next() % 6) {
    case 0:
    case 1: s->format = formats[next() % SK_COUNT(formats)]; break;
    case 2: s->n_children = (int64_t)(next() % SLOTS) - 1; break;
    case 3: s->children = NULL; break;
    case 4: s->metadata = metadata[next() % SK_COUNT(metadata)]; break;
    default: s->name = NULL;
    }
}

/* Does what operators do with a batch that passed. */
static void use(const struct node *top) {
    struct sk_err err;
    struct sk_schema *schema;
    struct sk_batch *b, *part[2], *all;
    struct ArrowArray a = top->a;
    if (sk_schema_copy(&top->s, &schema, &err)) die("a schema that passed", err.msg);
    if (sk_batch_take(schema, &a, &b, &err)) die("an array that passed", err.msg);
    int64_t n = b->array.length, cut = n ? (int64_t)(next() % (uint64_t)n) : 0;
    if (sk_batch_slice(b, cut, n - cut, &part[0], &err) ||
        sk_batch_slice(b, 0, cut, &part[1], &err))
        die("slices", err.msg);
    if (sk_batch_concat(part, 2, &all, &err)) die("a join", err.msg);
    (void)block_read(&all->schema->s, &all->array);
    sk_batch_destroy(all);
    sk_batch_destroy(part[0]);
    sk_batch_destroy(part[1]);
    sk_batch_destroy(b);
}

/* Makes a batch and at most two lies about it, and tries it. 1: it is refused. */
static int try_one(void) {
    struct sk_err err;
    n_nodes = 0;
    int64_t rows = (int64_t)(next() % ROWS);
    struct node *top = new_node("+s", rows, 1);
    for (uint64_t i = 1 + next() % 3; i; i--) add_child(top, make(rows, 1));
    uint64_t lies = next() % 3;
    for (uint64_t i = 0; i < lies; i++) {
        struct node *n = &nodes[next() % n_nodes];
        if (next() % 4) lie_in_array(n);
        else lie_in_schema(n);
    }
    sk_rc rc = sk_block_check_batch(&top->s, &top->a, &err);
    if (rc != SK_OK && rc != SK_EINVAL) die("another code", err.msg);
    if (rc != SK_OK && !lies) die("a good batch is refused", err.msg);
    if (rc == SK_OK) use(top);
    return rc != SK_OK;
}

static int fuzz_one(const uint8_t *data, size_t n) { /* the bytes are the choices */
    choices = (struct sk_bytes){data, n};
    (void)try_one();
    choices = (struct sk_bytes){NULL, 0};
    return 0;
}

#ifndef SK_LIBFUZZER
int main(int argc, char **argv) {
    uint64_t refused = 0, rounds = fuzz_begin(argc, argv, 20000);
    for (uint64_t i = 0; i < rounds; i++) refused += (uint64_t)try_one();
    for (uint32_t i = 0; i < NODES; i++)
        for (int k = 0; k < SLOTS; k++) free(room[i][k]);
    return fuzz_end(rounds, refused);
}
#endif
