/*
 * Replacing a file: made beside it, locked while it is written, renamed when it is on the disk.
 */
#define _DEFAULT_SOURCE /* flock */
#include "replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* FILE.charlm-0123456789abcdef.new: nobody else's file has such a name. */
static const char MARK[] = ".charlm-", END[] = ".new";
enum { DIGITS = 16, TRIES = 100, LINKS_MAX = 40 };

static bool fail(const char *path, const char *what, struct complaint *why)
{
    return complain(why, "%.200s: %s%s", path, what, strerror(errno));
}

/* The bytes of a path up to its last slash, this one included. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* A folder for opendir and open: "." for the present one. */
static void folder_of(const char *path, char folder[REPLACE_PATH_BYTES])
{
    const size_t length = folder_length(path);
    snprintf(folder, REPLACE_PATH_BYTES, "%.*s", length ? (int)length : 1, length ? path : ".");
}

/* Where the last part of a path leads, whether something is there or not. */
static bool follow_links(char path[REPLACE_PATH_BYTES], struct complaint *why)
{
    for (int k = 0; k < LINKS_MAX; k++) {
        char target[REPLACE_PATH_BYTES];
        const ssize_t length = readlink(path, target, sizeof target);
        if (length < 0) /* no link, or nothing there */
            return true;
        const size_t kept = *target == '/' ? 0 : folder_length(path);
        if (kept + (size_t)length >= REPLACE_PATH_BYTES) {
            errno = ENAMETOOLONG;
            return fail(path, "", why);
        }
        memcpy(path + kept, target, (size_t)length);
        path[kept + (size_t)length] = 0;
    }
    errno = ELOOP;
    return fail(path, "", why);
}

/* The name of a new file.  O_EXCL finds out whether it is taken, so it need not be secret. */
static bool name_beside(struct replacement *r, struct complaint *why)
{
    static uint64_t state;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    state ^=
        (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 40);
    if ((size_t)snprintf(r->beside, sizeof r->beside, "%s%s%016llx%s", r->path, MARK,
                         (unsigned long long)random_bits(&state), END) < sizeof r->beside)
        return true;
    return complain(why, "a path of %zu bytes, must be at most %d", strlen(r->path),
                    REPLACE_PATH_BYTES - 64);
}

/* Opens the new file and locks it.  Between the two somebody may take it for one that was left, and
 * remove it: then there is another. */
static bool create_beside(struct replacement *r, mode_t mode, struct complaint *why)
{
    for (int k = 0; k < TRIES; k++) {
        struct stat status;
        if (!name_beside(r, why))
            return false;
        r->descriptor = open(r->beside, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (r->descriptor < 0 && errno == EEXIST)
            continue;
        if (r->descriptor < 0)
            return fail(r->path, "no file can be made beside it: ", why);
        flock(r->descriptor, LOCK_EX); /* where there are no locks nobody removes it either */
        if (!fstat(r->descriptor, &status) && status.st_nlink > 0)
            return true;
        close(r->descriptor);
    }
    return complain(why, "%.200s: %d names beside it were taken", r->path, TRIES);
}

/* Mode and owner of the old file, as far as we may.  A mode for another group is not for ours. */
static bool take_rights(int descriptor, const struct stat *old)
{
    const bool same_group = !fchown(descriptor, (uid_t)-1, old->st_gid);
    if (fchown(descriptor, old->st_uid, (gid_t)-1))
        errno = 0; /* then it is ours */
    return !fchmod(descriptor, old->st_mode & (same_group ? 0777 : 0707));
}

bool replacement_open(struct replacement *r, const char *path, struct complaint *why)
{
    struct stat old;
    r->descriptor = -1;
    if (strlen(path) >= sizeof r->path)
        return complain(why, "a path of %zu bytes, must be at most %d", strlen(path),
                        REPLACE_PATH_BYTES - 64);
    strcpy(r->path, path);
    if (!follow_links(r->path, why))
        return false;
    const bool exists = !stat(r->path, &old);
    if (exists && !S_ISREG(old.st_mode))
        return complain(why, "%.200s: not a regular file", path);
    if (exists && access(r->path, W_OK))
        return fail(path, "", why);
    if (!create_beside(r, exists ? 0600 : 0666, why))
        return false;
    if (!exists || take_rights(r->descriptor, &old))
        return true;
    fail(r->beside, "", why);
    replacement_abandon(r);
    return false;
}

bool replacement_write(struct replacement *r, const void *bytes, size_t size, struct complaint *why)
{
    for (const char *at = bytes; size;) {
        const ssize_t count = write(r->descriptor, at, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail(r->path, "", why);
        at += count;
        size -= (size_t)count;
    }
    return true;
}

/* The rename itself lies in the folder, which has to reach the disk too.  Not every file system
 * can; the file is complete by then, so that is no failure. */
static void sync_folder(const char *path)
{
    char folder[REPLACE_PATH_BYTES];
    folder_of(path, folder);
    const int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    fsync(descriptor);
    close(descriptor);
}

bool replacement_commit(struct replacement *r, struct complaint *why)
{
    /* Closed after the rename: the lock holds as long as the name. */
    if (fsync(r->descriptor) || rename(r->beside, r->path)) {
        fail(r->path, "", why);
        replacement_abandon(r);
        return false;
    }
    close(r->descriptor);
    r->descriptor = -1;
    sync_folder(r->path);
    return true;
}

void replacement_abandon(struct replacement *r)
{
    unlink(r->beside);
    close(r->descriptor);
    r->descriptor = -1;
}

/* ---- before the work ------------------------------------------------------------------------- */

static bool is_ours(const char *name, const char *base)
{
    const size_t length = strlen(base), mark = sizeof MARK - 1;
    if (strncmp(name, base, length) != 0 || strncmp(name + length, MARK, mark) != 0)
        return false;
    name += length + mark;
    return strspn(name, "0123456789abcdef") == DIGITS && !strcmp(name + DIGITS, END);
}

/* Removes a file whose process is gone: nobody holds its lock. */
static void remove_left(int folder, const char *name)
{
    struct stat status;
    const int file = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return;
    if (!fstat(file, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        !flock(file, LOCK_EX | LOCK_NB))
        unlinkat(folder, name, 0);
    close(file);
}

static void remove_all_left(const char *path)
{
    char folder[REPLACE_PATH_BYTES];
    folder_of(path, folder);
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (is_ours(entry->d_name, path + folder_length(path)))
            remove_left(dirfd(directory), entry->d_name);
    closedir(directory);
}

bool replacement_possible(const char *path, uint64_t size, struct complaint *why)
{
    struct replacement r;
    if (!replacement_open(&r, path, why))
        return false;
    remove_all_left(r.path);
    errno = size ? posix_fallocate(r.descriptor, 0, (off_t)size) : 0;
    const bool good = !errno || errno == EOPNOTSUPP || errno == EINVAL; /* it cannot say */
    if (!good)
        complain(why, "%.200s: a file of %llu bytes does not fit: %s", path,
                 (unsigned long long)size, strerror(errno));
    replacement_abandon(&r);
    return good;
}
