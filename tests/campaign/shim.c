/* Faults at chosen system calls of a program that this is loaded into before its libraries (LD_PRELOAD).

   SHIM_ROOT    calls on paths below this directory count
   SHIM_COUNTS  a file of one 64-bit counter per kind of call, shared by all processes; filled with zeros before
   SHIM_RULE    "KIND FIRST TIMES DEED NUMBER": what befalls the FIRST-th call of a kind, and TIMES - 1 after it
   SHIM_LOG     a line for each call that something befell, and, with SHIM_TRACK, for what is written and synced
   SHIM_PACE_US writes below SHIM_ROOT take so much longer
   SHIM_BOOT    read in place of the kernel's boot id

   Deeds: kill (SIGKILL before the call), killafter, exit (with NUMBER), error (errno NUMBER), short, sleep (NUMBER ms). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN, CREATE, WRITE, PWRITE, PREAD, RENAME, LINK, UNLINK, MKDIR, FSYNC, SYNCFS, TRUNCATE, ALLOCATE, FLOCK, KINDS };
static const char *const names[KINDS] = {
    "open", "create", "write", "pwrite", "pread", "rename", "link", "unlink", "mkdir", "fsync", "syncfs", "truncate",
    "allocate", "flock",
};
enum deed { NOTHING, KILL, KILLAFTER, EXIT, ERROR, SHORT, SLEEP };
static const char *const deeds[] = {"", "kill", "killafter", "exit", "error", "short", "sleep"};

static const char *root, *boot;
static size_t root_length;
static _Atomic uint64_t *counts;
static int log_fd = -1, tracks;
static long pace_us;
static struct { int kind; uint64_t first, times; int deed; long number; } rule = {-1, 0, 0, NOTHING, 0};

static int one_of(const char *word, const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i])) return i;
    dprintf(2, "shim: unknown word %s\n", word);
    _exit(99);
}

/* The log and the counters get high descriptors, which nothing closes that tidies up the low ones. */
static int own_file(const char *path, int flags) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0666);
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 500);
    if (high >= 0) close(fd);
    return high >= 0 ? high : fd;
}

__attribute__((constructor)) static void begin(void) {
    const char *text;
    root = getenv("SHIM_ROOT");
    root_length = root ? strlen(root) : 0;
    boot = getenv("SHIM_BOOT");
    tracks = getenv("SHIM_TRACK") != NULL;
    if ((text = getenv("SHIM_PACE_US"))) pace_us = atol(text);
    if ((text = getenv("SHIM_LOG"))) log_fd = own_file(text, O_WRONLY | O_CREAT | O_APPEND);
    if ((text = getenv("SHIM_COUNTS"))) {
        int fd = own_file(text, O_RDWR);
        void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, KINDS * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory != MAP_FAILED) counts = memory;
        if (fd >= 0) close(fd);
    }
    char kind[16], deed[16];
    if ((text = getenv("SHIM_RULE")) &&
        sscanf(text, "%15s %lu %lu %15s %ld", kind, &rule.first, &rule.times, deed, &rule.number) == 5) {
        rule.kind = one_of(kind, names, KINDS);
        rule.deed = one_of(deed, deeds, sizeof deeds / sizeof *deeds);
    }
}

static void note(const char *format, ...) {
    if (log_fd < 0) return;
    char line[PATH_MAX + 200];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    syscall(SYS_write, log_fd, line, length);
}

