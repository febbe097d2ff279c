/*
 * Compiled code on disk, one file to a key, in a folder of ours.  Whatever lies there is read as if
 * an enemy had written it: a file that is not wholly as it should be does not exist.  No failure
 * here is an error of anyone else.
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
enum { STALE_SECONDS = 3600 }; /* a temporary file whose writer must have died */

#define SUFFIX ".code"

/* A file: this, the key, the code. */
struct header {
    char magic[16];
    uint64_t key_bytes, code_bytes;
    uint64_t sum; /* of key and code */
};
static const char magic[16] = "ecornn code 1\n";

/* Finds a file, and finds damage; the key itself is compared. */
static uint64_t sum_of(const void *data, size_t bytes)
{
    return eco_hash(ECO_HASH, data, bytes);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Nothing is made in a folder of somebody else, who could not use it any more. */
static bool is_home(const char *path, struct eco_text *why)
{
    struct stat is;
    const bool ours = stat(path, &is) == 0 && is.st_uid == geteuid();
    if (!ours)
        eco_text_add(why, "%s is no folder of this user", path);
    return ours;
}

/* Behind a link "link/" and "link/." name what it points to, which O_NOFOLLOW lets pass. */
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
        eco_text_add(why, "no home");
    }
    if (path->length >= path->size)
        eco_text_add(why, "a path too long");
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

/* A plain file of ours that nobody else can have written; its size. */
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

/* Is that a whole file of this key? */
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
    char *rest = eco_alloc(size); /* of 0 bytes: NULL */
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
    /* O_NONBLOCK: a pipe of that name must not keep us waiting */
    const int file =
        openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    void *code = read_file(file, key, bytes);
    if (code != NULL)
        futimens(file, NULL); /* used now: the oldest go first */
    close(file);
    return code;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Ours by its name: 0 no, 1 kept code, 2 a temporary file. */
static int kind_of(const char *name)
{
    const size_t digits = strspn(name, "0123456789abcdef");
    if (digits == 16 && strcmp(name + digits, SUFFIX) == 0)
        return 1;
    return strncmp(name, "new-", 4) == 0 ? 2 : 0;
}

/* The bytes of what is kept, and which was not used for longest; removes what writers left. */
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

/* A new file that no other thread or process has. */
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
    /* whole under its own name, or not there at all; a reader of the old file keeps it */
    ok = ok && renameat(cache->folder, temporary, cache->folder, name) == 0;
    if (!ok)
        unlinkat(cache->folder, temporary, 0);
    trim(cache);
    return ok;
}
