/* slowfs BACK MOUNTPOINT [options of FUSE]: a pass-through file system whose metadata is slow. A test double.
 *
 * It shows the directory BACK. Every operation on metadata (look up, open, create, rename, ...) takes SLOW_US
 * microseconds longer, reads and writes pass at once. Requests are served side by side, so that delays overlap, as
 * over a distance; with SLOW_SERIAL set they queue, as at a busy server. With SLOW_PLAIN set, flags of renameat2 are
 * refused, as by many file systems; links are refused always. On unmount, SLOW_STATS receives lines
 * "operation count". Names are kept by the kernel for SLOW_CACHE seconds.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define OPERATIONS(X) X(getattr) X(access) X(readlink) X(readdir) X(mkdir) X(unlink) X(rmdir) X(rename) X(chmod) \
    X(chown) X(truncate) X(utimens) X(open) X(create) X(read) X(write) X(release)

#define NUMBER(name) OP_##name,
enum operation { OPERATIONS(NUMBER) OP_COUNT };
#define NAME(name) #name,
static const char *const names[] = {OPERATIONS(NAME)};

static char back[PATH_MAX];
static long delay_us;
static double cache_s;
static int serial, plain;
static atomic_long counts[OP_COUNT];
static pthread_mutex_t server = PTHREAD_MUTEX_INITIALIZER;

/* Counts an operation, and takes its time if it is one on metadata. */
static void charge(enum operation op)
{
    counts[op]++;
    if (op == OP_read || op == OP_write || op == OP_release || delay_us <= 0)
        return;
    struct timespec pause = {delay_us / 1000000, delay_us % 1000000 * 1000};
    if (serial)
        pthread_mutex_lock(&server);
    nanosleep(&pause, NULL);
    if (serial)
        pthread_mutex_unlock(&server);
}

/* The place behind a path of the mount. */
struct place { char path[PATH_MAX]; };
static struct place behind(const char *path)
{
    struct place place;
    if (snprintf(place.path, sizeof place.path, "%s%s", back, path) >= (int)sizeof place.path)
        place.path[0] = '\0'; /* too long: no such file */
    return place;
}

static int result(long value) { return value < 0 ? -errno : (int)value; }

static int slow_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    charge(OP_getattr);
    return result(fi ? fstat(fi->fh, st) : lstat(behind(path).path, st));
}

static int slow_access(const char *path, int mask) { charge(OP_access); return result(access(behind(path).path, mask)); }

static int slow_readlink(const char *path, char *to, size_t size)
{
    charge(OP_readlink);
    ssize_t length = readlink(behind(path).path, to, size - 1);
    if (length < 0)
        return -errno;
    to[length] = '\0';
    return 0;
}

static int slow_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *fi,
                        enum fuse_readdir_flags flags)
{
    (void)offset; (void)fi; (void)flags;
    charge(OP_readdir);
    DIR *folder = opendir(behind(path).path);
    if (!folder)
        return -errno;
    for (struct dirent *entry; (entry = readdir(folder));)
        fill(buffer, entry->d_name, NULL, 0, 0);
    closedir(folder);
    return 0;
}

static int slow_mkdir(const char *path, mode_t mode) { charge(OP_mkdir); return result(mkdir(behind(path).path, mode)); }
static int slow_unlink(const char *path) { charge(OP_unlink); return result(unlink(behind(path).path)); }
static int slow_rmdir(const char *path) { charge(OP_rmdir); return result(rmdir(behind(path).path)); }

static int slow_rename(const char *from, const char *to, unsigned int flags)
{
    charge(OP_rename);
    if (flags && plain)
        return -EINVAL;
    return result(renameat2(AT_FDCWD, behind(from).path, AT_FDCWD, behind(to).path, flags));
}

static int slow_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    charge(OP_chmod);
    return result(fi ? fchmod(fi->fh, mode) : chmod(behind(path).path, mode));
}

static int slow_chown(const char *path, uid_t user, gid_t group, struct fuse_file_info *fi)
{
    charge(OP_chown);
    return result(fi ? fchown(fi->fh, user, group) : lchown(behind(path).path, user, group));
}

static int slow_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
    charge(OP_truncate);
    return result(fi ? ftruncate(fi->fh, size) : truncate(behind(path).path, size));
}

static int slow_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *fi)
{
    charge(OP_utimens);
    return result(fi ? futimens(fi->fh, times) : utimensat(AT_FDCWD, behind(path).path, times, AT_SYMLINK_NOFOLLOW));
}

static int opened(int fd, struct fuse_file_info *fi)
{
    if (fd < 0)
        return -errno;
    fi->fh = fd;
    return 0;
}

static int slow_open(const char *path, struct fuse_file_info *fi)
{
    charge(OP_open);
    return opened(open(behind(path).path, fi->flags), fi);
}

static int slow_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    charge(OP_create);
    return opened(open(behind(path).path, fi->flags, mode), fi);
}

static int slow_read(const char *path, char *data, size_t size, off_t offset, struct fuse_file_info *fi)
{
    (void)path;
    charge(OP_read);
    return result(pread(fi->fh, data, size, offset));
}

static int slow_write(const char *path, const char *data, size_t size, off_t offset, struct fuse_file_info *fi)
{
    (void)path;
    charge(OP_write);
    return result(pwrite(fi->fh, data, size, offset));
}

static int slow_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    charge(OP_release);
    return result(close(fi->fh));
}

static int slow_statfs(const char *path, struct statvfs *st) { return result(statvfs(behind(path).path, st)); }

static void *slow_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->use_ino = 1;
    config->entry_timeout = config->attr_timeout = cache_s;
    config->negative_timeout = 0;
    return NULL;
}

static void slow_destroy(void *data)
{
    (void)data;
    const char *path = getenv("SLOW_STATS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    for (int op = 0; op < OP_COUNT; op++)
        fprintf(file, "%s %ld\n", names[op], (long)counts[op]);
    fclose(file);
}

static const struct fuse_operations operations = {
#define HANDLER(name) .name = slow_##name,
    OPERATIONS(HANDLER) .statfs = slow_statfs, .init = slow_init, .destroy = slow_destroy,
};

int main(int argc, char **argv)
{
    if (argc < 3 || !realpath(argv[1], back)) {
        fprintf(stderr, "usage: slowfs BACK MOUNTPOINT [options of FUSE]; BACK must be a directory that exists\n");
        return 2;
    }
    const char *delay = getenv("SLOW_US"), *cache = getenv("SLOW_CACHE"), *queue = getenv("SLOW_SERIAL"), *simple = getenv("SLOW_PLAIN");
    delay_us = delay ? atol(delay) : 0;
    cache_s = cache ? atof(cache) : 0;
    serial = queue && *queue;
    plain = simple && *simple;
    argv[1] = argv[0];
    return fuse_main(argc - 1, argv + 1, &operations, NULL);
}
