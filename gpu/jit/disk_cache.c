/*
 * Compiled code on disk, in one file for each key. Files are treated as hostile: one that is not
 * valid in all respects is ignored. Failures here are never errors of the caller.
 */
#include "gpu/jit/compile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20, MOST_FILE = 16 << 20 };
enum { STALE_SECONDS = 3600 }; /* a temporary file of this age has lost its writer */

#define SUFFIX ".code"

/* A file has this header, the key, and the code. */
struct header {
    char magic[16];
    uint64_t key_bytes, code_bytes;
    uint64_t sum; /* of key and code */
};
static const char magic[16] = "ecornn code 1\n";

/* Finds files and detects damage; the key itself is compared, too. */
static uint64_t sum_of(const void *data, size_t bytes)
{
    return eco_hash(ECO_HASH, data, bytes);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Creates no files in another user's home directory, where they would be in that user's way. */
static bool is_home(const char *path, struct eco_text *why)
{
    struct stat is;
    const bool ours = stat(path, &is) == 0 && is.st_uid == geteuid();
    if (!ours)
        eco_text_add(why, "%s is not a directory of this user", path);
    return ours;
}

/* Removes a trailing "/" or "/.", with which open() would follow a link in spite of O_NOFOLLOW. */
static void strip(struct eco_text *path)
{
    char *data = path->data;
    size_t n = path->length;
    while (n > 1 && (data[n - 1] == '/' || (data[n - 1] == '.' && data[n - 2] == '/')))
        n--;
    data[n] = '\0';
    path->length = n;
}

static bool path_of(struct eco_text *path, struct eco_text *why)
{
    const char *wanted = eco_environment("ECORNN_CACHE"), *home = eco_environment("HOME");
    const char *xdg = eco_environment("XDG_CACHE_HOME");
    if (wanted != NULL && strcmp(wanted, "0") == 0) {
        eco_text_add(why, "ECORNN_CACHE is 0");
    } else if (wanted != NULL && *wanted != '\0' && *wanted != '/') {
        eco_text_add(why, "ECORNN_CACHE is not an absolute path");
    } else if (wanted != NULL && *wanted != '\0') {
        eco_text_add(path, "%s", wanted);
        if (path->length < path->size)
            strip(path);
    } else if (xdg != NULL && *xdg == '/') {
        if (is_home(xdg, why))
            eco_text_add(path, "%s/ecornn", xdg);
    } else if (home != NULL && *home == '/') {
        if (is_home(home, why))
            eco_text_add(path, "%s/.cache", home);
        if (path->length > 0 && path->length < path->size)
            mkdir(path->data, 0700);
        if (path->length > 0)
            eco_text_add(path, "/ecornn");
    } else {
        eco_text_add(why, "neither XDG_CACHE_HOME nor HOME is an absolute path");
    }
    if (path->length >= path->size)
        eco_text_add(why, "the path is too long");
    return path->length > 0 && path->length < path->size;
}

bool eco_cache_open(struct eco_cache *cache, struct eco_text *why)
{
    char path[1024] = "";
    struct eco_text text = {path, sizeof path, 0};
    struct stat is;
    *cache = (struct eco_cache){-1, MOST_BYTES};
    if (!path_of(&text, why))
        return false;
    mkdir(path, 0700);
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &is) != 0)
        eco_text_add(why, "%s: %s", path, strerror(errno));
    else if (is.st_uid != geteuid() || (is.st_mode & 077) != 0)
        eco_text_add(why, "%s is not private (owned by the user, mode 0700)", path);
    else
        cache->folder = folder;
    if (cache->folder < 0 && folder >= 0)
        close(folder);
    return cache->folder >= 0;
}

