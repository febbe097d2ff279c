/*
 * The operating system, see system.h: first Linux and others like it, then Windows.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* flock, realpath, O_CLOEXEC, cache sizes of sysconf */
#endif
#include "system.h"

#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
static const char separators[] = "/\\";
#else
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static const char separators[] = "/";
#endif

static bool is_absolute(const char *path)
{
#ifdef _WIN32
    path += path[0] != '\0' && path[1] == ':' ? 2 : 0;
#endif
    return *path != '\0' && strchr(separators, *path) != NULL;
}

bool system_user_file(char *path, size_t size, int *length)
{
    static const char *const homes[][2] = {
        {"XDG_CONFIG_HOME", ""}, {"HOME", "/.config"}, {"APPDATA", ""}};
    for (size_t k = 0; k < sizeof homes / sizeof *homes; k++) {
        const char *home = getenv(homes[k][0]);
        if (home == NULL || !is_absolute(home))
            continue;
        *length = snprintf(path, size, "%s%s/ecornn/wisdom", home, homes[k][1]);
        return true;
    }
    return false;
}

#ifndef _WIN32

double system_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double system_load(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

size_t system_cache_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : 0;
}

void system_set(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

intptr_t system_lock_folder(const char *path)
{
    char folder[PATH_MAX];
    if (realpath(path, folder) == NULL)
        snprintf(folder, sizeof folder, "%s", path);
    char *end = strrchr(folder, '/');
    if (end == NULL)
        strcpy(folder, ".");
    else
        end[end == folder] = '\0';
    const int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0 || flock(file, LOCK_EX) == 0)
        return file;
    close(file);
    return -1;
}

void system_unlock(intptr_t lock)
{
    close((int)lock);
}

void system_fill_standard_files(void)
{
    int file;
    while ((file = open("/dev/null", O_RDONLY)) >= 0 && file <= STDERR_FILENO)
        continue;
    close(file);
}

bool system_read_line(char **line, size_t *room, FILE *file)
{
    return getline(line, room, file) >= 0;
}

bool system_run_again(const char *const *words)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        execv("/proc/self/exe", (char **)(uintptr_t)words);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void become_child(const int to[2], const int from[2], const char *const *words,
                         void (*serve)(void))
{
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (int k = 0; k < 2; k++) {
        close(to[k]);
        close(from[k]);
    }
    if (words != NULL) {
        execvp(words[0], (char **)(uintptr_t)words);
        fprintf(stderr, "%s %s cannot be started\n", words[0], words[1]);
        _exit(127);
    }
    serve();
    exit(0);
}

bool system_child_start(struct system_child *child, const char *const *words, void (*serve)(void))
{
    int to[2], from[2];
    signal(SIGPIPE, SIG_IGN); /* writing to a child that has ended then fails with an error */
    fflush(stdout);
    if (pipe(to) != 0 || pipe(from) != 0 || (child->id = fork()) < 0)
        return false;
    if (child->id == 0)
        become_child(to, from, words, serve);
    close(to[0]);
    close(from[1]);
    child->to = fdopen(to[1], "w");
    child->from = fdopen(from[0], "r");
    return child->to && child->from;
}

void system_child_end(struct system_child *child)
{
    if (child->id <= 0)
        return;
    if (child->to)
        fclose(child->to);
    if (child->from)
        fclose(child->from);
    waitpid((pid_t)child->id, NULL, 0);
    child->id = 0;
}

#else /* ---- Windows --------------------------------------------------------------------------   \
       */

double system_now(void)
{
    LARGE_INTEGER count, rate;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&rate);
    return (double)count.QuadPart / (double)rate.QuadPart;
}

double system_load(void)
{
    return 0;
}

size_t system_cache_bytes(void)
{
    return 0;
}

void system_set(const char *name, const char *value)
{
    _putenv_s(name, value != NULL ? value : "");
}

/* One lock for all folders. */
intptr_t system_lock_folder(const char *path)
{
    const HANDLE lock = CreateMutexA(NULL, FALSE, "Local\\ecornn-wisdom");
    (void)path;
    if (lock == NULL)
        return -1;
    WaitForSingleObject(lock, INFINITE);
    return (intptr_t)lock;
}

void system_unlock(intptr_t lock)
{
    ReleaseMutex((HANDLE)lock);
    CloseHandle((HANDLE)lock);
}

void system_fill_standard_files(void)
{
}

bool system_read_line(char **line, size_t *room, FILE *file)
{
    size_t length = 0;
    for (int character; (character = fgetc(file)) != EOF;) {
        if (length + 2 > *room) {
            char *more = realloc(*line, 2 * *room + 256);
            if (more == NULL)
                return false;
            *line = more;
            *room = 2 * *room + 256;
        }
        (*line)[length++] = (char)character;
        (*line)[length] = '\0';
        if (character == '\n')
            break;
    }
    return length > 0;
}

/* Nothing here starts processes. */
bool system_run_again(const char *const *words)
{
    (void)words;
    return false;
}

bool system_child_start(struct system_child *child, const char *const *words, void (*serve)(void))
{
    (void)child, (void)words, (void)serve;
    return false;
}

void system_child_end(struct system_child *child)
{
    (void)child;
}
#endif
