/*
 * The operating system where it is Linux or like it; see os.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* secure_getenv, dladdr, O_CLOEXEC, realpath */
#endif

#include "common/os.h"

#ifndef _WIN32
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

void *eco_os_alloc(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

void eco_os_free(void *memory)
{
    free(memory);
}

void eco_os_want_large_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

bool eco_os_has_room(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, bytes) == 0;
}

/* ---- the machine ----------------------------------------------------------------------------- */

size_t eco_os_cache_bytes(int level)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    static const int name[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                               _SC_LEVEL3_CACHE_SIZE};
    const long bytes = sysconf(name[level - 1]);
    return bytes > 0 ? (size_t)bytes : 0;
#else
    (void)level;
    return 0;
#endif
}

size_t eco_os_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}

void eco_os_machine(char *name, size_t size)
{
    struct utsname system;
    snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "");
}

#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
enum { GET_SUPPORTED = 0x1021, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

bool eco_os_tiles_offered(void)
{
    uint64_t supported = 0;
    return syscall(SYS_arch_prctl, GET_SUPPORTED, &supported) == 0 &&
           (supported >> TILE_DATA & 1) != 0;
}

bool eco_os_tiles_given(void)
{
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
bool eco_os_tiles_offered(void)
{
    return false;
}

bool eco_os_tiles_given(void)
{
    return false;
}
#endif

uint64_t eco_os_arm_features(void)
{
#if defined(__aarch64__) && defined(__linux__)
    return getauxval(AT_HWCAP);
#else
    return 0;
#endif
}

/* ---- time ------------------------------------------------------------------------------------ */

static int64_t read_clock(clockid_t clock)
{
    struct timespec time = {0};
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t eco_os_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t eco_os_thread_now(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

bool eco_os_date(time_t now, struct tm *day)
{
    return gmtime_r(&now, day) != NULL;
}

/* ---- threads and processes ------------------------------------------------------------------- */

#ifdef __linux__
void eco_sleep_while(_Atomic unsigned *word, unsigned value)
{
    const struct timespec most = {.tv_nsec = 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

void eco_wake_all(_Atomic unsigned *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
void eco_sleep_while(_Atomic unsigned *word, unsigned value)
{
    (void)word;
    (void)value;
    sched_yield();
}

void eco_wake_all(_Atomic unsigned *word)
{
    (void)word;
}
#endif

void eco_os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    pthread_atfork(before, parent, child);
}

bool eco_os_is_alone(void)
{
#ifdef __linux__
    enum { LINKS_OF_A_FOLDER = 2 }; /* plus one for each subdirectory */
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == LINKS_OF_A_FOLDER + 1;
#else
    return false;
#endif
}

/* ---- text ------------------------------------------------------------------------------------ */

const char *eco_environment(const char *name)
{
#ifdef __linux__
    return secure_getenv(name);
#else
    return issetugid() ? NULL : getenv(name);
#endif
}

int eco_os_format(char *to, size_t size, const char *format, va_list list)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    const int n = vsnprintf(to, size, format, list);
    uselocale(before);
    if (plain != (locale_t)0)
        freelocale(plain);
    return n;
}

/* ---- modules --------------------------------------------------------------------------------- */

void *eco_os_module_open(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

const char *eco_os_module_error(void)
{
    return dlerror();
}

void *eco_os_module_symbol(void *module, const char *name)
{
    return dlsym(module, name);
}

void eco_os_module_close(void *module)
{
    dlclose(module);
}

#ifdef __linux__
/* Is this the main program?  Its name is only what its caller wrote into argv[0]. */
static bool is_program(const Dl_info *library)
{
    Dl_info program;
    const uintptr_t headers = getauxval(AT_PHDR);
    return headers == 0 || dladdr((void *)headers, &program) == 0 ||
           program.dli_fbase == library->dli_fbase;
}

/* The library's name is its path as opened: a relative one is valid only at start. */
bool eco_os_library_folder(const void *address, char *folder, size_t size)
{
    Dl_info info;
    char here[PATH_MAX] = "";
    if (getauxval(AT_SECURE) != 0 || dladdr(address, &info) == 0 || info.dli_fname == NULL ||
        is_program(&info))
        return false;
    const char *name = info.dli_fname, *end = strrchr(name, '/');
    if (*name != '/' && (getcwd(here, sizeof here) == NULL || *here != '/'))
        return false;
    const int length = snprintf(folder, size, "%s%s%.*s", here, *name != '/' ? "/" : "",
                                end != NULL ? (int)(end - name) : 0, name);
    return length >= 0 && (size_t)length < size;
}
#else
bool eco_os_library_folder(const void *address, char *folder, size_t size)
{
    (void)address, (void)folder, (void)size;
    return false;
}
#endif

/* ---- files ----------------------------------------------------------------------------------- */

bool eco_os_is_absolute(const char *path)
{
    return *path == '/';
}

bool eco_os_is_separator(char character)
{
    return character == '/';
}

FILE *eco_os_read_text(const char *path)
{
    return fopen(path, "re");
}

int eco_os_open(const char *path, enum eco_os_how how)
{
    static const int flags[] = {[ECO_OS_READ] = O_RDONLY | O_NONBLOCK,
                                [ECO_OS_NEW] = O_WRONLY | O_CREAT | O_EXCL,
                                [ECO_OS_APPEND] = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK};
    return open(path, flags[how] | O_CLOEXEC, 0666);
}

/* Gives a folder that root made to the owner of the folder around it. */
static void give_folder(const char *path)
{
    struct stat above;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const bool users = folder >= 0 && fstatat(folder, "..", &above, 0) == 0 && above.st_uid != 0;
    if (users && fchown(folder, above.st_uid, above.st_gid) != 0)
        errno = 0; /* it stays with root */
    if (folder >= 0)
        close(folder);
}

void eco_os_make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 && geteuid() == 0)
        give_folder(path);
}

int eco_os_resolve(const char *path, char *target, size_t size)
{
    struct stat about;
    char real[PATH_MAX];
    const bool missing = lstat(path, &about) != 0 && errno == ENOENT;
    if (!missing && (stat(path, &about) != 0 || realpath(path, real) == NULL))
        return errno;
    const int length = snprintf(target, size, "%s", missing ? path : real);
    return length >= 0 && (size_t)length < size ? 0 : ENAMETOOLONG;
}

/* Without a file to replace, root gives a new one to the owner of the folder.  If the group cannot
 * be kept, the new group may do what all users may. */
int eco_os_keep_owner(int file, const char *path)
{
    char folder[PATH_MAX];
    struct stat old;
    const bool replaces = stat(path, &old) == 0, root = geteuid() == 0;
    const char *end = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", end != NULL ? (int)(end - path) : 1,
             end != NULL ? path : ".");
    if (!replaces && (!root || stat(folder[0] != '\0' ? folder : "/", &old) != 0))
        return 0;
    const bool kept = fchown(file, root ? old.st_uid : (uid_t)-1, old.st_gid) == 0;
    const mode_t mode = old.st_mode & 0777;
    if (!replaces)
        return 0; /* a new file that cannot be given away stays as it is */
    return fchmod(file, kept ? mode : (mode & 0707) | (mode & 07) << 3) == 0 ? 0 : errno;
}

int eco_os_sync(int file)
{
    return fsync(file);
}

int eco_os_rename(const char *from, const char *to)
{
    return rename(from, to);
}
#endif
