/* functions.c - the functions that the driver knows, by id: defined once, sent to each worker
 * that needs them (send.c), and named in error messages. Runs with the lock held. Invariant: a
 * known function never changes. Cost: one entry and a copy of the definition each. */
#include <stdio.h>

#include "base/mem.h"
#include "engine/local/driver/local_int.h"

void sk_fns_init(struct sk_local *l) { sk_map_init(&l->fns, SK_TAG_ENGINE); }

void sk_fns_free(struct sk_local *l) {
    uint64_t id;
    void *v;
    for (uint32_t i = 0; sk_map_next(&l->fns, &i, &id, &v);) {
        struct sk_fn *f = v;
        sk_free(f->name);
        sk_free(f->def);
        sk_free(f);
    }
    sk_map_deinit(&l->fns);
}

sk_rc sk_fn_define(struct sk_local *l, uint64_t fid, struct sk_bytes name, struct sk_bytes def,
                   struct sk_err *err) {
    if (!fid) return SK_ERR(err, SK_EINVAL, "function id 0");
    if (sk_map_get(&l->fns, fid)) return SK_OK;
    struct sk_fn *f = sk_calloc(SK_TAG_ENGINE, sizeof *f);
    if (!f) goto oom;
    f->fid = fid;
    f->name = sk_alloc(SK_TAG_ENGINE, name.n + 1);
    f->def = sk_alloc(SK_TAG_ENGINE, def.n ? def.n : 1);
    if (!f->name || !f->def) goto oom;
    memcpy(f->name, name.p, name.n);
    f->name[name.n] = 0;
    if (def.n) memcpy(f->def, def.p, def.n);
    f->len = def.n;
    if (sk_map_put(&l->fns, fid, f) != SK_OK) goto oom;
    return SK_OK;
oom:
    if (f) {
        sk_free(f->name);
        sk_free(f->def);
        sk_free(f);
    }
    return SK_ERR(err, SK_ENOMEM, "no memory for a function definition of %zu bytes", def.n);
}

const char *sk_ltask_name(struct sk_local *l, const struct sk_ltask *t, char *buf, size_t cap) {
    if (t->spec.name.n) {
        snprintf(buf, cap, "%.*s", (int)SK_MIN(t->spec.name.n, cap - 1),
                 (const char *)t->spec.name.p);
        return buf;
    }
    struct sk_fn *f = sk_map_get(&l->fns, t->spec.fid);
    return f ? f->name : "?";
}
