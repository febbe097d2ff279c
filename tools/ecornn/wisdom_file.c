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
        mkdir(path, 0777); /* what fails, the lock says */
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

/* The lock lies beside the file, since that is replaced; of all links to it, beside itself. */
bool wisdom_file_lock(struct wisdom_file *file)
{
    char place[WISDOM_PATH], name[WISDOM_PATH + 8];
    const bool there = realpath(file->path, place) != NULL;
    snprintf(name, sizeof name, "%s.lock", there ? place : file->path);
    file->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
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
