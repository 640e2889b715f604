/* test_base_fault.c - fault points, log lines and trace rings. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log/log.h"
#include "base/log/trace.h"
#include "test.h"

/* ---- fault ----------------------------------------------------------------------------------- */

TEST(fault_nth_and_always) {
    CHECK(!SK_FAULT("a.b"));
    CHECK_OK(sk_fault_set("a.b", SK_FAULT_FAIL, 3));
    for (int i = 1; i <= 6; i++) {
        CHECK_EQ(SK_FAULT("a.b"), i == 3);
        CHECK(!SK_FAULT("a.bc") && !SK_FAULT("a."));
        CHECK_EQ(sk_fault_fired(), i >= 3);
    }
    CHECK_EQ(sk_fault_passes("a.b"), 6);
    /* replaces the fault, and counts from 0 again */
    CHECK_OK(sk_fault_set("a.b", SK_FAULT_FAIL, 0));
    for (int i = 0; i < 3; i++) CHECK(SK_FAULT("a.b"));
    CHECK_EQ(sk_fault_passes("a.b"), 3);
    CHECK_OK(sk_fault_set("a.b", SK_FAULT_OFF, 0));
    CHECK(!SK_FAULT("a.b"));
    CHECK_EQ(sk_fault_on_, 0);
    sk_fault_clear();
    CHECK(!sk_fault_fired());
}

TEST(fault_any_point) {
    CHECK_OK(sk_fault_set("*", SK_FAULT_FAIL, 2));
    CHECK(!SK_FAULT("x"));
    CHECK(SK_FAULT("y"));
    CHECK(!SK_FAULT("z"));
    CHECK_EQ(sk_fault_passes("*"), 3);
}

TEST(fault_count_only) {
    CHECK_OK(sk_fault_set("x", SK_FAULT_COUNT, 0));
    for (int i = 0; i < 5; i++) SK_FAULT_HERE("x");
    CHECK_EQ(sk_fault_passes("x"), 5);
    CHECK(!sk_fault_fired());
}

TEST(fault_kill_is_right_there) {
    int fd[2];
    CHECK_EQ(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (sk_fault_set("step", SK_FAULT_KILL, 3) != SK_OK) _exit(9);
        for (char i = 1;; i++) {
            SK_FAULT_HERE("step");
            if (write(fd[1], &i, 1) != 1) _exit(9);
        }
    }
    close(fd[1]);
    char got[10];
    ssize_t n = 0;
    for (ssize_t r; (r = read(fd[0], got + n, sizeof(got) - (size_t)n)) > 0;) n += r;
    close(fd[0]);
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_EQ(n, 2);
}

TEST(fault_delay) {
    CHECK_OK(sk_fault_delay("slow", 20000, 1));
    int64_t begin = sk_now_ns();
    CHECK(!SK_FAULT("slow"));
    CHECK_GE(sk_now_ns() - begin, 20 * SK_MS);
    CHECK(sk_fault_fired());
    CHECK(!SK_FAULT("slow"));
}

TEST(fault_limits) {
    char name[60];
    CHECK_RC(sk_fault_set("", SK_FAULT_FAIL, 1), SK_EINVAL);
    CHECK_RC(sk_fault_set("x", SK_FAULT_FAIL, -1), SK_EINVAL);
    CHECK_RC(sk_fault_set("x", SK_FAULT_DELAY, 1), SK_EINVAL);
    memset(name, 'n', sizeof(name));
    name[48] = 0;
    CHECK_RC(sk_fault_set(name, SK_FAULT_FAIL, 1), SK_EINVAL);
    name[47] = 0;
    CHECK_OK(sk_fault_set(name, SK_FAULT_FAIL, 1));
    for (int i = 1; i < 16; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        CHECK_OK(sk_fault_set(name, SK_FAULT_FAIL, 1));
    }
    CHECK_RC(sk_fault_set("one-more", SK_FAULT_FAIL, 1), SK_EFULL);
    CHECK_OK(sk_fault_set("p5", SK_FAULT_OFF, 0));
    CHECK_OK(sk_fault_set("one-more", SK_FAULT_FAIL, 1));
    CHECK(SK_FAULT("p15") && SK_FAULT("one-more") && !SK_FAULT("p5"));
    sk_fault_clear();
    CHECK(!SK_FAULT("p14"));
}

