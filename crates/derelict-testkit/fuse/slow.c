/* A file system whose every answer takes time, for tests and benchmarks of manners.
 *
 *   slow BACKING MOUNTPOINT TRAVEL_US SERVICE_US
 *
 * It shows the directory BACKING. An operation travels to a server and back in TRAVEL_US, together with any others,
 * and is served there in SERVICE_US, after all that came before it. It stays in the foreground until it is unmounted.
 * How many operations were served is the value of the attribute `user.served` of the mounted directory.
 */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>

struct server {
  pthread_mutex_t turn;
  struct timespec idle_from;
  long travel, service; /* nanoseconds */
  long served;
};

static struct server server = {.turn = PTHREAD_MUTEX_INITIALIZER};
static int backing;

static struct timespec later(struct timespec t, long nanoseconds) {
  nanoseconds += t.tv_nsec;
  t.tv_sec += nanoseconds / 1000000000;
  t.tv_nsec = nanoseconds % 1000000000;
  return t;
}

static int is_before(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* Returns when the answer is back. */
static void round_trip(void) {
  struct timespec now, back;
  clock_gettime(CLOCK_MONOTONIC, &now);
  pthread_mutex_lock(&server.turn);
  struct timespec arrival = later(now, server.travel / 2);
  struct timespec start = is_before(server.idle_from, arrival) ? arrival : server.idle_from;
  server.idle_from = later(start, server.service);
  back = later(server.idle_from, server.travel / 2);
  server.served++;
  pthread_mutex_unlock(&server.turn);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &back, NULL) == EINTR) continue;
}

/* Paths come absolute; below the backing directory they are relative. */
static const char *below(const char *path) { return path[1] ? path + 1 : "."; }

static int told(int result) { return result < 0 ? -errno : 0; }

static int slow_getattr(const char *path, struct stat *st, struct fuse_file_info *file) {
  (void)file;
  round_trip();
  return told(fstatat(backing, below(path), st, AT_SYMLINK_NOFOLLOW));
}

static int slow_getxattr(const char *path, const char *name, char *value, size_t size) {
  char text[24];
  int length;
  if (strcmp(path, "/") || strcmp(name, "user.served")) return -ENODATA;
  pthread_mutex_lock(&server.turn);
  length = snprintf(text, sizeof text, "%ld", server.served);
  pthread_mutex_unlock(&server.turn);
  if (size == 0) return length;
  if (size < (size_t)length) return -ERANGE;
  memcpy(value, text, length);
  return length;
}

static int slow_opendir(const char *path, struct fuse_file_info *file) {
  int fd = openat(backing, below(path), O_RDONLY | O_DIRECTORY);
  DIR *listing = fd < 0 ? NULL : fdopendir(fd);
  if (!listing) return -errno;
  file->fh = (uintptr_t)listing;
  return 0;
}

static int slow_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t from, struct fuse_file_info *file,
                        enum fuse_readdir_flags flags) {
  DIR *listing = (DIR *)(uintptr_t)file->fh;
  struct dirent *entry;
  (void)path, (void)flags;
  round_trip();
  seekdir(listing, from);
  while ((entry = readdir(listing)) != NULL) {
    struct stat st = {0};
    st.st_ino = entry->d_ino;
    st.st_mode = DTTOIF(entry->d_type);
    if (fill(buffer, entry->d_name, &st, telldir(listing), 0)) break;
  }
  return 0;
}

static int slow_releasedir(const char *path, struct fuse_file_info *file) {
  (void)path;
  return told(closedir((DIR *)(uintptr_t)file->fh));
}

static int slow_unlink(const char *path) {
  round_trip();
  return told(unlinkat(backing, below(path), 0));
}

static int slow_rmdir(const char *path) {
  round_trip();
  return told(unlinkat(backing, below(path), AT_REMOVEDIR));
}

static int slow_mkdir(const char *path, mode_t mode) {
  round_trip();
  return told(mkdirat(backing, below(path), mode));
}

static int slow_rename(const char *from, const char *to, unsigned flags) {
  round_trip();
  return told(renameat2(backing, below(from), backing, below(to), flags));
}

static int slow_create(const char *path, mode_t mode, struct fuse_file_info *file) {
  int fd;
  round_trip();
  fd = openat(backing, below(path), file->flags | O_CREAT, mode);
  file->fh = fd;
  return told(fd);
}

static int slow_open(const char *path, struct fuse_file_info *file) {
  int fd;
  round_trip();
  fd = openat(backing, below(path), file->flags);
  file->fh = fd;
  return told(fd);
}

static int slow_read(const char *path, char *buffer, size_t size, off_t at, struct fuse_file_info *file) {
  ssize_t length = pread(file->fh, buffer, size, at);
  (void)path;
  return length < 0 ? -errno : (int)length;
}

static int slow_write(const char *path, const char *buffer, size_t size, off_t at, struct fuse_file_info *file) {
  ssize_t length = pwrite(file->fh, buffer, size, at);
  (void)path;
  return length < 0 ? -errno : (int)length;
}

static int slow_release(const char *path, struct fuse_file_info *file) {
  (void)path;
  return told(close(file->fh));
}

static int slow_fsyncdir(const char *path, int only_data, struct fuse_file_info *file) {
  (void)path, (void)only_data, (void)file;
  round_trip();
  return 0;
}

/* Nothing may be answered from the kernel's memory: each question is to reach the server. */
static void *slow_init(struct fuse_conn_info *connection, struct fuse_config *config) {
  (void)connection;
  config->use_ino = 1;
  config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
  return NULL;
}

static const struct fuse_operations operations = {
    .init = slow_init,
    .getattr = slow_getattr,
    .getxattr = slow_getxattr,
    .opendir = slow_opendir,
    .readdir = slow_readdir,
    .releasedir = slow_releasedir,
    .fsyncdir = slow_fsyncdir,
    .unlink = slow_unlink,
    .rmdir = slow_rmdir,
    .mkdir = slow_mkdir,
    .rename = slow_rename,
    .create = slow_create,
    .open = slow_open,
    .read = slow_read,
    .write = slow_write,
    .release = slow_release,
};

int main(int count, char **arguments) {
  if (count != 5) {
    fprintf(stderr, "usage: slow BACKING MOUNTPOINT TRAVEL_US SERVICE_US\n");
    return 2;
  }
  backing = open(arguments[1], O_PATH | O_DIRECTORY);
  if (backing < 0) {
    perror(arguments[1]);
    return 1;
  }
  server.travel = atol(arguments[3]) * 1000;
  server.service = atol(arguments[4]) * 1000;
  char *mounting[] = {arguments[0], "-f", "-o", "default_permissions,max_idle_threads=64", arguments[2], NULL};
  return fuse_main(5, mounting, &operations, NULL);
}
