/*
 * Finds libecornn in this process, next to this module, or in the system.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* for dladdr */
#endif
#include "python/native/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct library library;

static const char file_name[] = "libecornn.so.0";
static void *found_at_start; /* never closed: plans use it */

/* When the module is loaded, because its name may be relative: later it may name another folder. */
__attribute__((constructor)) static void open_library(void)
{
    static const char *const places[] = {"/", "/../"};
    Dl_info self;
    void *found = dlopen(file_name, RTLD_NOW | RTLD_NOLOAD);
    const bool placed = dladdr(file_name, &self) != 0 && strrchr(self.dli_fname, '/') != NULL;
    for (size_t i = 0; !found && placed && i < sizeof places / sizeof *places; i++) {
        char path[4096];
        const int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
        snprintf(path, sizeof path, "%.*s%s%s", folder, self.dli_fname, places[i], file_name);
        found = dlopen(path, RTLD_NOW);
    }
    found_at_start = found ? found : dlopen(file_name, RTLD_NOW);
}

static bool find_all(void *from)
{
#define LIBRARY_NAME(type, name, arguments) "ecornn_" #name,
    static const char *const names[] = {LIBRARY_FUNCTIONS(LIBRARY_NAME)};
#undef LIBRARY_NAME
    void *found[sizeof names / sizeof *names];
    _Static_assert(sizeof found == sizeof library, "one pointer a name");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(found[i] = dlsym(from, names[i])))
            return false;
    if (!library.forward)
        memcpy(&library, found, sizeof library);
    return memcmp(&library, found, sizeof library) == 0;
}

bool library_find(void *opened)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    bool ok = !opened && library.forward;
    if (!ok) {
        void *const from = opened           ? opened
                           : found_at_start ? found_at_start
                                            : dlopen(file_name, RTLD_NOW | RTLD_NOLOAD);
        ok = from && find_all(from);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}
