/*
 * A file of wisdom that is changed: found, locked, read, written.  Writing replaces it in one step;
 * the lock keeps what others add meanwhile.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* flock, realpath, O_CLOEXEC */
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/core/say.h"
#include "command.h"

_Static_assert(WISDOM_PATH >= PATH_MAX, "realpath wants room");

static bool fits(int length)
{
    return length < WISDOM_PATH ||
           say("the path of the file has %d bytes, must have at most %d", length, WISDOM_PATH - 1);
}

/* What root made, to whom the folder belongs that it is in. */
static void give(int file, const char *folder)
{
    struct stat about;
    if (geteuid() == 0 && stat(folder, &about) == 0 && about.st_uid != 0 &&
        fchown(file, about.st_uid, about.st_gid) != 0)
        say("what was made in %s stays root's: %s", folder, strerror(errno));
}

static void make_folder(const char *path)
{
    char above[WISDOM_PATH + 4];
    if (mkdir(path, 0777) != 0)
        return; /* what fails, the lock says */
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(above, sizeof above, "%s/..", path);
    if (folder >= 0) {
        give(folder, above);
        close(folder);
    }
}

/* The user's file, where the library looks for it (doc/guide/wisdom.md), and its folders. */
static bool find_user_file(char path[WISDOM_PATH])
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    if (folder != NULL && *folder == '/')
        length = snprintf(path, WISDOM_PATH, "%s/ecornn/wisdom", folder);
    else if (home != NULL && *home == '/')
        length = snprintf(path, WISDOM_PATH, "%s/.config/ecornn/wisdom", home);
    else
        return say("neither XDG_CONFIG_HOME nor HOME is an absolute path: -o says where to write");
    if (!fits(length))
        return false;
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        make_folder(path);
        *at = '/';
    }
    return true;
}

bool wisdom_file_find(struct wisdom_file *file, const char *output)
{
    file->lock = -1;
    if (output == NULL)
        return find_user_file(file->path);
    return fits(snprintf(file->path, sizeof file->path, "%s", output));
}

/* One that root makes in a user's folder is that user's; another's may be locked by who reads it.
 */
static int open_lock(const char *name)
{
    char folder[WISDOM_PATH + 8];
    int file = open(name, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return errno == EEXIST ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    const char *end = strrchr(name, '/');
    snprintf(folder, sizeof folder, "%.*s", end != NULL ? (int)(end - name) + 1 : 1,
             end != NULL ? name : ".");
    give(file, folder);
    return file;
}

/* The lock lies beside the file, since that is replaced; of all links to it, beside itself. */
bool wisdom_file_lock(struct wisdom_file *file)
{
    char place[WISDOM_PATH], name[WISDOM_PATH + 8];
    const bool there = realpath(file->path, place) != NULL;
    snprintf(name, sizeof name, "%s.lock", there ? place : file->path);
    file->lock = open_lock(name);
    if (file->lock >= 0 && flock(file->lock, LOCK_EX) == 0)
        return true;
    say("cannot lock %s: %s", name, strerror(errno));
    wisdom_file_unlock(file);
    return false;
}

void wisdom_file_unlock(struct wisdom_file *file)
{
    if (file->lock >= 0)
        close(file->lock);
    file->lock = -1;
}

/* Any but one that is not there is not to be lost where it cannot be read. */
bool wisdom_file_read(const struct wisdom_file *file)
{
    ecornn_wisdom_forget();
    if (access(file->path, F_OK) != 0 && errno == ENOENT)
        return true;
    return ecornn_wisdom_load(file->path) == ECORNN_OK || say("%s", ecornn_error_detail());
}

bool wisdom_file_write(const struct wisdom_file *file)
{
    return ecornn_wisdom_save(file->path) == ECORNN_OK || say("%s", ecornn_error_detail());
}
