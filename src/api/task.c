/* task.c - the public C API: submitting and cancelling tasks. */
#include "api/call.h"

int skate_submit(const char *name, const struct skate_arg *args, size_t n_args, size_t n_returns,
                 const struct skate_call_opts *o, skate_ref *returns) {
    struct sk_api_call c;
    SK_TRY(sk_api_call_begin(&c, 0, name, args, n_args, o));
    c.s.max_retries = sk_api_retries(o, SK_API_DEFAULT_RETRIES);
    sk_rc rc = o ? sk_api_call_shape(&c, o, 1) : SK_OK;
    if (rc == SK_OK) rc = sk_api_call_submit(&c, n_returns, returns);
    sk_api_call_end(&c);
    return rc;
}

int skate_cancel(skate_ref r, unsigned flags) {
    struct sk_engine *e = sk_api_engine_of(r.id);
    if (!e) return SK_ECLOSED;
    if (!r.id) return SK_ERR(sk_api_err(), SK_EINVAL, "skate_cancel: no object");
    return sk_api_cancel(e, r.id, flags);
}
