/* dataset.c - the operators of skate_data.h: each makes a node of a dataset's plan.
 *
 * A node takes over the caller's reference to its inputs. Nodes are immutable and counted, so any
 * number of plans share them. Recursion: none but in release, whose depth is broken by a list. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/data_int.h"
#include "base/mem.h"
#include "base/wire.h"
#include "data/columns.h"
#include "data/groups.h"
#include "shuffle/join_sizing.h"

#define TAG SK_TAG_PLAN

/* ---- nodes ----------------------------------------------------------------------------------- */

static void free_bytes(struct sk_bytes b) { sk_free((void *)(uintptr_t)b.p); }

static void free_node(struct skate_dataset *ds) {
    free_bytes(ds->params);
    free_bytes(ds->what);
    if (ds->exchange)
        for (uint32_t i = 0; i < SK_DATASET_SIDES; i++) {
            free_bytes(ds->exchange->map_params[i]);
            free_bytes(ds->exchange->map_what[i]);
        }
    for (uint32_t i = 0; i < ds->n_units; i++) free_bytes(ds->units[i].params);
    sk_dataset_blocks_free(ds->blocks);
    if (ds->stream && ds->stream->s.release) ds->stream->s.release(&ds->stream->s);
    sk_free(ds->stream);
    sk_free(ds->watch);
    sk_free(ds->exchange);
    sk_free(ds->resources);
    sk_free(ds->units);
    sk_free(ds->inputs);
    sk_free(ds);
}

skate_dataset *skate_dataset_retain(skate_dataset *ds) {
    if (ds) __atomic_fetch_add(&ds->refs, 1, __ATOMIC_RELAXED);
    return ds;
}

void skate_dataset_release(skate_dataset *ds) {
    /* Nodes without references wait in a list, linked by inputs[0] of no node but through `list`.
     */
    struct skate_dataset **list = NULL;
    uint32_t n = 0, cap = 0;
    while (ds || n) {
        if (!ds) ds = list[--n];
        if (__atomic_sub_fetch(&ds->refs, 1, __ATOMIC_ACQ_REL)) {
            ds = NULL;
            continue;
        }
        struct skate_dataset *next = ds->n_inputs ? ds->inputs[0] : NULL;
        for (uint32_t i = 1; i < ds->n_inputs; i++) {
            if (n == cap) {
                uint32_t more = 2 * cap + 16;
                struct skate_dataset **grown =
                    sk_realloc(TAG, list, more * sizeof(struct skate_dataset *));
                if (!grown) { /* no memory for the list: one level deeper */
                    skate_dataset_release(ds->inputs[i]);
                    continue;
                }
                list = grown;
                cap = more;
            }
            list[n++] = ds->inputs[i];
        }
        free_node(ds);
        ds = next;
    }
    sk_free(list);
}

static void *no_memory(void) {
    SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for an operator of a dataset");
    return NULL;
}

static void release_all(skate_dataset *const *inputs, size_t n) {
    for (size_t i = 0; i < n; i++) skate_dataset_release(inputs[i]);
}

/* Makes a node and takes over the inputs. NULL: an input is NULL, whose failure the last error
 * names already, or there is no memory. */
static skate_dataset *node(const char *op, uint32_t props, skate_dataset *const *inputs, size_t n) {
    bool ok = n < UINT32_MAX;
    for (size_t i = 0; i < n; i++) ok = ok && inputs[i];
    skate_dataset *ds = ok ? sk_calloc(TAG, sizeof *ds) : NULL;
    if (ds && n && !(ds->inputs = sk_alloc(TAG, n * sizeof(skate_dataset *)))) {
        sk_free(ds);
        ds = NULL;
    }
    if (!ds) {
        release_all(inputs, n);
        return ok ? no_memory() : NULL;
    }
    ds->refs = 1;
    ds->op = op;
    ds->props = props;
    ds->n_inputs = (uint32_t)n;
    for (size_t i = 0; i < n; i++) ds->inputs[i] = inputs[i];
    ds->cpus = 1;
    ds->limit = -1;
    return ds;
}

/* Gives the node up: the message is set. */
static skate_dataset *refuse(skate_dataset *ds) {
    skate_dataset_release(ds);
    return NULL;
}

#define LABEL(ds, ...) snprintf((ds)->label, sizeof(ds)->label, __VA_ARGS__)

/* Checks the size that a struct of options begins with. */
static bool opts_ok(const char *call, const void *o, size_t want) {
    return sk_api_sized(call, o, want, sk_api_err()) == SK_OK;
}

static bool set_bytes(struct sk_bytes *to, const void *p, size_t n) {
    void *copy = sk_memdup(TAG, n ? p : "", SK_MAX(n, 1));
    if (!copy) return no_memory() != NULL;
    *to = (struct sk_bytes){copy, n};
    return true;
}

