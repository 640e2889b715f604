/* emulator.c - for ./dev arm64 only: a program that runs under qemu starts other programs for the
 * same processor under qemu, too. The kernel could not run their code. It takes the place of the C
 * library's execvpe, by which libskate starts its fork server. */
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#ifndef EM_AARCH64
#define EM_AARCH64 183
#endif

/* default: libskate.so, too, has to find it */
__attribute__((visibility("default"))) int execvpe(const char *file, char *const argv[],
                                                   char *const env[]);

static int is_foreign(const char *file) {
    Elf64_Ehdr head;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, &head, sizeof head);
    close(fd);
    return n == (ssize_t)sizeof head && head.e_machine == EM_AARCH64;
}

/* Called in a child of vfork: it must not allocate. */
int execvpe(const char *file, char *const argv[], char *const env[]) {
    enum { CAP = 64 };
    char path[4096]; /* of what /proc/self/exe is here; for qemu it is qemu */
    ssize_t len = readlink(file, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    const char *before[] = {SK_EMULATOR, "-0", argv[0], len > 0 ? path : file}, *all[CAP];
    size_t n = 0;
    if (!is_foreign(file)) return execve(file, argv, env);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) all[n++] = before[i];
    for (size_t i = 1; argv[i] && n < CAP - 1; i++) all[n++] = argv[i];
    all[n] = NULL;
    return execve(all[0], (char *const *)all, env);
}
