/*
 * The wisdom file that "ecornn tune" adds to.  Adding reads the file, which other commands may have
 * changed meanwhile, and replaces it; a lock of its folder makes these two one step.
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
#include <unistd.h>

#include "bench/core/say.h"
#include "command.h"

_Static_assert(WISDOM_PATH >= PATH_MAX, "room for realpath");

static bool fits(int length)
{
    return length < WISDOM_PATH ||
           say("the path of the wisdom file has %d bytes, must have at most %d", length,
               WISDOM_PATH - 1);
}

/* The user's file, where the library looks for it (doc/guide/wisdom.md). */
static bool find_user_file(char path[WISDOM_PATH])
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (folder != NULL && *folder == '/')
        return fits(snprintf(path, WISDOM_PATH, "%s/ecornn/wisdom", folder));
    if (home != NULL && *home == '/')
        return fits(snprintf(path, WISDOM_PATH, "%s/.config/ecornn/wisdom", home));
    return say("no user wisdom file: set XDG_CONFIG_HOME or HOME to an absolute path, or use -o");
}

static bool is_missing(const char *path)
{
    return access(path, F_OK) != 0 && errno == ENOENT;
}

/* After this only what the file holds is known; a missing file holds nothing. */
static bool read_file(const char *path)
{
    ecornn_wisdom_forget();
    return is_missing(path) || ecornn_wisdom_load(path) == ECORNN_OK ||
           say("%s", ecornn_error_detail());
}

bool wisdom_file_open(char path[WISDOM_PATH], const char *output)
{
    if (output != NULL)
        return fits(snprintf(path, WISDOM_PATH, "%s", output)) && read_file(path);
    if (!find_user_file(path))
        return false;
    if (!is_missing(path))
        return read_file(path);
    ecornn_wisdom_forget();
    return ecornn_wisdom_save(NULL) == ECORNN_OK || say("%s", ecornn_error_detail());
}

/* Locks the folder of a file, or, if it is a link, of the file that it leads to.  Returns the open
 * folder; closing it unlocks.  -1 on failure. */
static int lock_folder_of(const char *path)
{
    char folder[WISDOM_PATH];
    if (realpath(path, folder) == NULL)
        snprintf(folder, sizeof folder, "%s", path);
    char *end = strrchr(folder, '/');
    if (end == NULL)
        strcpy(folder, ".");
    else
        end[end == folder] = '\0';
    const int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX) == 0)
        return file;
    say("cannot lock %s: %s", folder, strerror(errno));
    if (file >= 0)
        close(file);
    return -1;
}

bool wisdom_file_add_known(const char *path)
{
    char *text = wisdom_text();
    const int lock = text != NULL ? lock_folder_of(path) : -1;
    bool good = lock >= 0 && read_file(path);
    if (good &&
        (ecornn_wisdom_from_text(text) != ECORNN_OK || ecornn_wisdom_save(path) != ECORNN_OK))
        good = say("%s", ecornn_error_detail());
    if (lock >= 0)
        close(lock);
    free(text);
    return good;
}
