/* log.c - the public C API: the log of this process. */
#include <unistd.h>

#include "api/api_int.h"
#include "base/log/log.h"

static skate_log_fn to;

static void line(enum sk_log_level level, const char *text, size_t n, void *ctx) {
    to((enum skate_log_level)level, text, n, ctx);
}

int skate_set_log(enum skate_log_level level, skate_log_fn fn, void *ctx) {
    _Static_assert(SKATE_LOG_DEBUG == (int)SK_LOG_DEBUG, "the same levels");
    if ((unsigned)level > SKATE_LOG_DEBUG)
        return SK_ERR(sk_api_err(), SK_EINVAL, "skate_set_log: level %d is unknown", (int)level);
    if (sk_api_is_open())
        return SK_ERR(sk_api_err(), SK_EINVAL, "skate_set_log: call it before skate_init");
    to = fn;
    sk_log_to(fn ? line : NULL, ctx);
    sk_log_set((enum sk_log_level)level, STDERR_FILENO);
    return SK_OK;
}
