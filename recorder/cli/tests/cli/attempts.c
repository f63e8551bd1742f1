// Stands where the driver does: the worker loads it, and it tries what machine code of a stranger could try.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

static void say(const char *name, long result) {
    printf("%s: %s\n", name, result >= 0 ? "allowed" : strerror(errno));
    fflush(stdout);
}

static void file(const char *name, const char *folder, const char *path, int flags) {
    char whole[4096];
    snprintf(whole, sizeof whole, "%s%s%s", folder ? folder : "", folder ? "/" : "", path);
    say(name, open(whole, flags, 0600));
}

static int to_listener(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "listener"};
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

static int other;

static void *idle(void *nothing) {
    __atomic_store_n(&other, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    for (;;) pause();
    return nothing;
}

// The driver starts threads and names them by files.
static void thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, idle, NULL) != 0) { say("start a thread", -1); return; }
    while (!__atomic_load_n(&other, __ATOMIC_SEQ_CST)) usleep(100);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", other);
    int comm = open(path, O_WRONLY | O_TRUNC);
    say("name a thread", comm < 0 ? comm : write(comm, "named", 5));
}

// The variables that it has now, and those that it began with.
static void variables(void) {
    errno = EACCES;
    say("read a variable", getenv("ACCESS_TOKEN") || getenv("HOME") ? 0 : -1);
    char text[1 << 16];
    int begin = open("/proc/self/environ", O_RDONLY);
    ssize_t length = begin < 0 ? 0 : read(begin, text, sizeof text);
    errno = EACCES;
    say("read a variable of the beginning", memmem(text, length > 0 ? length : 0, "secret", 6) ? 0 : -1);
}

static void parent(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", getppid());
    file("read variables of the parent", NULL, path, O_RDONLY);
    file("read what describes the machine", NULL, "/proc/meminfo", O_RDONLY);
    file("read what describes itself", NULL, "/proc/self/maps", O_RDONLY);
    say("send a signal to the parent", kill(getppid(), 0));
    say("send a signal to the group", kill(0, 0));
    say("send a signal to itself", kill(getpid(), 0));
    say("trace the parent", ptrace(PTRACE_SEIZE, getppid(), 0, 0));
}

__attribute__((constructor)) static void attempt(void) {
    file("read a library's folder", NULL, "/usr/lib", O_RDONLY);
    file("read the loader's cache", NULL, "/etc/ld.so.cache", O_RDONLY);
    file("read the capture", NULL, "a.stallmap", O_RDONLY);
    file("write the capture", NULL, "a.stallmap", O_WRONLY);
    file("read a file next to it", NULL, "secret", O_RDONLY);
    file("write a file next to it", NULL, "secret", O_WRONLY);
    file("make a file next to it", NULL, "made", O_WRONLY | O_CREAT);
    file("make a file at home", "home", "made", O_WRONLY | O_CREAT);
    file("make a file in the replays", NULL, "a.stallmap.replays/made", O_WRONLY | O_CREAT);
    file("make a temporary file", getenv("TMPDIR"), "made", O_WRONLY | O_CREAT);
    file("write a setting of the kernel", NULL, "/proc/sys/kernel/core_pattern", O_WRONLY);
    char start[6] = "";
    say("read an inherited file", pread(9, start, 6, 0) == 6 && !memcmp(start, "secret", 6) ? 0 : (errno = EBADF, -1));
    say("make a link", symlink("../secret", "a.stallmap.replays/link"));
    say("make a pipe", mkfifo("a.stallmap.replays/pipe", 0600));
    say("move a file out", rename("a.stallmap.replays/made", "moved"));
    say("truncate a file", truncate("secret", 0));
    say("change a mode", chmod("secret", 0644));
    say("open a socket of the Internet", socket(AF_INET, SOCK_STREAM, 0));
    say("open a socket of the kernel", socket(AF_NETLINK, SOCK_RAW, 0));
    say("connect to a process", to_listener());
    say("type into the terminal", ioctl(2, TIOCSTI, "x"));
    say("make memory with a file", memfd_create("memory", 0));
    variables();
    parent();
    thread();
    say("remove a file", unlink("secret"));
    pid_t child = fork();
    if (child == 0) _exit(0);
    say("start a process", child);
    if (child > 0) waitpid(child, NULL, 0);
    fflush(stdout);
    char *words[] = {"echo", "start a program: allowed", NULL};
    execve("/bin/echo", words, NULL);
    say("start a program", -1);
}