TEST(fault_parse) {
    struct sk_err e = {0};
    CHECK_OK_ERR(sk_fault_parse("", &e), &e);
    CHECK_OK_ERR(sk_fault_parse("a.b:fail:2,c:delay=1,d:count", &e), &e);
    CHECK(!SK_FAULT("a.b") && SK_FAULT("a.b") && !SK_FAULT("a.b"));
    CHECK(!SK_FAULT("c") && !SK_FAULT("d"));
    CHECK_EQ(sk_fault_passes("d"), 1);
    static const char *const bad[] = {"a",
                                      "a:",
                                      "a:burn",
                                      "a:fail:",
                                      "a:fail:x",
                                      "a:delay",
                                      "a:delay=",
                                      "a:delay=x",
                                      ":fail",
                                      "a:fail:2:3",
                                      "ok:fail,,b:fail",
                                      "a:fail:-1",
                                      "a:kill:99999999999999999999"};
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        CHECK_MSG(sk_fault_parse(bad[i], &e) == SK_EINVAL, "\"%s\" was taken", bad[i]);
        CHECK_STR_HAS(e.msg, "fault \"");
    }
}

TEST(fault_keeps_errno) {
    CHECK_OK(sk_fault_delay("x", 1, 0));
    errno = EPIPE;
    SK_FAULT_HERE("x");
    CHECK_EQ(errno, EPIPE);
}

/* ---- log ------------------------------------------------------------------------------------- */

static char *slurp(int fd) {
    static char text[1 << 20];
    size_t n = 0;
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    for (ssize_t r; (r = read(fd, text + n, sizeof(text) - 1 - n)) > 0;) n += (size_t)r;
    text[n] = 0;
    return text;
}

static int scratch(void) {
    char path[300];
    snprintf(path, sizeof(path), "%s/file", test_dir());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    return fd;
}

static int evaluations;
static int costly(void) { return ++evaluations; }

TEST(log_levels_and_form) {
    int fd = scratch();
    sk_log(SK_LOG_INFO, "x=%d", costly());
    CHECK_EQ(evaluations, 0); /* if the level is off, arguments are not even evaluated */
    sk_log_set(SK_LOG_INFO, fd);
    sk_log(SK_LOG_INFO, "started x=%d", costly());
    sk_log(SK_LOG_DEBUG, "x=%d", costly());
    sk_log(SK_LOG_ERROR, "two\nlines");
    CHECK_EQ(evaluations, 1);
    char *text = slurp(fd);
    CHECK(strncmp(text, "t=", 2) == 0);
    CHECK_STR_HAS(text, " lvl=info at=test_base_fault.c:");
    CHECK_STR_HAS(text, " started x=1\n");
    CHECK_STR_HAS(text, " two lines\n"); /* one message is one line */
    CHECK_EQ(sk_log_parse("warn"), SK_LOG_WARN);
    CHECK_EQ(sk_log_parse("nonsense"), SK_LOG_OFF);
    CHECK_EQ(sk_log_parse(NULL), SK_LOG_OFF);
    close(fd);
}

TEST(log_long_line_is_cut_and_ring_keeps_the_last) {
    int fd = scratch();
    char text[2000];
    memset(text, 'y', sizeof(text));
    text[1999] = 0;
    sk_log(SK_LOG_ERROR, "%s", text);
    for (int i = 0; i < 40; i++) sk_log(SK_LOG_WARN, "kept n=%d.", i);
    sk_log_dump(fd);
    char *got = slurp(fd);
    CHECK(!strstr(got, "yyy") && !strstr(got, " n=7."));
    CHECK_STR_HAS(got, " n=8.\n");
    CHECK_STR_HAS(got, " n=39.\n");
    CHECK(strstr(got, " n=8.") < strstr(got, " n=39."));
    CHECK_EQ(ftruncate(fd, 0), 0);
    sk_log_set(SK_LOG_ERROR, fd);
    sk_log(SK_LOG_ERROR, "%s", text);
    got = slurp(fd);
    CHECK(strlen(got) < 520 && got[strlen(got) - 1] == '\n');
    close(fd);
}