static bool set_resources(skate_dataset *ds, const char *call, const struct skate_resource *r,
                          size_t n) {
    size_t bytes = n * sizeof *r;
    if (!n) return true;
    for (size_t i = 0; i < n; i++) {
        if (!r || !r[i].name || !(r[i].amount >= 0) || n > SK_RES_MAX) {
            SK_ERR(sk_api_err(), SK_EINVAL,
                   "%s: %zu resources (at most %d): the array or a name is NULL, or an amount is "
                   "below 0",
                   call, n, SK_RES_MAX - SK_RES_CUSTOM);
            return false;
        }
        bytes += strlen(r[i].name) + 1;
    }
    ds->resources = sk_alloc(TAG, bytes);
    if (!ds->resources) return no_memory() != NULL;
    ds->n_resources = n;
    char *to = (char *)(ds->resources + n);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(r[i].name) + 1;
        ds->resources[i] = (struct skate_resource){memcpy(to, r[i].name, len), r[i].amount};
        to += len;
    }
    return true;
}

/* ---- operators that call functions ----------------------------------------------------------- */

static bool set_opts(skate_dataset *ds, const char *call, const struct skate_map_opts *o) {
    if (!o) return true;
    if (!opts_ok(call, o, sizeof *o)) return false;
    uint32_t most = SK_MAX(o->actors, o->actors_max);
    if (o->batch_rows < 0 || o->on_error < SKATE_RAISE || o->on_error > SKATE_QUARANTINE ||
        !(o->cpus <= 1e6) || !(o->gpus >= 0 && o->gpus <= 1e6) || o->max_retries < -2 ||
        most > 100000) {
        SK_ERR(sk_api_err(), SK_EINVAL,
               "%s: batch_rows %lld, on_error %d, cpus %g, gpus %g, actors %u, max_retries %d: "
               "out of range",
               call, (long long)o->batch_rows, o->on_error, o->cpus, o->gpus, most, o->max_retries);
        return false;
    }
    if (o->arg_size && !o->arg) {
        SK_ERR(sk_api_err(), SK_EINVAL, "%s: arg is NULL, and arg_size %zu", call, o->arg_size);
        return false;
    }
    ds->cpus = o->cpus < 0 ? 0 : o->cpus > 0 ? o->cpus : 1;
    ds->gpus = o->gpus;
    ds->pool_max = most;
    ds->pool_min = most ? SK_MAX(o->actors, 1) : 0;
    ds->max_tasks = o->concurrency;
    ds->max_retries = o->max_retries;
    ds->batch_rows = o->batch_rows;
    return set_resources(ds, call, o->resources, o->n_resources);
}

static const struct sk_bytes none;

static bool set_call(skate_dataset *ds, const char *name, const struct skate_map_opts *o,
                     uint64_t write, struct sk_bytes keys) {
    struct sk_batch_call c = {.name = name, .write = write, .keys = keys};
    if (o) {
        c.arg = (struct sk_bytes){o->arg, o->arg_size};
        c.batch_rows = o->batch_rows;
        c.on_error = (uint32_t)o->on_error;
    }
    size_t n = sk_batch_call_write(&c, NULL, 0);
    void *p = sk_alloc(TAG, n);
    if (!p) return no_memory() != NULL;
    ds->params = (struct sk_bytes){p, sk_batch_call_write(&c, p, n)};
    return true;
}

struct caller {                    /* a kind of operator that calls functions of batches */
    const char *op, *call, *label; /* call: for messages */
    uint32_t props;
};

/* A node that calls the function of batches `name`. */
static skate_dataset *calls(skate_dataset *ds, struct caller k, const char *name,
                            const struct skate_map_opts *o, uint64_t write, struct sk_bytes keys) {
    const struct skate_batch_fns *f;
    if (!name) name = "(null)";
    if (!(ds = node(k.op, k.props, &ds, 1))) return NULL;
    LABEL(ds, "%s(%s)", k.label, name);
    if (sk_batches_find(name, &f, sk_api_err()) != SK_OK || !set_opts(ds, k.call, o) ||
        !set_call(ds, name, o, write, keys))
        return refuse(ds);
    if (f->init && !ds->pool_max) ds->pool_max = ds->pool_min = 1;
    return ds;
}

skate_dataset *skate_map(skate_dataset *ds, const char *name, const struct skate_map_opts *o) {
    return calls(ds, (struct caller){"map", "map", "Map", 0}, name, o, 0, none);
}

skate_dataset *skate_filter(skate_dataset *ds, const char *name, const struct skate_map_opts *o) {
    if (ds && o && o->size == sizeof *o && (o->on_error || o->batch_rows)) {
        SK_ERR(sk_api_err(), SK_EINVAL,
               "filter: on_error and batch_rows are for skate_map: leave them 0");
        return refuse(ds);
    }
    return calls(ds, (struct caller){"filter", "filter", "Filter", SK_OP_NO_MORE}, name, o, 0,
                 none);
}

