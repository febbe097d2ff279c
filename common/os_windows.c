/*
 * The operating system where it is Windows, by mingw-w64; see os.h.  Paths are text of the code
 * page that the program has.
 */
#include "common/os.h"

#ifdef _WIN32
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <locale.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

/* ---- memory ---------------------------------------------------------------------------------- */

void *eco_os_alloc(size_t alignment, size_t bytes)
{
    return _aligned_malloc(bytes, alignment);
}

void eco_os_free(void *memory)
{
    _aligned_free(memory);
}

/* Large pages need a privilege, and are never paged out. */
void eco_os_want_large_pages(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

bool eco_os_has_room(size_t bytes)
{
    void *room = VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    return room != NULL && VirtualFree(room, 0, MEM_RELEASE);
}

/* ---- the machine ----------------------------------------------------------------------------- */

size_t eco_os_cache_bytes(int level)
{
    DWORD bytes = 0;
    size_t size = 0;
    GetLogicalProcessorInformation(NULL, &bytes);
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *all = malloc(bytes);
    if (all != NULL && GetLogicalProcessorInformation(all, &bytes))
        for (size_t k = bytes / sizeof *all; k-- > 0;)
            if (all[k].Relationship == RelationCache && all[k].Cache.Level == level &&
                all[k].Cache.Type != CacheInstruction)
                size = all[k].Cache.Size;
    free(all);
    return size;
}

size_t eco_os_memory_bytes(void)
{
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    return GlobalMemoryStatusEx(&memory) ? (size_t)memory.ullTotalPhys : 0;
}

void eco_os_machine(char *name, size_t size)
{
    snprintf(name, size, "x86_64");
}

/* AMX is not tried. */
bool eco_os_tiles_offered(void)
{
    return false;
}

bool eco_os_tiles_given(void)
{
    return false;
}

uint64_t eco_os_arm_features(void)
{
    return 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

int64_t eco_os_now(void)
{
    LARGE_INTEGER count, rate;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&rate);
    const int64_t whole = count.QuadPart / rate.QuadPart, part = count.QuadPart % rate.QuadPart;
    return whole * 1000000000 + part * 1000000000 / rate.QuadPart;
}

/* The system counts in ticks of 16 ms. */
int64_t eco_os_thread_now(void)
{
    return -1;
}

bool eco_os_date(time_t now, struct tm *day)
{
    return gmtime_s(day, &now) == 0;
}

/* ---- threads and processes ------------------------------------------------------------------- */

void eco_sleep_while(_Atomic unsigned *word, unsigned value)
{
    WaitOnAddress((void *)(uintptr_t)word, &value, sizeof value, 1);
}

void eco_wake_all(_Atomic unsigned *word)
{
    WakeByAddressAll((void *)(uintptr_t)word);
}

void eco_os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    (void)before, (void)parent, (void)child;
}

bool eco_os_is_alone(void)
{
    return false;
}

/* ---- text ------------------------------------------------------------------------------------ */

const char *eco_environment(const char *name)
{
    return getenv(name);
}

int eco_os_format(char *to, size_t size, const char *format, va_list list)
{
    char before[256];
    if (strcmp(localeconv()->decimal_point, ".") == 0)
        return vsnprintf(to, size, format, list);
    const int of_threads = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    snprintf(before, sizeof before, "%s", setlocale(LC_NUMERIC, NULL));
    setlocale(LC_NUMERIC, "C");
    const int n = vsnprintf(to, size, format, list);
    setlocale(LC_NUMERIC, before);
    if (of_threads > 0)
        _configthreadlocale(of_threads);
    return n;
}

/* ---- modules --------------------------------------------------------------------------------- */

void *eco_os_module_open(const char *path)
{
    return (void *)LoadLibraryA(path);
}

const char *eco_os_module_error(void)
{
    return "not found";
}

void *eco_os_module_symbol(void *module, const char *name)
{
    const FARPROC function = GetProcAddress((HMODULE)module, name);
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

void eco_os_module_close(void *module)
{
    FreeLibrary((HMODULE)module);
}

/* No module is built for Windows. */
bool eco_os_library_folder(const void *address, char *folder, size_t size)
{
    (void)address, (void)folder, (void)size;
    return false;
}

/* ---- files ----------------------------------------------------------------------------------- */

bool eco_os_is_separator(char character)
{
    return character == '/' || character == '\\';
}

bool eco_os_is_absolute(const char *path)
{
    const bool drive = path[0] != '\0' && path[1] == ':';
    return drive ? eco_os_is_separator(path[2])
                 : eco_os_is_separator(path[0]) && eco_os_is_separator(path[1]);
}

FILE *eco_os_read_text(const char *path)
{
    return fopen(path, "r");
}

int eco_os_open(const char *path, enum eco_os_how how)
{
    static const int flags[] = {[ECO_OS_READ] = _O_RDONLY,
                                [ECO_OS_NEW] = _O_WRONLY | _O_CREAT | _O_EXCL,
                                [ECO_OS_APPEND] = _O_WRONLY | _O_APPEND | _O_CREAT};
    return _open(path, flags[how] | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
}

void eco_os_make_folder(const char *path)
{
    CreateDirectoryA(path, NULL);
}

int eco_os_resolve(const char *path, char *target, size_t size)
{
    const int length = snprintf(target, size, "%s", path);
    return length >= 0 && (size_t)length < size ? 0 : ENAMETOOLONG;
}

/* A new file has the rights that its folder gives. */
int eco_os_keep_owner(int file, const char *path)
{
    (void)file, (void)path;
    return 0;
}

int eco_os_sync(int file)
{
    return _commit(file);
}

int eco_os_rename(const char *from, const char *to)
{
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return 0;
    errno = EACCES;
    return -1;
}
#endif
