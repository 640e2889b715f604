/* windows.h - side contract: buffers that are memory shared between processes. They may be mapped
 * once more, and warmed before they are written. */
#ifndef SK_WINDOWS_H
#define SK_WINDOWS_H

#include "engine/engine.h"

struct sk_windows_ops {
    /* [data, data+len) of a buffer, mapped once more; see sk_seg_window (ipc.h). Ended by
     * sk_window_close, whenever. */
    sk_rc (*open)(struct sk_engine *e, const void *data, size_t len, bool own, void **at,
                  struct sk_err *err);
    /* The file that [data, data+len) of a buffer or a view is in, for a process that maps it: *fd
     * stays the engine's. SK_EINVAL: it is in none. */
    sk_rc (*file)(struct sk_engine *e, const void *data, size_t len, int *fd, uint64_t *at,
                  struct sk_err *err);
    /* A buffer that the engine can give at once, as long as the store keeps a sixteenth of its size
     * free; else SK_EFULL: nothing is waited for, nothing leaves memory. NULL: a process that has
     * no use for it. */
    sk_rc (*lease)(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
    /* Hint: [at, at+len) of a buffer is about to be written; sk_seg_warm (ipc.h). Of large buffers
     * best in pieces of 2 MiB, each by the thread that writes it next. */
    void (*warm)(struct sk_engine *e, void *at, size_t len);
};
void sk_window_close(void *at, size_t len); /* thread-safe; also when its engine is gone */

#endif