skate_dataset *sk_dataset_writes(skate_dataset *ds, const char *name,
                                 const struct skate_map_opts *o, uint64_t number) {
    return calls(ds, (struct caller){"map", "write", "Write", SK_OP_WRITES}, name, o, number, none);
}

/* ---- sources --------------------------------------------------------------------------------- */

skate_dataset *skate_source(const char *name, const struct skate_unit *units, size_t n,
                            const struct skate_map_opts *o) {
    struct sk_api_fn *f;
    skate_dataset *ds = node("source", SK_OP_SOURCE, NULL, 0);
    if (!ds) return NULL;
    if (!name) name = "(null)";
    LABEL(ds, "Source(%s)", name);
    if (n > UINT32_MAX / 2 || (n && !units)) {
        SK_ERR(sk_api_err(), SK_EINVAL, "source %s: %zu units", name, n);
        return refuse(ds);
    }
    if (sk_api_fn_find(name, &f, sk_api_err()) != SK_OK || !set_opts(ds, "source", o) ||
        !set_call(ds, name, o, 0, none))
        return refuse(ds);
    if (!(ds->units = sk_calloc(TAG, (n + 1) * sizeof *ds->units))) {
        no_memory();
        return refuse(ds);
    }
    for (; ds->n_units < n; ds->n_units++) {
        const struct skate_unit *u = &units[ds->n_units];
        struct sk_unit *to = &ds->units[ds->n_units];
        *to = (struct sk_unit){.est_rows = u->rows, .est_bytes = u->size};
        if (u->bytes && !u->data) {
            SK_ERR(sk_api_err(), SK_EINVAL, "source %s: unit %u is NULL, and has %zu bytes", name,
                   ds->n_units, u->bytes);
            return refuse(ds);
        }
        if (!set_bytes(&to->params, u->data, u->bytes)) return refuse(ds);
    }
    return ds;
}

skate_dataset *skate_range(int64_t n, const char *column, const struct skate_map_opts *o) {
    skate_dataset *ds = node("range", SK_OP_SOURCE, NULL, 0);
    enum { UNIT_ROWS = (4 << 20) / sizeof n, UNITS_MAX = 1 << 20 };
    if (!ds) return NULL;
    if (!column) column = "id";
    LABEL(ds, "Range(%lld)", (long long)n);
    if (n < 0) {
        SK_ERR(sk_api_err(), SK_EINVAL, "range: %lld numbers", (long long)n);
        return refuse(ds);
    }
    /* As many units as in Python: of 4 MiB, or fewer bytes so that no CPU of this machine idles. */
    int64_t least = SK_MIN(n, 2 * SK_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1)),
            k = SK_MIN(SK_MAX((n + UNIT_ROWS - 1) / UNIT_ROWS, SK_MAX(least, 1)), UNITS_MAX);
    if (!set_opts(ds, "range", o) || !set_bytes(&ds->params, column, strlen(column) + 1))
        return refuse(ds);
    if (!(ds->units = sk_calloc(TAG, (size_t)k * sizeof *ds->units))) {
        no_memory();
        return refuse(ds);
    }
    for (; ds->n_units < k; ds->n_units++) {
        int64_t ends[2] = {(int64_t)((__int128)n * ds->n_units / k),
                           (int64_t)((__int128)n * (ds->n_units + 1) / k)};
        int64_t rows = ends[1] - ends[0];
        struct sk_unit *u = &ds->units[ds->n_units];
        *u = (struct sk_unit){.est_rows = rows, .est_bytes = 8 * rows};
        if (!set_bytes(&u->params, ends, sizeof ends)) return refuse(ds);
    }
    return ds;
}

/* Cuts a file into units of whole records. */
static sk_rc record_units(skate_dataset *ds, const char *path, size_t width) {
    enum { UNIT_BYTES = 32 << 20 };
    struct stat st;
    if (!path) return SK_ERR(sk_api_err(), SK_EINVAL, "read_records: a path is NULL");
    if (stat(path, &st)) return SK_ERR_SYS(sk_api_err(), "read_records: %s", path);
    if (!S_ISREG(st.st_mode))
        return SK_ERR(sk_api_err(), SK_EINVAL, "read_records: %s is no file", path);
    if ((uint64_t)st.st_size % width)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "read_records: %s has %lld bytes, which are not whole records of %zu", path,
                      (long long)st.st_size, width);
    uint64_t rows = (uint64_t)st.st_size / width, per = SK_MAX(UNIT_BYTES / width, 1);
    for (uint64_t at = 0; at < rows; at += per) {
        uint64_t n = SK_MIN(per, rows - at);
        struct sk_unit *units = sk_realloc(TAG, ds->units, (ds->n_units + 1) * sizeof *units);
        struct sk_wr w = sk_wr_init(NULL, 0);
        if (units) ds->units = units;
        for (void *p = NULL; units;) { /* measured, then written */
            sk_wr_u64(&w, at * width);
            sk_wr_u64(&w, n);
            sk_wr_bytes(&w, path, strlen(path) + 1);
            if (p) {
                units[ds->n_units++] = (struct sk_unit){
                    .params = {p, w.n}, .est_rows = (int64_t)n, .est_bytes = (int64_t)(n * width)};
                break;
            }
            if (!(p = sk_alloc(TAG, w.n))) units = NULL;
            w = sk_wr_init(p, w.n);
        }
        if (!units) return SK_ERR(sk_api_err(), SK_ENOMEM, "read_records: no memory");
    }
    return SK_OK;
}

