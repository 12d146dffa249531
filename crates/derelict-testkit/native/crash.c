/*
 * Runs a program and kills it at a point that is given by number: right before it makes its Nth system
 * call that changes something on a disk, or makes a change durable. Nothing of the program has to know.
 *
 *     crash N REPORT PROGRAM [ARGUMENT...]
 *
 * N is counted from one over all threads of the program, but not over the processes it starts. With N = 0
 * it runs to its end. REPORT is a file that says in one line how many such calls there were, and which one
 * was not made any more. The exit status is the program's own, or 137 if it was killed.
 *
 * A seccomp filter picks the system calls, so that all others run at full speed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct call {
	int number;
	const char *name;
};

/* System calls that change something or make it durable. */
static const struct call changing[] = {
#ifdef SYS_rename
	{ SYS_rename, "rename" },
#endif
	{ SYS_renameat, "renameat" },
	{ SYS_renameat2, "renameat2" },
#ifdef SYS_unlink
	{ SYS_unlink, "unlink" },
	{ SYS_rmdir, "rmdir" },
	{ SYS_mkdir, "mkdir" },
	{ SYS_chmod, "chmod" },
#endif
	{ SYS_unlinkat, "unlinkat" },
	{ SYS_mkdirat, "mkdirat" },
	{ SYS_linkat, "linkat" },
	{ SYS_symlinkat, "symlinkat" },
	{ SYS_fchmod, "fchmod" },
	{ SYS_fchmodat, "fchmodat" },
	{ SYS_fchown, "fchown" },
	{ SYS_ftruncate, "ftruncate" },
	{ SYS_fallocate, "fallocate" },
	{ SYS_pwrite64, "pwrite64" },
	{ SYS_fsync, "fsync" },
	{ SYS_fdatasync, "fdatasync" },
};

#define CHANGING (sizeof(changing) / sizeof(changing[0]))

static void die(const char *what)
{
	fprintf(stderr, "crash: %s: %s\n", what, strerror(errno));
	exit(126);
}

/* What the filter says of a call it picked: its place in the table, or one of these. */
enum { CREATES = CHANGING, WRITES = CHANGING + 1 };

static void install_filter(void)
{
	struct sock_filter code[2 * CHANGING + 16];
	unsigned short at = 0;
	size_t i;

	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (i = 0; i < CHANGING; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, changing[i].number, 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | i);
	}
	code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 1);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | WRITES);
	code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
	code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | CREATES);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

	struct sock_fprog program = { .len = at, .filter = code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("cannot install the filter");
}

/* Whether a thread belongs to the program itself, and not to one that it started. */
static int belongs(pid_t program, pid_t thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", program, thread);
	return access(path, F_OK) == 0;
}

/* Whether a write goes to a file and not to a pipe or a terminal: 1 for a file. */
static int writes_to_a_file(pid_t thread)
{
	struct __ptrace_syscall_info info;
	struct stat found;
	char path[64];

	if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", thread, (int)info.seccomp.args[0]);
	return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static const char *name_of(unsigned long picked)
{
	if (picked == CREATES)
		return "openat";
	return picked == WRITES ? "write" : changing[picked].name;
}

static void report(const char *path, unsigned long points, const char *name)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "%lu %s\n", points, name) < 0 || fclose(file))
		die("cannot write the report");
}

static int follow(pid_t program, unsigned long kill_at, const char *report_path)
{
	unsigned long points = 0, picked;
	int status, event, signal;
	pid_t thread;

	while ((thread = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (thread != program)
				continue;
			report(report_path, points, "-");
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
		event = status >> 16;
		signal = WSTOPSIG(status);
		if (event == PTRACE_EVENT_SECCOMP && belongs(program, thread)) {
			if (ptrace(PTRACE_GETEVENTMSG, thread, 0, &picked))
				die("cannot tell which call it is");
			if ((picked != WRITES || writes_to_a_file(thread)) && ++points == kill_at) {
				report(report_path, points, name_of(picked));
				kill(program, SIGKILL);
				/* Its other threads have to be waited for before it counts as dead. */
				while ((thread = waitpid(-1, &status, __WALL)) > 0)
					if (thread == program && WIFSIGNALED(status))
						return 137;
				die("cannot wait for its end");
			}
		}
		/* A new thread begins with a stop of its own, which it must not see as a signal. */
		if (event || signal == SIGSTOP || signal == SIGTRAP)
			signal = 0;
		ptrace(PTRACE_CONT, thread, 0, signal);
	}
	die("cannot wait");
	return 126;
}

int main(int argc, char **argv)
{
	const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			     PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int status;
	pid_t program;

	if (argc < 4) {
		fprintf(stderr, "usage: crash N REPORT PROGRAM [ARGUMENT...]\n");
		return 126;
	}
	program = fork();
	if (program < 0)
		die("cannot fork");
	if (program == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			die("cannot be traced");
		raise(SIGSTOP);
		install_filter();
		execv(argv[3], argv + 3);
		die(argv[3]);
	}
	if (waitpid(program, &status, 0) != program || !WIFSTOPPED(status))
		die("cannot start");
	if (ptrace(PTRACE_SETOPTIONS, program, 0, options) || ptrace(PTRACE_CONT, program, 0, 0))
		die("cannot trace");
	return follow(program, strtoul(argv[1], NULL, 10), argv[2]);
}
