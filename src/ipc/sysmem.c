/* sysmem.c - how much memory and CPU the machine or this process's cgroup allows, and how much
 * memory one process has of its own.
 *
 * Not here: decisions that depend on it (engine/rules/memory.c). Reads text files of the kernel and
 * keeps nothing but their names, so that limits which are changed while we run are seen.
 *
 * Which files: /proc/self/cgroup names the process's group in each hierarchy; /proc/self/mountinfo
 * says where that hierarchy is mounted and which part of it is visible. The path below the mount is
 * the group's path without the mount's root; in a container that sees its own group as "/" (or as a
 * path of the host that does not exist in it) it is the mount itself. Each folder from there up to
 * the mount is a *level*: all of them limit the process.
 *
 *          v2                         v1
 *  limit   memory.max, memory.high    memory.limit_in_bytes; hierarchical_memory_limit in
 *                                     memory.stat (also counts levels that are not visible)
 *  used    memory.current             memory.usage_in_bytes
 *  cache   memory.stat: inactive_file, memory.stat: total_inactive_file, total_active_file
 *          active_file, slab_reclaimable
 *  CPU     cpu.max                    cpu.cfs_quota_us, cpu.cfs_period_us
 *
 * Used memory is memory that cannot be dropped: the page cache of files does not count, else a full
 * cache looks like a full machine (ray#59796). The kernel lists pages of a memfd as anonymous, so
 * the store counts. Cost (CPU time of the development VM): 60 us for machine and cgroup, 6 us for a
 * process, exactly 20 ms a GB of small pages. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "ipc/ipc.h"

/* limits above this count as no limit; cgroup v1 writes about 2^63 when there is none */
#define NO_LIMIT (UINT64_C(1) << 60)
#define LEVELS 32u
#define TEXT 65536u

struct sk_sysmem {
    char *root;              /* put in front of every path; "" except in tests */
    char *mem, *cpu;         /* folders of the group; NULL: there is no such hierarchy */
    size_t mem_top, cpu_top; /* length of the part of the path that is the mount */
    bool mem_v2, cpu_v2;
    char text[TEXT];
};

/* ---- files ----------------------------------------------------------------------------------- */

/* The beginning of a file as text; NULL: it cannot be read. */
static const char *slurp(struct sk_sysmem *m, const char *dir, size_t dir_n, const char *name) {
    char path[4352];
    if (snprintf(path, sizeof path, "%s%.*s/%s", m->root, (int)dir_n, dir, name) >=
        (int)sizeof path)
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof m->text - 1; n += got > 0 ? (size_t)got : 0) {
        got = read(fd, m->text + n, sizeof m->text - 1 - n);
        if (got < 0 && errno == EINTR) got = 0;
        if (got < 0) n = 0;
    }
    (void)close(fd);
    SK_ASSERT(n < sizeof m->text);
    m->text[n] = 0;
    return n ? m->text : NULL;
}

/* The number that a file holds: NO_LIMIT for "max", "-1" and numbers beyond it; `missing` if there
 * is no such file. */
static uint64_t number(struct sk_sysmem *m, const char *dir, size_t dir_n, const char *name,
                       uint64_t missing) {
    const char *t = slurp(m, dir, dir_n, name);
    if (!t) return missing;
    if (t[0] < '0' || t[0] > '9') return NO_LIMIT;
    errno = 0;
    uint64_t v = strtoull(t, NULL, 10);
    return errno || v > NO_LIMIT ? NO_LIMIT : v;
}

/* The number behind `key` at the beginning of a line; `missing` if no line begins with it. */
static uint64_t keyed(const char *text, const char *key, uint64_t missing) {
    size_t n = strlen(key);
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (!strncmp(p, key, n) && (p[n] == ' ' || p[n] == ':' || p[n] == '\t')) {
            p += n + 1;
            while (*p == ' ' || *p == '\t') p++;
            return *p >= '0' && *p <= '9' ? strtoull(p, NULL, 10) : missing;
        }
    return missing;
}

/* ---- where the groups are -------------------------------------------------------------------- */

/* words are separated by commas */
static bool has_word(const char *list, size_t n, const char *word) {
    size_t w = strlen(word);
    for (size_t i = 0; i + w <= n; i++)
        if ((i == 0 || list[i - 1] == ',') && !strncmp(list + i, word, w) &&
            (i + w == n || list[i + w] == ','))
            return true;
    return false;
}