skate_dataset *skate_read_records(const char *const *paths, size_t n, size_t width,
                                  const char *column, const struct skate_map_opts *o) {
    skate_dataset *ds = node("read_records", SK_OP_SOURCE, NULL, 0);
    if (!ds) return NULL;
    if (!column) column = "record";
    LABEL(ds, "ReadRecords(%zu)", width);
    if (!width || width > INT32_MAX || (n && !paths)) {
        SK_ERR(sk_api_err(), SK_EINVAL, "read_records: %zu files of records of %zu bytes", n,
               width);
        return refuse(ds);
    }
    struct sk_wr w = sk_wr_init(NULL, 0);
    sk_wr_u64(&w, width);
    sk_wr_bytes(&w, column, strlen(column) + 1);
    void *p = sk_alloc(TAG, w.n);
    if (!p || !set_opts(ds, "read_records", o)) {
        if (!p) no_memory();
        sk_free(p);
        return refuse(ds);
    }
    w = sk_wr_init(p, w.n);
    sk_wr_u64(&w, width);
    sk_wr_bytes(&w, column, strlen(column) + 1);
    ds->params = (struct sk_bytes){p, w.n};
    for (size_t i = 0; i < n; i++)
        if (record_units(ds, paths[i], width) != SK_OK) return refuse(ds);
    return ds;
}

static skate_dataset *of_stream(void) {
    skate_dataset *ds = node("stream", SK_OP_SOURCE | SK_OP_NO_FUSE, NULL, 0);
    if (!ds) return NULL;
    LABEL(ds, "Stream");
    if ((ds->stream = sk_calloc(TAG, sizeof *ds->stream))) return ds;
    no_memory();
    return refuse(ds);
}

static skate_dataset *of_arrays(void) {
    skate_dataset *ds = node("blocks", SK_OP_SOURCE, NULL, 0);
    if (!ds) return NULL;
    LABEL(ds, "Arrays");
    if ((ds->blocks = sk_calloc(TAG, sizeof *ds->blocks))) return ds;
    no_memory();
    return refuse(ds);
}

skate_dataset *skate_from_stream(struct ArrowArrayStream *stream) {
    if (!stream || !stream->release) {
        SK_ERR(sk_api_err(), SK_EINVAL, "from_stream: a stream is needed that was not released");
        return NULL;
    }
    if (!stream->get_schema || !stream->get_next) {
        SK_ERR(sk_api_err(), SK_EINVAL, "from_stream: the stream has no get_schema or get_next");
        stream->release(stream);
        stream->release = NULL;
        return NULL;
    }
    skate_dataset *ds = of_stream();
    if (!ds) {
        stream->release(stream);
        stream->release = NULL;
        return NULL;
    }
    ds->stream->s = *stream;
    stream->release = NULL;
    return ds;
}

skate_dataset *skate_from_arrays(const struct ArrowSchema *schema, struct ArrowArray *batches,
                                 size_t n) {
    struct sk_engine *e = sk_api_engine();
    skate_dataset *ds = e ? of_arrays() : NULL;
    sk_rc rc = ds ? SK_OK : SK_ENOMEM;
    if (rc == SK_OK && (!schema || !schema->release || (n && !batches)))
        rc = SK_ERR(sk_api_err(), SK_EINVAL,
                    "from_arrays: a schema and batches are needed, not released");
    if (rc == SK_OK && !n) rc = sk_dataset_blocks_put_none(ds->blocks, e, schema, sk_api_err());
    for (size_t i = 0; batches && i < n; i++) {
        if (rc == SK_OK) {
            rc = sk_dataset_blocks_put(ds->blocks, e, schema, &batches[i], sk_api_err());
            if (rc != SK_OK) sk_err_prefix(sk_api_err(), "from_arrays: batch %zu", i);
        }
        if (batches[i].release) batches[i].release(&batches[i]);
        batches[i].release = NULL;
    }
    return rc == SK_OK ? ds : refuse(ds);
}

/* ---- operators without functions ------------------------------------------------------------- */

static bool set_columns(struct sk_bytes *to, uint32_t n, const char *const *names,
                        const char *const *as) {
    for (uint32_t i = 0; i < n; i++)
        if (!names || !names[i] || (as && !as[i])) {
            SK_ERR(sk_api_err(), SK_EINVAL, "a name of a column is NULL");
            return false;
        }
    struct sk_wr w = sk_wr_init(NULL, 0);
    sk_columns_write(&w, n, names, as);
    void *p = sk_alloc(TAG, w.n + 1);
    if (!p) return no_memory() != NULL;
    w = sk_wr_init(p, w.n);
    sk_columns_write(&w, n, names, as);
    *to = (struct sk_bytes){p, w.n};
    return true;
}

