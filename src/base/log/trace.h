/* trace.h - a record of events with their times: fixed 32-byte events in a ring buffer, shown by
 * chrome://tracing or Perfetto.
 *
 *     uint16_t run = sk_trace_name(t, "task");         once
 *     int64_t begin = sk_now_ns();
 *     ...
 *     sk_trace_span(t, run, begin, task_id);
 *     sk_trace_json(fd, rings, n, err);                later, in any process that maps the rings
 *
 * A ring lies in memory of the caller (private, or shared, so that the driver can read a worker's
 * ring after the worker's death) and keeps the newest events. A NULL ring is allowed everywhere and
 * costs one branch: tracing is off. Not a log (log.h), not a profiler. Thread-safety: one writer a
 * ring; readers at any time (the export drops an event that is overwritten while it is read).
 *
 *  field   | writer     | reader   | order                         | after the writer's crash
 *  next    | the writer | exporter | release store after the event | earlier events are whole
 *  started | the writer | exporter | acq_rel exchange before event | the exporter skips one slot
 *  n_names | the writer | exporter | release store after the name  | earlier names are whole */
#ifndef SK_TRACE_H
#define SK_TRACE_H

#include "base/base.h"
#include "base/err.h"

enum { SK_TRACE_MAGIC = 0x43525453, SK_TRACE_NAMES = 64, SK_TRACE_NAME_BYTES = 24 };
enum sk_trace_kind { SK_TRACE_SPAN = 1, SK_TRACE_MARK = 2, SK_TRACE_COUNTER = 3 };

struct sk_trace_event {
    int64_t begin_ns;
    int64_t value; /* span: duration in ns; counter: its value */
    uint64_t id;   /* id of a task, object or worker; the caller chooses which */
    uint32_t tid;  /* lane within the process, in the viewer */
    uint16_t name;
    uint16_t kind;
};
_Static_assert(sizeof(struct sk_trace_event) == 32, "fixed format");

struct sk_trace;
size_t sk_trace_bytes(uint32_t n_events); /* bytes of memory for a ring of at least n_events */
/* Formats `mem` as an empty ring: sk_trace_bytes(n_events) bytes, 8-byte aligned, with any content.
 * `process` is the process's name in the viewer, cut at 31 bytes. */
struct sk_trace *sk_trace_create(void *mem, uint32_t n_events, int32_t pid, const char *process);
/* Opens the ring that is in `bytes` bytes at `mem`. SK_ECORRUPT: the bytes are no ring. */
sk_rc sk_trace_attach(void *mem, size_t bytes, struct sk_trace **out,
                      struct sk_err *err) SK_MUST_USE;
void sk_trace_set_pid(struct sk_trace *t, int32_t pid);
/* The number of a name, which is added on first use and cut at 23 bytes. 0 (the name "?") when all
 * numbers are in use. */
uint16_t sk_trace_name(struct sk_trace *t, const char *name);
void sk_trace_put(struct sk_trace *t, const struct sk_trace_event *e);
uint64_t sk_trace_count(const struct sk_trace *t); /* number of events ever put */

/* Puts an event that lasted from begin_ns until now. */
void sk_trace_span(struct sk_trace *t, uint16_t name, int64_t begin_ns, uint64_t id);
void sk_trace_mark(struct sk_trace *t, uint16_t name, uint64_t id);
void sk_trace_counter(struct sk_trace *t, uint16_t name, int64_t value);

/* Writes all rings to fd as one Chrome trace (a JSON object). NULL rings are skipped. */
sk_rc sk_trace_json(int fd, struct sk_trace *const *rings, size_t n,
                    struct sk_err *err) SK_MUST_USE;

#endif
