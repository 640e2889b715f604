/* spec.c - the specs of tasks and actors as bytes: sent in SUBMIT and ACTOR, and kept by the
 * driver for retries. For damaged bytes of a worker the decoder returns SK_ECORRUPT, and never
 * crashes. */
#include "engine/local/wire/wire.h"
#include "engine/books/names.h"

void sk_spec_write(struct sk_wr *w, const struct sk_task_spec *s) {
    const struct sk_task_opts *o = sk_task_opts_of(s);
    bool of_other = o->caller || o->known_task; /* another engine has submitted it */
    sk_wr_u64(w, s->fn.v);
    sk_wr_u64(w, s->actor.v);
    sk_wr_u64(w, s->sink_tag);
    sk_wr_u64(w, o->parent.v);
    sk_wr_u32(w, o->group);
    sk_wr_u32(w, o->max_calls);
    sk_wr_u32(w, s->n_args);
    sk_wr_u32(w, s->n_contains);
    sk_wr_u32(w, s->n_returns);
    sk_wr_u32(w, o->stream_window);
    sk_wr_u32(w, (uint32_t)s->max_retries);
    sk_wr_u32(w, s->shape);
    sk_wr_u32(w, (s->retry_exceptions ? 1u : 0) | (o->no_wait ? 2u : 0) | (o->refused ? 4u : 0) |
                     (of_other ? 8u : 0));
    sk_wr_str(w, s->name);
    if (o->refused) sk_wr_str(w, o->refused);
    sk_wr_align(w, 8);
    if (of_other) {
        sk_wr_u64(w, o->caller);
        sk_wr_u64(w, o->known_task);
        sk_wr_u64(w, o->known_actor);
    }
    for (uint32_t i = 0; i < s->n_contains; i++) sk_wr_u64(w, s->contains[i].v);
    size_t at = w->n;
    sk_wr_u64(w, 0); /* length of the arguments, patched below */
    size_t from = w->n;
    for (uint32_t i = 0; i < s->n_args; i++) {
        const struct sk_arg *a = &s->args[i];
        struct sk_val v = {.kind = a->kind,
                           .oid = a->ref.v,
                           .len = a->ref.v ? 0 : a->bytes.n,
                           .where = a->ref.v ? SK_V_NONE : SK_V_INLINE};
        if (a->part) v.where = SK_V_PART, v.off = a->offset, v.len = a->length;
        sk_wr_val(w, &v, a->bytes.p);
    }
    if (sk_wr_ok(w) && w->p) {
        uint64_t len = w->n - from;
        memcpy(w->p + at, &len, 8);
    }
}

bool sk_spec_read(struct sk_rd *r, struct sk_spec *out) {
    memset(out, 0, sizeof *out);
    out->fid = sk_rd_u64(r);
    out->actor = sk_rd_u64(r);
    out->sink_tag = sk_rd_u64(r);
    out->parent = sk_rd_u64(r);
    out->group = sk_rd_u32(r);
    out->max_calls = sk_rd_u32(r);
    out->n_args = sk_rd_u32(r);
    out->n_contains = sk_rd_u32(r);
    out->n_returns = sk_rd_u32(r);
    out->stream_window = sk_rd_u32(r);
    out->max_retries = (int32_t)sk_rd_u32(r);
    out->shape = sk_rd_u32(r);
    uint32_t f = sk_rd_u32(r);
    out->retry_exceptions = f & 1;
    out->no_wait = (f >> 1) & 1;
    out->name = sk_rd_bytes(r);
    if (f & 4) out->refused = sk_rd_bytes(r);
    sk_rd_align(r, 8);
    if (f & 8) {
        out->caller = sk_rd_u64(r);
        out->known_task = sk_rd_u64(r);
        out->known_actor = sk_rd_u64(r);
    }
    out->contains = sk_rd_raw(r, (size_t)out->n_contains * 8);
    struct sk_bytes a = sk_rd_bytes(r);
    out->args = a.p;
    out->args_len = a.n;
    if (r->bad || (out->n_returns > SK_MAX_RETURNS && out->n_returns != SK_STREAMING)) return false;
    struct sk_rd ar = sk_rd_init(a.p, a.n);
    for (uint32_t i = 0; i < out->n_args; i++) {
        struct sk_val v;
        sk_rd_val(&ar, &v);
        if (ar.bad || (v.where != SK_V_INLINE && v.where != SK_V_NONE && v.where != SK_V_PART))
            return false;
        if ((v.where != SK_V_INLINE && !v.oid) ||
            (v.where == SK_V_PART && v.off > UINT64_MAX - v.len))
            return false;
        out->parts |= v.where == SK_V_PART;
    }
    return sk_rd_end(&ar);
}

void sk_aspec_write(struct sk_wr *w, const struct sk_aspec *a) {
    sk_wr_u32(w, (uint32_t)a->max_restarts);
    sk_wr_u32(w, (uint32_t)a->max_task_retries);
    sk_wr_u32(w, (a->is_async ? 1u : 0) | (a->detached ? 2u : 0));
    sk_wr_u32(w, a->n_groups);
    sk_wr_raw(w, a->groups, a->n_groups * sizeof *a->groups);
    sk_wr_bytes(w, a->name.p, a->name.n);
    sk_wr_bytes(w, a->space.p, a->space.n);
    sk_wr_bytes(w, a->meta.p, a->meta.n);
    sk_wr_align(w, 8);
}

bool sk_aspec_read(struct sk_rd *r, struct sk_aspec *out) {
    memset(out, 0, sizeof *out);
    out->max_restarts = (int32_t)sk_rd_u32(r);
    out->max_task_retries = (int32_t)sk_rd_u32(r);
    uint32_t flags = sk_rd_u32(r);
    out->is_async = flags & 1;
    out->detached = flags & 2;
    out->n_groups = sk_rd_u32(r);
    if (out->n_groups > SK_GROUPS_MAX) return false;
    out->groups = sk_rd_raw(r, out->n_groups * sizeof *out->groups);
    out->name = sk_rd_bytes(r);
    out->space = sk_rd_bytes(r);
    out->meta = sk_rd_bytes(r);
    sk_rd_align(r, 8);
    for (uint32_t i = 0; !r->bad && i < out->n_groups; i++)
        if (!out->groups[i]) return false;
    return !r->bad && out->name.n <= SK_NAME_MAX && out->space.n <= SK_NAME_MAX;
}