static void join_names(char *buf, size_t cap, const char *const *names, size_t n) {
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < n && i < 4 && at < cap - 1; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%s", i ? ", " : "", names[i]);
    if (n > 4 && at < cap - 6) snprintf(buf + at, cap - at, ", ...");
}

skate_dataset *skate_select(skate_dataset *ds, const char *const *names, const char *const *as,
                            size_t n) {
    char list[80];
    if (!(ds = node("select", SK_OP_ONE_TO_ONE | SK_OP_NO_MORE | SK_OP_BY_ROW, &ds, 1)))
        return NULL;
    if (n > 1000000 || !set_columns(&ds->params, (uint32_t)n, names, as)) return refuse(ds);
    join_names(list, sizeof list, names, n);
    LABEL(ds, "Select(%s)", list);
    return ds;
}

skate_dataset *skate_limit(skate_dataset *ds, int64_t rows) {
    if (!(ds = node("limit", SK_OP_LIMIT | SK_OP_NO_MORE, &ds, 1))) return NULL;
    if (rows < 0) {
        SK_ERR(sk_api_err(), SK_EINVAL, "limit: %lld rows", (long long)rows);
        return refuse(ds);
    }
    ds->limit = rows;
    LABEL(ds, "Limit(%lld)", (long long)rows);
    return ds;
}

skate_dataset *skate_union(skate_dataset *const *inputs, size_t n) {
    if (!n || !inputs) {
        SK_ERR(sk_api_err(), SK_EINVAL, "union: at least one dataset is needed");
        return NULL;
    }
    skate_dataset *ds = node("union", SK_OP_UNION, inputs, n);
    if (ds) LABEL(ds, "Union");
    return ds;
}

skate_dataset *skate_zip(skate_dataset *left, skate_dataset *right) {
    skate_dataset *both[] = {left, right},
                  *ds = node("zip_rows", SK_OP_ZIP | SK_OP_BY_ROW, both, 2);
    if (ds) LABEL(ds, "Zip");
    return ds;
}

skate_dataset *skate_watch(skate_dataset *ds, const struct skate_watch *w) {
    if (!(ds = node("watch", 0, &ds, 1))) return NULL;
    LABEL(ds, "%s", ds->inputs[0]->label);
    if (!opts_ok("watch", w, sizeof *w)) return refuse(ds);
    if (!w || !w->progress || w->every_ms < 0) {
        SK_ERR(sk_api_err(), SK_EINVAL, "watch: a function is needed, and every_ms of at least 0");
        return refuse(ds);
    }
    if ((ds->watch = sk_memdup(TAG, w, sizeof *w))) return ds;
    no_memory();
    return refuse(ds);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* A node of an exchange, which takes its inputs over. name: "Sort" gives the labels SortMap and
 * SortReduce. */
static skate_dataset *exchange(const char *name, const char *call, const char *map_op,
                               const char *reduce_op, skate_dataset *const *inputs, size_t n,
                               const char *by, const struct skate_exchange_opts *o) {
    skate_dataset *ds = node(reduce_op, SK_OP_EXCHANGE, inputs, n);
    if (!ds) return NULL;
    struct sk_dataset_exchange *x = ds->exchange = sk_calloc(TAG, sizeof *x);
    if (!x) {
        no_memory();
        return refuse(ds);
    }
    x->map_op = map_op;
    snprintf(x->map_label, sizeof x->map_label, "%sMap(%s)", name, by);
    LABEL(ds, "%sReduce(%s)", name, by);
    if (!opts_ok(call, o, sizeof *o)) return refuse(ds);
    if (!o) return ds;
    if (o->partitions > SK_PARTITIONS_MAX) {
        SK_ERR(sk_api_err(), SK_EINVAL, "%s: %u partitions; the most are %u", call, o->partitions,
               SK_PARTITIONS_MAX);
        return refuse(ds);
    }
    x->desc.n_partitions = o->partitions;
    if (o->strategy && !(x->desc.strategy = sk_shuffle_find(o->strategy))) {
        SK_ERR(sk_api_err(), SK_EINVAL,
               "%s: no shuffle strategy is called '%s'; skate_strategy_name lists them", call,
               o->strategy);
        return refuse(ds);
    }
    return ds;
}

static bool set_what(struct sk_bytes *to, const struct sk_what *w) {
    size_t n = sk_what_write(w, NULL, 0);
    void *p = sk_alloc(TAG, n);
    if (!p) return no_memory() != NULL;
    *to = (struct sk_bytes){p, sk_what_write(w, p, n)};
    return true;
}

/* Describes the exchange's work, for the map of input 0 and the reduce. */
static bool set_whats(skate_dataset *ds, const struct sk_what *w) {
    return set_what(&ds->exchange->map_what[0], w) && set_what(&ds->what, w);
}

/* Keys in the form of the exchange; names are borrowed. */
static struct sk_what_key *keys_of(const char *const *names, const struct skate_key *k, size_t n) {
    struct sk_what_key *keys = sk_calloc(TAG, (n + 1) * sizeof *keys);
    if (!keys) return no_memory();
    for (size_t i = 0; i < n; i++) {
        const char *name = names ? names[i] : k ? k[i].column : NULL;
        if (!name) {
            SK_ERR(sk_api_err(), SK_EINVAL, "the name of a key is NULL");
            sk_free(keys);
            return NULL;
        }
        keys[i].name = (char *)(uintptr_t)name;
        if (k) keys[i].descending = k[i].descending, keys[i].nulls_first = k[i].nulls_first;
    }
    return keys;
}

static void keys_text(char *buf, size_t cap, const struct sk_what_key *keys, size_t n) {
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < n && i < 4 && at < cap - 1; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%s%s", i ? ", " : "", keys[i].name,
                               keys[i].descending ? " descending" : "");
}

