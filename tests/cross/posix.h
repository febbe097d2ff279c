/*
 * The part of POSIX that the tests of test_windows.sh need and mingw-w64 lacks; the compiler
 * includes it before each of their files.  All their memory is of one allocator, because Windows
 * frees aligned blocks by another function.
 */
#ifndef CROSS_POSIX_H
#define CROSS_POSIX_H

#include <direct.h>
#include <io.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define malloc(bytes)                   _aligned_malloc(bytes, 16)
#define realloc(block, bytes)           _aligned_realloc(block, bytes, 16)
#define free(block)                     _aligned_free(block)
#define aligned_alloc(alignment, bytes) _aligned_malloc(bytes, alignment)
#define posix_memalign(block, alignment, bytes)                                                    \
    ((*(block) = _aligned_malloc(bytes, alignment)) == NULL)
#define setenv(name, value, replaces) _putenv_s(name, value)
#define unsetenv(name)                _putenv_s(name, "")
#define alarm(seconds)                ((void)(seconds))    /* the script has a limit */
#define system(command)               ((void)(command), 0) /* rm: the folder is the script's */

static inline void *windows_calloc(size_t count, size_t bytes)
{
    void *const block = malloc(count * bytes);
    return block != NULL ? memset(block, 0, count * bytes) : NULL;
}
#define calloc windows_calloc

static inline char *windows_mkdtemp(char *path)
{
    return _mktemp(path) != NULL && _mkdir(path) == 0 ? path : NULL;
}
#define mkdtemp windows_mkdtemp

static inline char *windows_strndup(const char *text, size_t most)
{
    const size_t length = strnlen(text, most);
    char *copy = malloc(length + 1);
    if (copy != NULL)
        memcpy(copy, text, length), copy[length] = '\0';
    return copy;
}
#undef strdup
#define strndup      windows_strndup
#define strdup(text) windows_strndup(text, strlen(text))

#endif /* CROSS_POSIX_H */