/* The path of the process's group in the hierarchy of a v1 controller, or of v2 (controller ""). */
static bool group_path(const char *text, const char *controller, char *out, size_t cap) {
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        const char *list = strchr(p, ':'), *end = strchr(p, '\n');
        const char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || (end && path > end)) continue;
        size_t n = (size_t)(path - list - 1);
        if (controller[0] ? !has_word(list + 1, n, controller) : n != 0) continue;
        if (*++path != '/') continue;
        size_t len = end ? (size_t)(end - path) : strlen(path);
        if (len >= cap) return false;
        memcpy(out, path, len);
        out[len] = 0;
        return true;
    }
    return false;
}

static void unescape(char *s) { /* decodes \040 and the like, as mountinfo writes them */
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

/* Where the hierarchy is mounted (`point`) and which folder of it is the mount's root (`root`). The
 * last such mount counts: it hides the others. */
static bool mounted(const char *text, const char *controller, char *root, char *point, size_t cap) {
    bool found = false;
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        char line[2048], *save, *f[6], *tail;
        const char *end = strchr(p, '\n');
        size_t n = end ? (size_t)(end - p) : strlen(p), k = 0;
        if (n >= sizeof line) continue;
        memcpy(line, p, n);
        line[n] = 0;
        if (!(tail = strstr(line, " - "))) continue;
        *tail = 0;
        tail += 3;
        for (char *w = strtok_r(line, " ", &save); w && k < SK_COUNT(f);
             w = strtok_r(NULL, " ", &save))
            f[k++] = w;
        char *type = strtok_r(tail, " ", &save),
             *options = type ? (strtok_r(NULL, " ", &save), strtok_r(NULL, " ", &save)) : NULL;
        if (k < 5 || !type || !options) continue;
        bool is = controller[0]
                      ? !strcmp(type, "cgroup") && has_word(options, strlen(options), controller)
                      : !strcmp(type, "cgroup2");
        if (!is || strlen(f[3]) >= cap || strlen(f[4]) >= cap) continue;
        memcpy(root, f[3], strlen(f[3]) + 1);
        memcpy(point, f[4], strlen(f[4]) + 1);
        unescape(root);
        unescape(point);
        found = true;
    }
    return found;
}