static skate_dataset *bad_keys(const char *call, size_t n, skate_dataset *const *inputs,
                               size_t n_inputs) {
    if (inputs[0]) SK_ERR(sk_api_err(), SK_EINVAL, "%s: %zu keys", call, n);
    release_all(inputs, n_inputs);
    return NULL;
}

enum { KEYS_MAX = 1000 };

skate_dataset *skate_sort(skate_dataset *ds, const struct skate_key *k, size_t n,
                          const struct skate_exchange_opts *o) {
    char by[60];
    if (!n || n > KEYS_MAX || !k) return bad_keys("sort", n, &ds, 1);
    struct sk_what w = {.kind = SK_WHAT_SORT, .n_keys = (uint32_t)n};
    if (!ds || !(w.keys = keys_of(NULL, k, n))) return refuse(ds);
    keys_text(by, sizeof by, w.keys, n);
    ds = exchange("Sort", "sort", "exchange_map", "exchange_reduce", &ds, 1, by, o);
    if (ds) {
        ds->exchange->desc.cut = true;
        if (!set_whats(ds, &w)) ds = refuse(ds);
    }
    sk_free(w.keys);
    return ds;
}

skate_dataset *skate_random_shuffle(skate_dataset *ds, uint64_t seed,
                                    const struct skate_exchange_opts *o) {
    struct sk_what w = {.kind = SK_WHAT_RANDOM, .n_partitions = SK_WHAT_PARTITIONS, .seed = seed};
    ds = exchange("RandomShuffle", "random_shuffle", "exchange_map", "exchange_reduce", &ds, 1, "",
                  o);
    if (!ds) return NULL;
    ds->exchange->map_props = SK_OP_NUMBERED;
    return set_whats(ds, &w) ? ds : refuse(ds);
}