/* ---- trace ----------------------------------------------------------------------------------- */

/* A JSON reader that only checks whether a text is well-formed. */
static const char *json(const char *s);
static const char *blank(const char *s) {
    while (isspace((unsigned char)*s)) s++;
    return s;
}
static const char *json_string(const char *s) {
    if (*s++ != '"') return NULL;
    while (*s && *s != '"' && *s != '\\' && (unsigned char)*s >= 0x20) s++;
    return *s == '"' ? s + 1 : NULL;
}
static const char *json_list(const char *s, char end, bool pairs) {
    s = blank(s + 1);
    if (*s == end) return s + 1;
    for (;;) {
        if (pairs) {
            if (!(s = json_string(blank(s))) || *(s = blank(s)) != ':') return NULL;
            s++;
        }
        if (!(s = json(s))) return NULL;
        if (*(s = blank(s)) == end) return s + 1;
        if (*s++ != ',') return NULL;
    }
}
static const char *json(const char *s) {
    s = blank(s);
    if (*s == '{') return json_list(s, '}', true);
    if (*s == '[') return json_list(s, ']', false);
    if (*s == '"') return json_string(s);
    char *end;
    strtod(s, &end);
    return end == s ? NULL : end;
}

static char *export(struct sk_trace *const *t, size_t n) {
    struct sk_err e = {0};
    int fd = scratch();
    CHECK_OK_ERR(sk_trace_json(fd, t, n, &e), &e);
    char *text = slurp(fd);
    close(fd);
    const char *end = json(text);
    CHECK_MSG(end && *blank(end) == 0, "not JSON: %.300s", text);
    return text;
}

static struct sk_trace *make(uint32_t events, void **mem) {
    *mem = sk_alloc(SK_TAG_TEST, sk_trace_bytes(events));
    return sk_trace_create(*mem, events, 7, "driver \"x\"\\");
}

TEST(trace_exports_chrome_json) {
    void *mem;
    struct sk_trace *t = make(100, &mem);
    uint16_t task = sk_trace_name(t, "task"), queue = sk_trace_name(t, "que\"ue\n");
    CHECK(task && queue && task != queue);
    CHECK_EQ(sk_trace_name(t, "task"), task);
    static _Atomic int64_t now = 5000;
    sk_clock_virtual(&now);
    now = 7500;
    sk_trace_span(t, task, 5000, 0xabc);
    sk_trace_mark(t, task, 1);
    sk_trace_counter(t, queue, -3);
    char *text = export((struct sk_trace *[]){t, NULL}, 2);
    CHECK_STR_HAS(text, "{\"ph\":\"X\",\"name\":\"task\",\"pid\":7,\"tid\":0,\"ts\":5.000,\"dur\":"
                        "2.500,\"args\":{\"id\":\"abc\"}}");
    CHECK_STR_HAS(text, "\"ph\":\"i\"");
    CHECK_STR_HAS(text, "\"name\":\"que_ue_\"");
    CHECK_STR_HAS(text, "\"value\":-3");
    CHECK_STR_HAS(text, "driver _x__");
    export(NULL, 0);
    sk_clock_virtual(NULL);
    sk_free(mem);
}

TEST(trace_keeps_the_newest) {
    void *mem;
    struct sk_trace *t = make(16, &mem);
    uint16_t name = sk_trace_name(t, "e");
    for (uint64_t i = 0; i < 1000; i++)
        sk_trace_put(t, &(struct sk_trace_event){
                            .begin_ns = 1, .id = i, .name = name, .kind = SK_TRACE_MARK});
    CHECK_EQ(sk_trace_count(t), 1000);
    char *text = export(&t, 1);
    int n = 0;
    for (char *at = text; (at = strstr(at, "\"ph\":\"i\"")); at++) n++;
    CHECK_EQ(n, 16);
    CHECK_STR_HAS(text, "\"id\":\"3e7\"");
    CHECK_STR_HAS(text, "\"id\":\"3d8\"");
    CHECK(!strstr(text, "\"id\":\"3d7\""));
    sk_free(mem);
}