static void pause_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static int is_below(const char *path) {
    return root && path && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static const char *of_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

/* The absolute path of a name that is relative to a directory. */
static const char *of_name(int dir, const char *name, char *path) {
    if (!name || name[0] == '/') return name;
    char folder[PATH_MAX];
    if (dir != AT_FDCWD) of_fd(dir, folder);
    else if (!getcwd(folder, sizeof folder)) folder[0] = 0;
    snprintf(path, PATH_MAX, "%.2000s/%.2000s", folder, name);
    return path;
}

/* What befalls this call; deaths before it and delays have happened when this returns. */
static int befalls(enum kind kind, const char *path) {
    if (!is_below(path)) return NOTHING;
    if (pace_us && (kind == WRITE || kind == PWRITE)) pause_us(pace_us);
    uint64_t number = counts ? atomic_fetch_add(&counts[kind], 1) + 1 : 0;
    if (rule.kind != (int)kind || number < rule.first || number >= rule.first + rule.times) return NOTHING;
    note("hit %s %s %ld %s\n", names[kind], deeds[rule.deed], rule.number, path);
    if (rule.deed == KILL) kill(getpid(), SIGKILL);
    if (rule.deed == EXIT) _exit((int)rule.number);
    if (rule.deed == SLEEP) pause_us(rule.number * 1000);
    errno = (int)rule.number;
    return rule.deed;
}

static void after(int deed) {
    if (deed == KILLAFTER) kill(getpid(), SIGKILL);
}

static void track(const char *what, int fd, const char *path) {
    struct stat about;
    if (tracks && is_below(path) && !fstat(fd, &about)) note("%s %lu %s\n", what, about.st_ino, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int open_below(int dir, const char *name, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    if (boot && name && !strcmp(name, "/proc/sys/kernel/random/boot_id")) name = boot;
    const char *path = of_name(dir, name, buffer);
    int deed = befalls(flags & (O_CREAT | O_WRONLY | O_RDWR) ? CREATE : OPEN, path);
    if (deed == ERROR) return -1;
    int fd = (int)syscall(SYS_openat, dir, name, flags, mode);
    if (fd >= 0 && flags & O_TRUNC) track("dirty", fd, path);
    after(deed);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }

int open(const char *name, int flags, ...) { MODE(flags) return open_below(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_below(AT_FDCWD, name, flags, mode); }
int openat(int dir, const char *name, int flags, ...) { MODE(flags) return open_below(dir, name, flags, mode); }
int openat64(int dir, const char *name, int flags, ...) { MODE(flags) return open_below(dir, name, flags, mode); }

ssize_t write(int fd, const void *data, size_t count) {
    char buffer[PATH_MAX];
    const char *path = of_fd(fd, buffer);
    int deed = befalls(WRITE, path);
    if (deed == ERROR) return -1;
    ssize_t done = syscall(SYS_write, fd, data, deed == SHORT && count > 1 ? count / 2 : count);
    track("dirty", fd, path);
    after(deed);
    return done;
}

static ssize_t pwritev_below(int fd, const struct iovec *parts, int count, off_t offset) {
    char buffer[PATH_MAX];
    const char *path = of_fd(fd, buffer);
    int deed = befalls(PWRITE, path);
    if (deed == ERROR) return -1;
    struct iovec half = {parts[0].iov_base, parts[0].iov_len > 1 ? parts[0].iov_len / 2 : parts[0].iov_len};
    int is_short = deed == SHORT && count;
    ssize_t done = syscall(SYS_pwritev, fd, is_short ? &half : parts, is_short ? 1 : count, offset, 0);
    track("dirty", fd, path);
    after(deed);
    return done;
}

static ssize_t pwrite_below(int fd, const void *data, size_t count, off_t offset) {
    struct iovec part = {(void *)data, count};
    return pwritev_below(fd, &part, 1, offset);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) { return pwrite_below(fd, data, count, offset); }
ssize_t pwrite64(int fd, const void *data, size_t count, off_t offset) { return pwrite_below(fd, data, count, offset); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return pwritev_below(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev_below(fd, parts, count, at); }
/* Python's os.pwritev and os.preadv are these, without flags. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    return flags ? syscall(SYS_pwritev2, fd, parts, count, at, 0, flags) : pwritev_below(fd, parts, count, at);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    return pwritev2(fd, parts, count, at, flags);
}

static ssize_t preadv_below(int fd, const struct iovec *parts, int count, off_t offset) {
    char buffer[PATH_MAX];
    int deed = befalls(PREAD, of_fd(fd, buffer));
    if (deed == ERROR) return -1;
    struct iovec half = {parts[0].iov_base, parts[0].iov_len > 1 ? parts[0].iov_len / 2 : parts[0].iov_len};
    int is_short = deed == SHORT && count;
    ssize_t done = syscall(SYS_preadv, fd, is_short ? &half : parts, is_short ? 1 : count, offset, 0);
    after(deed);
    return done;
}

static ssize_t pread_below(int fd, void *data, size_t count, off_t offset) {
    struct iovec part = {data, count};
    return preadv_below(fd, &part, 1, offset);
}

ssize_t pread(int fd, void *data, size_t count, off_t offset) { return pread_below(fd, data, count, offset); }
ssize_t pread64(int fd, void *data, size_t count, off_t offset) { return pread_below(fd, data, count, offset); }
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at) { return preadv_below(fd, parts, count, at); }
ssize_t preadv64(int fd, const struct iovec *parts, int count, off_t at) { return preadv_below(fd, parts, count, at); }
ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    return flags ? syscall(SYS_preadv2, fd, parts, count, at, 0, flags) : preadv_below(fd, parts, count, at);
}
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    return preadv2(fd, parts, count, at, flags);
}

static int rename_below(int old_dir, const char *old, int new_dir, const char *new, unsigned flags) {
    char buffer[PATH_MAX];
    const char *path = of_name(new_dir, new, buffer);
    int deed = befalls(RENAME, path);
    if (deed == ERROR) return -1;
    int done = (int)syscall(SYS_renameat2, old_dir, old, new_dir, new, flags);
    after(deed);
    return done;
}

int rename(const char *old, const char *new) { return rename_below(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int old_dir, const char *old, int new_dir, const char *new) { return rename_below(old_dir, old, new_dir, new, 0); }
int renameat2(int old_dir, const char *old, int new_dir, const char *new, unsigned flags) {
    return rename_below(old_dir, old, new_dir, new, flags);
}

#define PLAIN(type, kind, path_of, call) \
    char buffer[PATH_MAX]; \
    int deed = befalls(kind, path_of); \
    if (deed == ERROR) return -1; \
    type done = (type)(call); \
    after(deed); \
    return done;

int linkat(int old_dir, const char *old, int new_dir, const char *new, int flags) {
    PLAIN(int, LINK, of_name(new_dir, new, buffer), syscall(SYS_linkat, old_dir, old, new_dir, new, flags))
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }
int unlinkat(int dir, const char *name, int flags) {
    PLAIN(int, UNLINK, of_name(dir, name, buffer), syscall(SYS_unlinkat, dir, name, flags))
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int mkdirat(int dir, const char *name, mode_t mode) {
    PLAIN(int, MKDIR, of_name(dir, name, buffer), syscall(SYS_mkdirat, dir, name, mode))
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
int flock(int fd, int operation) { PLAIN(int, FLOCK, of_fd(fd, buffer), syscall(SYS_flock, fd, operation)) }

static int fsync_below(int fd, long number) {
    char buffer[PATH_MAX];
    const char *path = of_fd(fd, buffer);
    int deed = befalls(number == SYS_syncfs ? SYNCFS : FSYNC, path);
    if (deed == ERROR) return -1;
    int done = (int)syscall(number, fd);
    if (!done) track(number == SYS_syncfs ? "syncfs" : "sync", fd, path);
    after(deed);
    return done;
}

int fsync(int fd) { return fsync_below(fd, SYS_fsync); }
int fdatasync(int fd) { return fsync_below(fd, SYS_fdatasync); }
int syncfs(int fd) { return fsync_below(fd, SYS_syncfs); }

static int truncate_below(int fd, off_t nbytes) {
    char buffer[PATH_MAX];
    const char *path = of_fd(fd, buffer);
    int deed = befalls(TRUNCATE, path);
    if (deed == ERROR) return -1;
    int done = (int)syscall(SYS_ftruncate, fd, nbytes);
    track("dirty", fd, path);
    after(deed);
    return done;
}

int ftruncate(int fd, off_t nbytes) { return truncate_below(fd, nbytes); }
int ftruncate64(int fd, off_t nbytes) { return truncate_below(fd, nbytes); }

/* This one returns its error; glibc writes to every block where the file system cannot allocate. */
static int allocate_below(int (*plain)(int, off_t, off_t), int fd, off_t offset, off_t nbytes) {
    char buffer[PATH_MAX];
    const char *path = of_fd(fd, buffer);
    int deed = befalls(ALLOCATE, path);
    if (deed == ERROR) return (int)rule.number;
    int failed = plain(fd, offset, nbytes);
    track("dirty", fd, path);
    after(deed);
    return failed;
}

int posix_fallocate(int fd, off_t offset, off_t nbytes) {
    return allocate_below(REAL(posix_fallocate), fd, offset, nbytes);
}
int posix_fallocate64(int fd, off_t offset, off_t nbytes) {
    return allocate_below(REAL(posix_fallocate64), fd, offset, nbytes);
}