skate_dataset *skate_repartition(skate_dataset *ds, const struct skate_exchange_opts *o) {
    if (ds && (!o || o->size != sizeof *o || !o->partitions)) {
        SK_ERR(sk_api_err(), SK_EINVAL,
               "repartition: options with a number of partitions are needed");
        return refuse(ds);
    }
    struct sk_what w = {
        .kind = SK_WHAT_EVEN, .n_partitions = o ? o->partitions : 0, .one_block = true};
    ds = exchange("Repartition", "repartition", "exchange_map", "exchange_reduce", &ds, 1, "", o);
    if (!ds) return NULL;
    ds->exchange->map_props = SK_OP_NUMBERED;
    return set_whats(ds, &w) ? ds : refuse(ds);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static bool find_kind(const char *name, enum sk_agg_kind *out) {
    for (unsigned i = 0; name && i < SK_AGG_KINDS; i++)
        if (strcmp(sk_agg_facts((enum sk_agg_kind)i)->name, name) == 0) {
            *out = (enum sk_agg_kind)i;
            return true;
        }
    SK_ERR(sk_api_err(), SK_EINVAL,
           "groupby: no aggregate is called '%s'; skate_data.h has them, such as \"sum\"",
           name ? name : "(null)");
    return false;
}

struct aggs { /* aggregates in the form of the exchange, and the columns that they read */
    struct sk_agg *agg;
    const char **columns, **as; /* the keys, then a column for each aggregate that has one */
    char *text;                 /* names of columns and results that were made here */
    uint32_t n_columns;
};

static void aggs_free(struct aggs *a) {
    sk_free(a->agg);
    sk_free(a->columns);
    sk_free(a->as);
    sk_free(a->text);
}

enum { NAME_MAX_BYTES = 300 };

/* Quantiles stay in *g. */
static bool set_parameter(const struct skate_agg *g, struct sk_agg *agg) {
    bool top = agg->kind == SK_AGG_TOP_K, some = agg->kind == SK_AGG_APPROX_QUANTILES;
    if (top ? !(g->q >= 1 && g->q <= UINT32_MAX && g->q == (uint32_t)g->q)
            : (some || agg->kind == SK_AGG_QUANTILE) && !(g->q >= 0 && g->q <= 1)) {
        SK_ERR(sk_api_err(), SK_EINVAL, "groupby: %s of '%s' with q = %g: q has to be %s", g->kind,
               g->column, g->q, top ? "a number of values, at least 1" : "in 0 to 1");
        return false;
    }
    agg->q = g->q;
    agg->qs = some ? &g->q : NULL;
    agg->k = some ? 1 : top ? (uint32_t)g->q : 0;
    return true;
}

static bool aggs_make(struct aggs *a, const char *const *keys, uint32_t n_keys,
                      const struct skate_agg *given, uint32_t n) {
    a->agg = sk_calloc(TAG, (n + 1) * sizeof *a->agg);
    a->columns = sk_calloc(TAG, (n_keys + n + 1) * sizeof *a->columns);
    a->as = sk_calloc(TAG, (n_keys + n + 1) * sizeof *a->as);
    a->text = sk_calloc(TAG, 2 * (n + 1) * (size_t)NAME_MAX_BYTES);
    if (!a->agg || !a->columns || !a->as || !a->text) return no_memory() != NULL;
    for (; a->n_columns < n_keys; a->n_columns++)
        a->columns[a->n_columns] = a->as[a->n_columns] = keys[a->n_columns];
    for (uint32_t i = 0; i < n; i++) {
        char *name = a->text + 2 * i * (size_t)NAME_MAX_BYTES, *column = name + NAME_MAX_BYTES;
        const struct skate_agg *g = &given[i];
        struct sk_agg *agg = &a->agg[i];
        if (!find_kind(g->kind, &agg->kind)) return false;
        if (!g->column && agg->kind != SK_AGG_COUNT) {
            SK_ERR(sk_api_err(), SK_EINVAL, "groupby: aggregate \"%s\" needs a column", g->kind);
            return false;
        }
        agg->column = SK_AGG_ROWS;
        if (g->column) {
            snprintf(column, NAME_MAX_BYTES, "v%u", i);
            agg->column = a->n_columns;
            a->columns[a->n_columns] = g->column;
            a->as[a->n_columns++] = column;
        }
        snprintf(name, NAME_MAX_BYTES, "%s(%s)", g->kind, g->column ? g->column : "");
        agg->name = g->as ? g->as : name;
        agg->ignore_nulls = !g->keep_nulls;
        agg->ddof = g->ddof;
        if (!set_parameter(g, agg)) return false;
    }
    return true;
}

skate_dataset *skate_groupby(skate_dataset *ds, const char *const *keys, size_t n_keys,
                             const struct skate_agg *aggs, size_t n_aggs,
                             const struct skate_exchange_opts *o) {
    char by[60];
    if (n_keys > KEYS_MAX || n_aggs > KEYS_MAX || (n_aggs && !aggs) || (n_keys && !keys))
        return bad_keys("groupby", n_keys, &ds, 1);
    if (ds && !n_aggs) {
        SK_ERR(sk_api_err(), SK_EINVAL, "groupby: no aggregates; skate_distinct finds the keys");
        return refuse(ds);
    }
    struct aggs a = {.agg = NULL};
    struct sk_what w = {.kind = SK_WHAT_AGGREGATE,
                        .n_partitions = 1,
                        .groups = true,
                        .n_keys = (uint32_t)n_keys,
                        .n_aggs = (uint32_t)n_aggs};
    bool ok = ds && (w.keys = keys_of(keys, NULL, n_keys)) &&
              aggs_make(&a, keys, (uint32_t)n_keys, aggs, (uint32_t)n_aggs);
    w.aggs = a.agg;
    if (ok) {
        keys_text(by, sizeof by, w.keys, n_keys);
        ds = exchange("Aggregate", "groupby", "aggregate_map", "aggregate_reduce", &ds, 1, by, o);
        if (ds) {
            struct sk_exchange_desc *d = &ds->exchange->desc;
            d->cut = n_keys != 0;
            d->tables = true;
            if (!n_keys) d->n_partitions = 1;
            if (!set_columns(&ds->exchange->map_params[0], a.n_columns, a.columns, a.as) ||
                !set_whats(ds, &w))
                ds = refuse(ds);
        }
    } else {
        ds = refuse(ds);
    }
    aggs_free(&a);
    sk_free(w.keys);
    return ds;
}

/* The rows in the order of keys, where equal keys are in one block. firsts: only the first row of
 * each key. */
static skate_dataset *by_order(const char *name, const char *call, skate_dataset *ds,
                               const char *const *keys, size_t n, bool firsts,
                               const struct skate_exchange_opts *o) {
    char by[60];
    struct sk_what w = {.kind = SK_WHAT_SORT,
                        .groups = true,
                        .firsts = firsts,
                        .whole_groups = !firsts,
                        .n_keys = (uint32_t)n};
    if (!n || n > KEYS_MAX || !keys) return bad_keys(call, n, &ds, 1);
    if (!ds || !(w.keys = keys_of(keys, NULL, n))) return refuse(ds);
    keys_text(by, sizeof by, w.keys, n);
    ds = exchange(name, call, "exchange_map", "exchange_reduce", &ds, 1, by, o);
    if (ds) {
        ds->exchange->desc.cut = true;
        if (!set_whats(ds, &w)) ds = refuse(ds);
    }
    sk_free(w.keys);
    return ds;
}

skate_dataset *skate_distinct(skate_dataset *ds, const char *const *keys, size_t n,
                              const struct skate_exchange_opts *o) {
    return by_order("Distinct", "distinct", ds, keys, n, true, o);
}

/* Makes the keys in wire format (data/groups.h), which the caller frees. */
static bool group_keys(const char *const *keys, size_t n, struct sk_bytes *wire) {
    struct sk_wr m = sk_wr_init(NULL, 0);
    sk_groups_write(&m, keys, (uint32_t)n);
    void *p = sk_alloc(TAG, m.n);
    if (!p) return no_memory() != NULL;
    m = sk_wr_init(p, m.n);
    sk_groups_write(&m, keys, (uint32_t)n);
    *wire = (struct sk_bytes){p, m.n};
    return true;
}

skate_dataset *skate_map_groups(skate_dataset *ds, const char *const *keys, size_t n,
                                const char *name, const struct skate_map_opts *m,
                                const struct skate_exchange_opts *o) {
    struct sk_bytes wire = none;
    ds = by_order("Group", "map_groups", ds, keys, n, false, o);
    if (ds && !group_keys(keys, n, &wire)) ds = refuse(ds);
    ds = calls(ds, (struct caller){"map_groups", "map_groups", "MapGroups", 0}, name, m, 0, wire);
    free_bytes(wire);
    return ds;
}

/* ---- join ------------------------------------------------------------------------------------ */

skate_dataset *skate_join(skate_dataset *left, skate_dataset *right, const struct skate_join *j,
                          const struct skate_exchange_opts *o) {
    static const char *const kinds[] = {"inner",     "left_outer", "right_outer", "full_outer",
                                        "left_semi", "right_semi", "left_anti",   "right_anti"};
    enum { LARGER = 2 }; /* the order is that of the side with more rows of a partition */
    skate_dataset *sides[] = {left, right}, *ds = NULL;
    char by[60];
    struct sk_what w = {.kind = SK_WHAT_JOIN}, side = {.kind = SK_WHAT_HASH};
    if (!j || j->size != sizeof *j || (unsigned)j->kind >= SK_COUNT(kinds) || !j->n_keys ||
        j->n_keys > KEYS_MAX || !j->left_keys) {
        if (left && right)
            SK_ERR(sk_api_err(), SK_EINVAL,
                   "join: a description is needed that begins with its size, %zu, and has a kind "
                   "and keys",
                   sizeof *j);
        release_all(sides, 2);
        return NULL;
    }
    const char *const *right_keys = j->right_keys ? j->right_keys : j->left_keys;
    const char *const *keys[] = {j->left_keys, right_keys};
    uint32_t n = o && o->size == sizeof *o && o->partitions ? o->partitions : SK_WHAT_PARTITIONS;
    (void)sk_join_kind_find(kinds[j->kind], &w.join.kind);
    w.join.right = (char **)(uintptr_t)right_keys;
    w.join.suffix[0] = (char *)(uintptr_t)(j->left_suffix ? j->left_suffix : "");
    w.join.suffix[1] = (char *)(uintptr_t)(j->right_suffix ? j->right_suffix : "");
    w.n_keys = side.n_keys = (uint32_t)j->n_keys;
    side.n_partitions = n;
    struct sk_what_key *both[2] = {keys_of(keys[0], NULL, j->n_keys),
                                   keys_of(keys[1], NULL, j->n_keys)};
    w.keys = both[0];
    if (both[0] && both[1]) {
        keys_text(by, sizeof by, both[0], j->n_keys);
        ds = exchange("Join", "join", "exchange_map", "join_reduce", sides, 2, by, o);
    } else {
        release_all(sides, 2);
    }
    if (ds) {
        struct sk_exchange_desc *d = &ds->exchange->desc;
        *d = (struct sk_exchange_desc){.strategy = d->strategy,
                                       .n_partitions = n,
                                       .spread = 1 + LARGER,
                                       .tells = sk_side_tells(w.join.kind)};
        bool ok = set_what(&ds->what, &w);
        for (int i = 0; ok && i < 2; i++) {
            side.keys = both[i];
            ok = set_what(&ds->exchange->map_what[i], &side);
        }
        if (!ok) ds = refuse(ds);
    }
    sk_free(both[0]);
    sk_free(both[1]);
    return ds;
}