TEST(trace_off_and_limits) {
    sk_trace_span(NULL, sk_trace_name(NULL, "x"), 0, 0);
    sk_trace_mark(NULL, 0, 0);
    sk_trace_counter(NULL, 0, 0);
    CHECK_EQ(sk_trace_count(NULL), 0);
    void *mem;
    struct sk_trace *t = make(1, &mem), *again = NULL;
    char name[64];
    for (int i = 1; i < SK_TRACE_NAMES; i++) {
        snprintf(name, sizeof(name), "name-%d", i);
        CHECK_EQ(sk_trace_name(t, name), i);
    }
    CHECK_EQ(sk_trace_name(t, "one more"), 0);
    size_t bytes = sk_trace_bytes(1);
    struct sk_err e;
    CHECK_OK(sk_trace_attach(mem, bytes, &again, &e));
    CHECK(again == t);
    CHECK_RC(sk_trace_attach(mem, bytes - 1, &again, &e), SK_ECORRUPT);
    CHECK_RC(sk_trace_attach(mem, 8, &again, &e), SK_ECORRUPT);
    ((char *)mem)[0] ^= 1;
    CHECK_RC(sk_trace_attach(mem, bytes, &again, &e), SK_ECORRUPT);
    ((char *)mem)[0] ^= 1;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK_RC(sk_trace_json(full, &t, 1, &e), SK_ENOSPC);
    CHECK_STR_HAS(e.msg, "write trace");
    close(full);
    sk_free(mem);
}

static _Atomic bool stop_writing;
static void *write_events(void *arg) {
    struct sk_trace *t = arg;
    uint16_t name = sk_trace_name(t, "busy");
    /* begin and duration repeat the id, so that a mixture of two events shows. */
    for (uint64_t i = 1; !atomic_load(&stop_writing); i++)
        sk_trace_put(t, &(struct sk_trace_event){(int64_t)i * 1000, (int64_t)i * 1000, i, 0, name,
                                                 SK_TRACE_SPAN});
    return NULL;
}

TEST(trace_reader_beside_the_writer_sees_whole_events) {
    void *mem;
    struct sk_trace *t = make(512, &mem);
    pthread_t w;
    CHECK_EQ(pthread_create(&w, NULL, write_events, t), 0);
    uint64_t seen = 0;
    for (int lap = 0; seen < 2000 || lap < 20; lap++) {
        char *text = export(&t, 1);
        for (char *at = text; (at = strstr(at, "\"ts\":")); at++) {
            double ts, dur;
            unsigned long long id;
            CHECK_EQ(sscanf(at, "\"ts\":%lf,\"dur\":%lf,\"args\":{\"id\":\"%llx\"", &ts, &dur, &id),
                     3);
            CHECK_MSG(ts == (double)id && dur == (double)id, "torn event: %f %f %llu", ts, dur, id);
            seen++;
        }
    }
    atomic_store(&stop_writing, true);
    CHECK_EQ(pthread_join(w, NULL), 0);
    sk_free(mem);
}

static bool at_each(void *ctx, const char *name) {
    (*(int *)ctx)++;
    return strcmp(name, "a.b") == 0;
}

TEST(fault_hook_is_asked_at_every_point) {
    int n = 0;
    sk_fault_hook(at_each, &n);
    CHECK(SK_FAULT("a.b"));
    CHECK(!SK_FAULT("a.c"));
    CHECK_EQ(n, 2);
    CHECK_OK(sk_fault_set("a.c", SK_FAULT_FAIL, 0)); /* both work */
    CHECK(SK_FAULT("a.c"));
    sk_fault_clear();
    CHECK(!SK_FAULT("a.c"));
    CHECK_EQ(n, 4);
    sk_fault_hook(NULL, NULL);
    CHECK(!SK_FAULT("a.b"));
    CHECK_EQ(n, 4);
}
