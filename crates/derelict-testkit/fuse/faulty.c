/*
 * A file system that shows a directory and fails where a name says so, until it is told to stop.
 *
 *     faulty -f MOUNTPOINT        (with the environment variable FAULTY_BACKING naming the directory)
 *
 * Removing an entry whose name begins with EBUSY, EIO, ESTALE or ENOTEMPTY fails with that error; listing a
 * directory whose name begins with LIST-EIO fails with EIO; removing an entry whose name begins with HANG waits.
 * All that ends as soon as a file `.healed` lies in the directory. While something waits, there is a file
 * `.hanging` in it. Neither is shown.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int backing;

static const char *below(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int told(int result)
{
	return result < 0 ? -errno : 0;
}

static int healed(void)
{
	return faccessat(backing, ".healed", F_OK, 0) == 0;
}

static int begins(const char *path, const char *with)
{
	return strncmp(strrchr(path, '/') + 1, with, strlen(with)) == 0;
}

/* What removing an entry comes to before it is tried; 0 to try it. */
static int fault(const char *path)
{
	static const struct {
		const char *name;
		int error;
	} faults[] = { { "EBUSY", EBUSY }, { "EIO", EIO }, { "ESTALE", ESTALE }, { "ENOTEMPTY", ENOTEMPTY } };
	const struct timespec moment = { 0, 1000000 };
	size_t i;

	if (healed())
		return 0;
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (begins(path, faults[i].name))
			return -faults[i].error;
	if (begins(path, "HANG")) {
		close(openat(backing, ".hanging", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		while (!healed() && !fuse_interrupted())
			nanosleep(&moment, NULL);
		unlinkat(backing, ".hanging", 0);
		return healed() ? 0 : -EINTR;
	}
	return 0;
}

static void *start(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	config->use_ino = 1;
	/* Nothing is remembered, so that what is seen is what lies there. */
	config->entry_timeout = 0;
	config->attr_timeout = 0;
	config->negative_timeout = 0;
	config->intr = 1;
	return NULL;
}

static int show_attributes(const char *path, struct stat *found, struct fuse_file_info *file)
{
	(void)file;
	return told(fstatat(backing, below(path), found, AT_SYMLINK_NOFOLLOW));
}

static int show_link(const char *path, char *target, size_t size)
{
	ssize_t length = readlinkat(backing, below(path), target, size - 1);

	if (length < 0)
		return -errno;
	target[length] = 0;
	return 0;
}

static int list(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *file,
		enum fuse_readdir_flags flags)
{
	struct dirent *entry;
	DIR *dir;
	int fd;

	(void)offset;
	(void)file;
	(void)flags;
	if (path[1] && begins(path, "LIST-EIO") && !healed())
		return -EIO;
	fd = openat(backing, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || !(dir = fdopendir(fd)))
		return -errno;
	while ((entry = readdir(dir))) {
		struct stat found = { .st_ino = entry->d_ino, .st_mode = DTTOIF(entry->d_type) };

		if (strcmp(entry->d_name, ".healed") && strcmp(entry->d_name, ".hanging"))
			fill(buffer, entry->d_name, &found, 0, 0);
	}
	closedir(dir);
	return 0;
}

static int make_directory(const char *path, mode_t mode)
{
	return told(mkdirat(backing, below(path), mode));
}

static int make_link(const char *target, const char *path)
{
	return told(symlinkat(target, backing, below(path)));
}

static int remove_file(const char *path)
{
	int error = fault(path);

	return error ? error : told(unlinkat(backing, below(path), 0));
}

static int remove_directory(const char *path)
{
	int error = fault(path);

	return error ? error : told(unlinkat(backing, below(path), AT_REMOVEDIR));
}

static int move(const char *from, const char *to, unsigned int flags)
{
	return told(renameat2(backing, below(from), backing, below(to), flags));
}

static int change_mode(const char *path, mode_t mode, struct fuse_file_info *file)
{
	(void)file;
	return told(fchmodat(backing, below(path), mode, 0));
}

static int open_file(const char *path, struct fuse_file_info *file)
{
	int fd = openat(backing, below(path), file->flags | O_CLOEXEC);

	file->fh = fd;
	return told(fd);
}

static int create_file(const char *path, mode_t mode, struct fuse_file_info *file)
{
	int fd = openat(backing, below(path), file->flags | O_CREAT | O_CLOEXEC, mode);

	file->fh = fd;
	return told(fd);
}

static int read_file(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *file)
{
	ssize_t length = pread(file->fh, buffer, size, offset);

	(void)path;
	return length < 0 ? -errno : (int)length;
}

static int write_file(const char *path, const char *buffer, size_t size, off_t offset, struct fuse_file_info *file)
{
	ssize_t length = pwrite(file->fh, buffer, size, offset);

	(void)path;
	return length < 0 ? -errno : (int)length;
}

static int close_file(const char *path, struct fuse_file_info *file)
{
	(void)path;
	return told(close(file->fh));
}

static void wake_up(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	static const struct fuse_operations operations = {
		.init = start,
		.getattr = show_attributes,
		.readlink = show_link,
		.readdir = list,
		.mkdir = make_directory,
		.symlink = make_link,
		.unlink = remove_file,
		.rmdir = remove_directory,
		.rename = move,
		.chmod = change_mode,
		.open = open_file,
		.create = create_file,
		.read = read_file,
		.write = write_file,
		.release = close_file,
	};
	const char *directory = getenv("FAULTY_BACKING");

	backing = directory ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (backing < 0) {
		fprintf(stderr, "faulty: FAULTY_BACKING names no directory\n");
		return 1;
	}
	umask(0);
	/* By this signal the library wakes up whoever hangs when the one that asked for it is killed. */
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = wake_up }, NULL);
	return fuse_main(argc, argv, &operations, NULL);
}
