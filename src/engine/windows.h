/* windows.h - side contract: buffers whose memory is shared between processes. They can be
 * mapped a second time, and warmed before they are written. */
#ifndef SK_WINDOWS_H
#define SK_WINDOWS_H

#include "engine/engine.h"

struct sk_windows_ops {
    /* Maps [data, data+len) of a buffer a second time; see sk_seg_window (ipc.h). The window lasts
     * until sk_window_close, which may be called at any time. */
    sk_rc (*open)(struct sk_engine *e, const void *data, size_t len, bool own, void **at,
                  struct sk_err *err);
    /* Gives the file that backs [data, data+len) of a buffer or a view, for a process that maps
     * it: *fd stays the engine's, *at is the offset. SK_EINVAL: no file backs it. */
    sk_rc (*file)(struct sk_engine *e, const void *data, size_t len, int *fd, uint64_t *at,
                  struct sk_err *err);
    /* Gives a buffer at once, without waiting and without evicting anything, if a sixteenth of
     * the store stays free; else SK_EFULL. NULL in processes that have no use for it. */
    sk_rc (*lease)(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
    /* Hint: [at, at+len) of a buffer is about to be written; its pages are made present
     * (sk_seg_warm, ipc.h). Large buffers are best warmed in pieces of 2 MiB, each by the thread
     * that writes it next. */
    void (*warm)(struct sk_engine *e, void *at, size_t len);
};
void sk_window_close(void *at, size_t len); /* thread-safe; allowed after the engine is gone */

#endif
