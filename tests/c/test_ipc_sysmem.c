/* test_ipc_sysmem.c - limits of machine and cgroup, from trees of files as kernels and containers
 * show them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "test.h"

#define MB UINT64_C(1048576)
#define V1_NONE "9223372036854771712\n"

/* Writes a file below test_dir(), and makes its folders. */
static void put(const char *path, const char *text) {
    char full[1024];
    snprintf(full, sizeof full, "%s%s", test_dir(), path);
    for (char *p = full + strlen(test_dir()) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        CHECK(mkdir(full, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void machine(uint64_t total_mb, uint64_t avail_mb) {
    char t[300];
    snprintf(t, sizeof t,
             "MemTotal: %llu kB\nMemFree:  100 kB\nMemAvailable:   %llu kB\nBuffers: 1 kB\n",
             (unsigned long long)total_mb * 1024, (unsigned long long)avail_mb * 1024);
    put("/proc/meminfo", t);
}

static struct sk_sysmem_now look(uint32_t permille) {
    struct sk_sysmem *m;
    struct sk_sysmem_now now;
    struct sk_err err;
    CHECK_OK_ERR(sk_sysmem_create(&m, test_dir(), &err), &err);
    CHECK_OK_ERR(sk_sysmem_read(m, permille, &now, &err), &err);
    sk_sysmem_destroy(m);
    return now;
}
static uint64_t cpu_milli(void) {
    struct sk_sysmem *m;
    CHECK_OK(sk_sysmem_create(&m, test_dir(), NULL));
    uint64_t milli = sk_sysmem_cpu_milli(m);
    sk_sysmem_destroy(m);
    return milli;
}
static uint64_t kills(void) {
    struct sk_sysmem *m;
    CHECK_OK(sk_sysmem_create(&m, test_dir(), NULL));
    uint64_t n = sk_sysmem_oom_kills(m);
    sk_sysmem_destroy(m);
    return n;
}

#define V2_MOUNT "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

TEST(sysmem_no_cgroup) {
    machine(1000, 400);
    struct sk_sysmem_now now = look(1000);
    CHECK_EQ(now.limit_bytes, 1000 * MB);
    CHECK_EQ(now.used_bytes, 600 * MB);
    CHECK_STR_EQ(now.where, "this machine");
    CHECK_EQ(look(950).limit_bytes, 950 * MB);
    CHECK_EQ(cpu_milli(), 0);
    CHECK_EQ(kills(), 0);
    put("/proc/vmstat", "nr_free_pages 12\noom_kill 4\n");
    CHECK_EQ(kills(), 4);
    /* before 3.14 */
    put("/proc/meminfo",
        "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 300 kB\nShmem: 100 kB\n");
    CHECK_EQ(look(1000).used_bytes, 650 * 1024);
}

TEST(sysmem_no_proc) {
    struct sk_sysmem *m;
    struct sk_sysmem_now now;
    struct sk_err err;
    CHECK_OK(sk_sysmem_create(&m, test_dir(), NULL));
    CHECK_RC(sk_sysmem_read(m, 1000, &now, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "/proc");
    sk_sysmem_destroy(m);
}

/* The level with the least free memory counts, wherever it is. */
TEST(sysmem_v2_nested) {
    machine(10000, 9000);
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", "23 1 0:5 / / rw - ext4 /dev/root rw\n" V2_MOUNT);
    put("/sys/fs/cgroup/cpu.pressure", "x\n");
    put("/sys/fs/cgroup/a/memory.max", "524288000\n"); /* 500 MB */
    put("/sys/fs/cgroup/a/memory.current", "419430400\n");
    put("/sys/fs/cgroup/a/memory.stat",
        "anon 1\nfile 2\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "419430400\n");
    put("/sys/fs/cgroup/a/b/c/memory.max", "314572800\n"); /* 300 MB */
    put("/sys/fs/cgroup/a/b/c/memory.current", "104857600\n");
    struct sk_sysmem_now now = look(1000);
    CHECK_EQ(now.limit_bytes, 500 * MB); /* 100 left there, 200 in c */
    CHECK_EQ(now.used_bytes, 400 * MB);
    CHECK_EQ(now.total_bytes, 300 * MB);
    CHECK_STR_HAS(now.where, "/sys/fs/cgroup/a, memory.max");
    put("/sys/fs/cgroup/a/b/c/memory.high", "157286400\n"); /* 150 MB */
    put("/sys/fs/cgroup/a/b/c/memory.stat", "inactive_file 0\n");
    now = look(1000);
    CHECK_EQ(now.limit_bytes, 150 * MB);
    CHECK_STR_HAS(now.where, "memory.high");
    put("/sys/fs/cgroup/a/b/c/memory.events",
        "low 0\nhigh 3\nmax 9\noom 2\noom_kill 7\noom_group_kill 1\n");
    CHECK_EQ(kills(), 7);
}

/* ray#59796: a full page cache is no reason to stop a task. */
TEST(sysmem_v2_cache_is_not_used) {
    machine(64000, 60000);
    put("/proc/self/cgroup", "0::/\n"); /* a container with a namespace of its own */
    put("/proc/self/mountinfo", "29 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    put("/sys/fs/cgroup/memory.max", "31457280000\n");
    put("/sys/fs/cgroup/memory.current", "31457280000\n");
    put("/sys/fs/cgroup/memory.stat", "anon 9437184000\nshmem 1048576000\ninactive_anon "
                                      "1\ninactive_file 15728640000\nactive_file "
                                      "4194304000\nslab_reclaimable 1048576000\n");
    struct sk_sysmem_now now = look(950);
    CHECK_EQ(now.limit_bytes, UINT64_C(31457280000) / 1000 * 950);
    CHECK_EQ(now.used_bytes, UINT64_C(31457280000) - UINT64_C(15728640000) - UINT64_C(4194304000) -
                                 UINT64_C(1048576000));
}

/* A container where the path is that of the host, and only a part of the tree is mounted. */
TEST(sysmem_v1_container) {
    machine(64000, 60000);
    put("/proc/self/cgroup",
        "12:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n");
    put("/proc/self/mountinfo",
        "40 30 0:34 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
        "41 30 0:35 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "cache 1\ninactive_file 1\ntotal_inactive_file 268435456\ntotal_active_file 0\n"
        /* 2 GB, of a level that we do not see */
        "hierarchical_memory_limit 2147483648\n");
    struct sk_sysmem_now now = look(500);
    CHECK_EQ(now.limit_bytes, 1024 * MB);
    CHECK_EQ(now.used_bytes, 768 * MB);
    CHECK_STR_HAS(now.where, "hierarchical_memory_limit");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1610612736\n");
    now = look(1000);
    CHECK_EQ(now.limit_bytes, 1536 * MB);
    CHECK_STR_HAS(now.where, "memory.limit_in_bytes");
    put("/sys/fs/cgroup/memory/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    CHECK_EQ(kills(), 3);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(cpu_milli(), 1500);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    CHECK_EQ(cpu_milli(), 0);
}

TEST(sysmem_v1_parents) {
    /* as seen from the host; a parent without use_hierarchy does not limit its children */
    machine(64000, 60000);
    put("/proc/self/cgroup", "4:memory:/jobs/one\n0::/\n");
    put("/proc/self/mountinfo",
        "40 30 0:34 / /sys/fs/cgroup/my\\040memory rw - cgroup none rw,memory\n");
    put("/sys/fs/cgroup/my memory/jobs/one/memory.limit_in_bytes", "3145728000\n");
    put("/sys/fs/cgroup/my memory/jobs/one/memory.usage_in_bytes", "1048576\n");
    put("/sys/fs/cgroup/my memory/jobs/memory.limit_in_bytes", "1048576000\n");
    put("/sys/fs/cgroup/my memory/jobs/memory.usage_in_bytes", "2097152\n");
    put("/sys/fs/cgroup/my memory/jobs/memory.use_hierarchy", "1\n");
    CHECK_EQ(look(1000).limit_bytes, 1000 * MB);
    put("/sys/fs/cgroup/my memory/jobs/memory.use_hierarchy", "0\n");
    CHECK_EQ(look(1000).limit_bytes, 3000 * MB);
}

TEST(sysmem_hybrid) {
    /* both are mounted, and v1 has the memory controller; v2's files are not ours */
    machine(2000, 1900);
    put("/proc/self/cgroup", "9:memory:/\n3:cpu:/x\n0::/x\n");
    put("/proc/self/mountinfo", "40 30 0:34 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "42 30 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
    put("/sys/fs/cgroup/unified/x/memory.max", "1000\n");
    put("/sys/fs/cgroup/unified/x/cpu.max", "200000 100000\n");
    put("/sys/fs/cgroup/unified/cpu.max", "max 100000\n");
    CHECK_EQ(look(1000).limit_bytes, 1000 * MB);
    CHECK_EQ(cpu_milli(), 2000); /* cpu of v1 is not mounted */
}

/* Invalid files give no limit, and no crash. */
TEST(sysmem_damaged_files) {
    machine(1000, 1000);
    put("/proc/self/cgroup", "nonsense\n0:\n:::\n0::/a\n");
    put("/proc/self/mountinfo",
        "1 2\n\n - \n29 23 0:26 / /sys/fs/cgroup rw - cgroup2\n" V2_MOUNT "garbage");
    put("/sys/fs/cgroup/a/memory.max", "garbage\n");
    put("/sys/fs/cgroup/a/memory.current", "\n");
    put("/sys/fs/cgroup/memory.max", "99999999999999999999999999\n");
    struct sk_sysmem_now now = look(1000);
    CHECK_STR_EQ(now.where, "this machine");
    put("/sys/fs/cgroup/a/cpu.max", "100000\n");
    CHECK_EQ(cpu_milli(), 0);
    /* less than a thousandth of a CPU is not "no limit" */
    put("/sys/fs/cgroup/a/cpu.max", "50 100000\n");
    CHECK_EQ(cpu_milli(), 1);
}

TEST(sysmem_this_machine) {
    struct sk_sysmem *m;
    struct sk_sysmem_now now;
    struct sk_err err;
    CHECK_OK(sk_sysmem_create(&m, NULL, NULL));
    CHECK_OK_ERR(sk_sysmem_read(m, 1000, &now, &err), &err);
    CHECK_GT(now.limit_bytes, 16 * MB);
    CHECK_GT(now.used_bytes, 0);
    CHECK_LE(now.total_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    (void)sk_sysmem_oom_kills(m);
    (void)sk_sysmem_cpu_milli(m);
    sk_sysmem_destroy(m);
}

/* Memory that is shared with the parent counts in part, shared memory not at all. */
TEST(sysmem_process) {
    enum { N = 64 };
    int go[2], done[2];
    char c;
    uint64_t anon = 0, own = 0, before = 0;
    if (test_sanitized()) test_skip("a sanitizer's shadow is memory, too");
    struct sk_seg s = SK_SEG_EMPTY;
    CHECK_OK(sk_seg_create(&s, "test", N * MB, false, NULL));
    uint8_t *p = mmap(NULL, N * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 1, N * MB);
    CHECK(pipe(go) == 0 && pipe(done) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        memset(s.base, 1, N * MB); /* the store's */
        if (write(done[1], "x", 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
        memset(p, 2, N * MB); /* the pages are private to the child from here on */
        if (write(done[1], "x", 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
        _exit(0);
    }
    CHECK_EQ(read(done[0], &c, 1), 1);
    CHECK(sk_proc_anon(pid, &before));
    CHECK(sk_proc_own(pid, &own));
    CHECK_GE(before, N * MB);
    CHECK_LT(before, (N + N / 2) * MB);
    CHECK_GE(own, N / 4 * MB);
    CHECK_LT(own, N * 3 / 4 * MB);
    CHECK_GE(sk_seg_present(&s), N * MB);
    CHECK_EQ(write(go[1], "x", 1), 1);
    CHECK_EQ(read(done[0], &c, 1), 1);
    CHECK(sk_proc_anon(pid, &anon));
    CHECK(sk_proc_own(pid, &own));
    CHECK_LT(anon, before + 4 * MB);
    CHECK_GE(own, N * MB);
    CHECK_EQ(write(go[1], "x", 1), 1);
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK(!sk_proc_anon(pid, &anon));
    CHECK(!sk_proc_own(pid, &own));
    CHECK_OK(sk_seg_punch(&s, 0, N * MB, NULL));
    CHECK_EQ(sk_seg_present(&s), 0);
    sk_seg_close(&s);
    munmap(p, N * MB);
}
