/*
 * Finds libecornn in this process, next to this module, or in the system.
 */
#define _GNU_SOURCE 1 /* for dladdr */
#include "python/native/library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#define TEXT_OF(number) TEXT_OF_(number)
#define TEXT_OF_(text)  #text

struct library library;

static void *found_at_start; /* never closed: plans use it */

/* ---- the system ------------------------------------------------------------------------------ */

#ifdef _WIN32
static const char file_name[] = "libecornn-" TEXT_OF(ECORNN_VERSION_MAJOR) ".dll",
                  separators[] = "/\\";

static void *loaded(void)
{
    return (void *)GetModuleHandleA(file_name);
}

static void *load(const char *path)
{
    return (void *)LoadLibraryA(path);
}

static void *find(void *from, const char *name)
{
    const FARPROC function = GetProcAddress((HMODULE)from, name);
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

static bool find_self(char path[4096])
{
    HMODULE self = NULL;
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                           GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                       file_name, &self);
    const DWORD length = self != NULL ? GetModuleFileNameA(self, path, 4096) : 0;
    return length > 0 && length < 4096;
}
#else
static const char file_name[] = "libecornn.so." TEXT_OF(ECORNN_VERSION_MAJOR), separators[] = "/";

static void *loaded(void)
{
    return dlopen(file_name, RTLD_NOW | RTLD_NOLOAD);
}

static void *load(const char *path)
{
    return dlopen(path, RTLD_NOW);
}

static void *find(void *from, const char *name)
{
    return dlsym(from, name);
}

static bool find_self(char path[4096])
{
    Dl_info self;
    return dladdr(file_name, &self) != 0 && snprintf(path, 4096, "%s", self.dli_fname) < 4096;
}
#endif

/* ---- the library ----------------------------------------------------------------------------- */

/* When the module is loaded, because its name may be relative: later it may name another folder. */
__attribute__((constructor)) static void open_library(void)
{
    static const char *const places[] = {"", "../"};
    char self[4096], path[4096 + sizeof file_name + 4];
    void *found = loaded();
    size_t folder = found || !find_self(self) ? 0 : strlen(self);
    while (folder > 0 && !strchr(separators, self[folder - 1]))
        folder--;
    for (size_t i = 0; !found && folder > 0 && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%.*s%s%s", (int)folder, self, places[i], file_name);
        found = load(path);
    }
    found_at_start = found ? found : load(file_name);
}

static bool find_all(void *from)
{
#define LIBRARY_NAME(type, name, arguments) "ecornn_" #name,
    static const char *const names[] = {LIBRARY_FUNCTIONS(LIBRARY_NAME)};
#undef LIBRARY_NAME
    void *found[sizeof names / sizeof *names];
    _Static_assert(sizeof found == sizeof library, "one pointer a name");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(found[i] = find(from, names[i])))
            return false;
    if (!library.forward)
        memcpy(&library, found, sizeof library);
    return memcmp(&library, found, sizeof library) == 0;
}

bool library_find(void *opened)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const bool known = !opened && library.forward;
    void *const from = known ? NULL : opened ? opened : found_at_start ? found_at_start : loaded();
    const bool ok = known || (from && find_all(from));
    pthread_mutex_unlock(&lock);
    return ok;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static _Thread_local struct {
    bool is_new; /* not asked for yet */
    char text[48];
} no_memory;

void say_no_memory(size_t bytes)
{
    no_memory.is_new = true;
    snprintf(no_memory.text, sizeof no_memory.text, "no memory for %zu bytes", bytes);
}

void *new_zeros(size_t count, size_t size)
{
    void *const found = calloc(count, size);
    if (!found)
        say_no_memory(count * size);
    return found;
}

const char *error_text(ecornn_status status)
{
    const bool own = no_memory.is_new && status == ECORNN_NO_MEMORY;
    no_memory.is_new = false;
    return own ? no_memory.text : library.error_detail();
}