static bool is_dir(struct sk_sysmem *m, const char *dir) {
    char path[4352];
    return snprintf(path, sizeof path, "%s%s/.", m->root, dir) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

/* Finds the folder of the process's group. SK_ENOENT: there is no such hierarchy. */
static sk_rc find(struct sk_sysmem *m, const char *controller, char **dir, size_t *top) {
    char own[1024], root[1024], point[1024], path[2100];
    const char *t = slurp(m, "/proc/self", 10, "cgroup");
    if (!t || !group_path(t, controller, own, sizeof own)) return SK_ENOENT;
    t = slurp(m, "/proc/self", 10, "mountinfo");
    if (!t || !mounted(t, controller, root, point, sizeof root)) return SK_ENOENT;
    size_t r = strcmp(root, "/") ? strlen(root) : 0;
    const char *below = !strncmp(own, root, r) && (own[r] == '/' || !own[r]) ? own + r : "";
    if (strstr(below, "/..")) below = ""; /* the group belongs to another cgroup namespace */
    size_t n = (size_t)snprintf(path, sizeof path, "%s%s", point, below);
    while (n > strlen(point) && path[n - 1] == '/') path[--n] = 0;
    /* the path is one of the host, and only the mount's own folder is visible here */
    if (!is_dir(m, path)) path[strlen(point)] = 0;
    if (!is_dir(m, path)) return SK_ENOENT;
    *dir = sk_strdup(SK_TAG_IPC, path);
    *top = strlen(point);
    return *dir ? SK_OK : SK_ENOMEM;
}

sk_rc sk_sysmem_create(struct sk_sysmem **out, const char *root, struct sk_err *err) {
    struct sk_sysmem *m = sk_calloc(SK_TAG_IPC, sizeof *m);
    if (!m || !(m->root = sk_strdup(SK_TAG_IPC, root ? root : ""))) {
        sk_free(m);
        return SK_ERR(err, SK_ENOMEM, "no memory to read the machine's limits");
    }
    /* a controller that v1 has is not in v2 */
    sk_rc mem = find(m, "memory", &m->mem, &m->mem_top);
    if (mem == SK_ENOENT) m->mem_v2 = (mem = find(m, "", &m->mem, &m->mem_top)) == SK_OK;
    sk_rc cpu = find(m, "cpu", &m->cpu, &m->cpu_top);
    if (cpu == SK_ENOENT) m->cpu_v2 = (cpu = find(m, "", &m->cpu, &m->cpu_top)) == SK_OK;
    if (mem == SK_ENOMEM || cpu == SK_ENOMEM) {
        sk_sysmem_destroy(m);
        return SK_ERR(err, SK_ENOMEM, "no memory to read the machine's limits");
    }
    *out = m;
    return SK_OK;
}

void sk_sysmem_destroy(struct sk_sysmem *m) {
    if (!m) return;
    sk_free(m->root);
    sk_free(m->mem);
    sk_free(m->cpu);
    sk_free(m);
}

/* Returns the length of the parent folder's path; 0: `n` was the length of the mount's own path. */
static size_t above(const char *dir, size_t n, size_t top) {
    if (n <= top) return 0;
    while (n > top && dir[n - 1] != '/') n--;
    while (n > top && dir[n - 1] == '/') n--;
    return n;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t part(uint64_t n, uint32_t permille) {
    return n / 1000 * permille + n % 1000 * permille / 1000;
}

static void consider(struct sk_sysmem_now *out, uint64_t limit, uint64_t used, uint32_t permille,
                     const char *dir, size_t n, const char *file) {
    uint64_t may = part(limit, permille);
    int64_t left = (int64_t)may - (int64_t)used;
    if (out->limit_bytes && left >= (int64_t)out->limit_bytes - (int64_t)out->used_bytes) return;
    out->limit_bytes = may;
    out->used_bytes = used;
    if (file)
        (void)snprintf(out->where, sizeof out->where, "cgroup %.*s, %s",
                       (int)SK_MIN(n, sizeof out->where - 48), dir, file);
    else (void)snprintf(out->where, sizeof out->where, "this machine");
}

sk_rc sk_sysmem_read(struct sk_sysmem *m, uint32_t permille, struct sk_sysmem_now *out,
                     struct sk_err *err) {
    struct sk_sysmem_now now = {0};
    const char *t = slurp(m, "/proc", 5, "meminfo");
    uint64_t total = t ? keyed(t, "MemTotal", 0) * 1024 : 0;
    if (!total)
        return SK_ERR(err, SK_EIO, "%s/proc/meminfo cannot be read: is /proc mounted?", m->root);
    uint64_t avail = keyed(t, "MemAvailable", UINT64_MAX);
    if (avail == UINT64_MAX)
        avail = keyed(t, "MemFree", 0) + keyed(t, "Buffers", 0) + keyed(t, "Cached", 0) -
                SK_MIN(keyed(t, "Shmem", 0), keyed(t, "Cached", 0));
    avail = SK_MIN(avail * 1024, total);
    now.total_bytes = total;
    consider(&now, total, total - avail, permille, NULL, 0, NULL);
    uint32_t level = 0;
    bool applies = true;
    for (size_t n = m->mem ? strlen(m->mem) : 0; n && applies && level < LEVELS;
         n = above(m->mem, n, m->mem_top), level++) {
        const char *file = m->mem_v2 ? "memory.max" : "memory.limit_in_bytes";
        uint64_t limit = number(m, m->mem, n, file, NO_LIMIT);
        if (m->mem_v2) {
            uint64_t high = number(m, m->mem, n, "memory.high", NO_LIMIT);
            if (high < limit) limit = high, file = "memory.high";
        } else {
            t = level ? NULL : slurp(m, m->mem, n, "memory.stat");
            uint64_t all = t ? keyed(t, "hierarchical_memory_limit", NO_LIMIT) : NO_LIMIT;
            if (all < limit) limit = all, file = "hierarchical_memory_limit";
            /* a parent that does not count its children does not limit them */
            size_t up = above(m->mem, n, m->mem_top);
            applies = up && number(m, m->mem, up, "memory.use_hierarchy", 1) == 1;
        }
        if (limit >= NO_LIMIT || limit >= total) continue;
        now.total_bytes = SK_MIN(now.total_bytes, limit);
        uint64_t used =
            number(m, m->mem, n, m->mem_v2 ? "memory.current" : "memory.usage_in_bytes", 0);
        if (used > part(limit, permille) / 2 && (t = slurp(m, m->mem, n, "memory.stat"))) {
            uint64_t cache = m->mem_v2
                                 ? keyed(t, "inactive_file", 0) + keyed(t, "active_file", 0) +
                                       keyed(t, "slab_reclaimable", 0)
                                 : keyed(t, "total_inactive_file", keyed(t, "inactive_file", 0)) +
                                       keyed(t, "total_active_file", keyed(t, "active_file", 0));
            used -= SK_MIN(cache, used);
        }
        consider(&now, limit, used, permille, m->mem, n, file);
    }
    *out = now;
    return SK_OK;
}

uint64_t sk_sysmem_oom_kills(struct sk_sysmem *m) {
    const char *t = m->mem ? slurp(m, m->mem, strlen(m->mem),
                                   m->mem_v2 ? "memory.events" : "memory.oom_control")
                           : NULL;
    uint64_t n = t ? keyed(t, "oom_kill", UINT64_MAX) : UINT64_MAX;
    if (n != UINT64_MAX) return n;
    /* the root has no events file: count all kills of the machine */
    t = slurp(m, "/proc", 5, "vmstat");
    return t ? keyed(t, "oom_kill", 0) : 0;
}

/* ---- CPU ------------------------------------------------------------------------------------- */

uint64_t sk_sysmem_cpu_milli(struct sk_sysmem *m) {
    uint64_t least = 0;
    uint32_t level = 0;
    for (size_t n = m->cpu ? strlen(m->cpu) : 0; n && level < LEVELS;
         n = above(m->cpu, n, m->cpu_top), level++) {
        uint64_t quota = NO_LIMIT, period = 0;
        if (m->cpu_v2) {
            const char *t = slurp(m, m->cpu, n, "cpu.max");
            char *end = NULL;
            if (t && t[0] >= '0' && t[0] <= '9')
                quota = strtoull(t, &end, 10), period = strtoull(end, NULL, 10);
        } else {
            quota = number(m, m->cpu, n, "cpu.cfs_quota_us", NO_LIMIT);
            period = number(m, m->cpu, n, "cpu.cfs_period_us", 0);
        }
        if (quota >= NO_LIMIT || !period) continue;
        uint64_t milli = SK_MAX(quota * 1000 / period, 1);
        least = least ? SK_MIN(least, milli) : milli;
    }
    return least;
}

/* ---- one process ----------------------------------------------------------------------------- */

static const char *proc_file(pid_t pid, const char *name, char *buf, size_t cap) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    ssize_t n = read(fd, buf, cap - 1);
    (void)close(fd);
    if (n <= 0) return NULL;
    buf[n] = 0;
    return buf;
}

bool sk_proc_anon(pid_t pid, uint64_t *bytes) {
    char buf[256];
    unsigned long long size, resident, shared;
    const char *t = proc_file(pid, "statm", buf, sizeof buf);
    if (!t || sscanf(t, "%llu %llu %llu", &size, &resident, &shared) != 3) return false;
    *bytes = (resident > shared ? resident - shared : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

bool sk_proc_own(pid_t pid, uint64_t *bytes) {
    char buf[2048];
    const char *t = proc_file(pid, "smaps_rollup", buf, sizeof buf);
    if (!t) return false;
    uint64_t anon = keyed(t, "Pss_Anon", UINT64_MAX); /* the kernel has this field since 5.3 */
    *bytes = ((anon != UINT64_MAX ? anon : keyed(t, "Private_Dirty", 0)) + keyed(t, "SwapPss", 0)) *
             1024;
    return true;
}

bool sk_proc_state(pid_t pid, char *state, pid_t *parent) {
    char buf[512];
    const char *t = proc_file(pid, "stat", buf, sizeof buf);
    if (t) t = strrchr(t, ')'); /* the process's name may hold anything, even parentheses */
    return t && sscanf(t + 1, " %c %d", state, parent) == 2;
}