void eco_cache_close(struct eco_cache *cache)
{
    if (cache->folder >= 0)
        close(cache->folder);
    cache->folder = -1;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { NAME = 16 + sizeof SUFFIX };

static void name_of(char name[NAME], const char *key)
{
    snprintf(name, NAME, "%016llx" SUFFIX, (unsigned long long)sum_of(key, strlen(key)));
}

static bool read_all(int file, void *data, size_t bytes)
{
    for (char *at = data; bytes > 0;) {
        const ssize_t n = read(file, at, bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Is it a regular file that only this user can have written? Sets its size. */
static bool is_ours(int file, size_t *bytes)
{
    struct stat is;
    if (fstat(file, &is) != 0 || !S_ISREG(is.st_mode) || is.st_uid != geteuid() ||
        (is.st_mode & 022) != 0 || is.st_size < (off_t)sizeof(struct header) ||
        is.st_size > MOST_FILE)
        return false;
    *bytes = (size_t)is.st_size;
    return true;
}

/* Is it a complete file of this key? */
static bool is_whole(const struct header *header, const char *rest, size_t bytes, const char *key)
{
    const size_t key_bytes = strlen(key);
    return memcmp(header->magic, magic, sizeof magic) == 0 && header->key_bytes == key_bytes &&
           key_bytes < bytes && header->code_bytes == bytes - key_bytes &&
           memcmp(rest, key, key_bytes) == 0 && header->sum == sum_of(rest, bytes);
}

static void *read_file(int file, const char *key, size_t *bytes)
{
    struct header header;
    size_t size;
    if (!is_ours(file, &size) || !read_all(file, &header, sizeof header))
        return NULL;
    size -= sizeof header;
    char *rest = eco_alloc(size); /* NULL for 0 bytes */
    if (rest == NULL)
        return NULL;
    if (read_all(file, rest, size) && is_whole(&header, rest, size, key)) {
        *bytes = header.code_bytes;
        memmove(rest, rest + header.key_bytes, *bytes);
        return rest;
    }
    eco_free(rest);
    return NULL;
}

void *eco_cache_get(const struct eco_cache *cache, const char *key, size_t *bytes)
{
    char name[NAME];
    name_of(name, key);
    /* O_NONBLOCK: do not wait if it is a pipe */
    const int file =
        openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    void *code = read_file(file, key, bytes);
    if (code != NULL)
        futimens(file, NULL); /* marks the file as recently used */
    close(file);
    return code;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The kind of a file by its name: 0 unknown, 1 code, 2 temporary. */
static int kind_of(const char *name)
{
    const size_t digits = strspn(name, "0123456789abcdef");
    if (digits == 16 && strcmp(name + digits, SUFFIX) == 0)
        return 1;
    return strncmp(name, "new-", 4) == 0 ? 2 : 0;
}

/* Returns the bytes of code, finds the least recently used file, removes abandoned temporary
 * files. */
static uint64_t look(int folder, DIR *list, char oldest[NAME])
{
    struct timespec least = {0};
    uint64_t bytes = 0;
    oldest[0] = '\0';
    rewinddir(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        struct stat is;
        const int kind = kind_of(entry->d_name);
        if (kind == 0 || fstatat(folder, entry->d_name, &is, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bytes += is.st_size > 0 ? (uint64_t)is.st_size : 0;
        if (kind == 2 && time(NULL) - is.st_mtim.tv_sec > STALE_SECONDS)
            unlinkat(folder, entry->d_name, 0);
        const bool older = is.st_mtim.tv_sec != least.tv_sec ? is.st_mtim.tv_sec < least.tv_sec
                                                             : is.st_mtim.tv_nsec < least.tv_nsec;
        if (kind == 1 && (oldest[0] == '\0' || older)) {
            least = is.st_mtim;
            memcpy(oldest, entry->d_name, NAME);
        }
    }
    return bytes;
}

static void trim(const struct eco_cache *cache)
{
    char oldest[NAME];
    const int folder = openat(cache->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = folder >= 0 ? fdopendir(folder) : NULL;
    if (list == NULL) {
        if (folder >= 0)
            close(folder);
        return;
    }
    while (look(folder, list, oldest) > cache->most && oldest[0] != '\0')
        if (unlinkat(folder, oldest, 0) != 0 && errno != ENOENT)
            break;
    closedir(list);
}

static bool write_all(int file, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        const ssize_t n = write(file, at, bytes);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Creates a file that no other thread or process has. */
static int create(int folder, char *name, size_t size)
{
    static _Atomic unsigned count;
    for (int k = 0; k < 16; k++) {
        snprintf(name, size, "new-%ld-%u", (long)getpid(), atomic_fetch_add(&count, 1));
        const int file =
            openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

bool eco_cache_put(const struct eco_cache *cache, const char *key, const void *data, size_t bytes)
{
    char name[NAME], temporary[48];
    struct header header = {.key_bytes = strlen(key), .code_bytes = bytes};
    if (bytes > MOST_FILE - sizeof header || header.key_bytes > MOST_FILE - sizeof header - bytes)
        return false;
    memcpy(header.magic, magic, sizeof magic);
    header.sum = eco_hash(sum_of(key, header.key_bytes), data, bytes);
    const int file = create(cache->folder, temporary, sizeof temporary);
    if (file < 0)
        return false;
    bool ok = write_all(file, &header, sizeof header) && write_all(file, key, header.key_bytes) &&
              write_all(file, data, bytes);
    ok = close(file) == 0 && ok;
    name_of(name, key);
    /* the file appears complete, or not at all; a reader of the old file keeps it */
    ok = ok && renameat(cache->folder, temporary, cache->folder, name) == 0;
    if (!ok)
        unlinkat(cache->folder, temporary, 0);
    trim(cache);
    return ok;
}
