/*
 * The wisdom file that "ecornn tune" adds to.  Adding reads the file, which other commands may have
 * changed meanwhile, and replaces it; a lock of its folder makes these two one step.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/core/say.h"
#include "bench/core/system.h"
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
    int length;
    if (system_user_file(path, WISDOM_PATH, &length))
        return fits(length);
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

bool wisdom_file_add_known(const char *path)
{
    char *text = wisdom_text();
    const intptr_t lock = text != NULL ? system_lock_folder(path) : -1;
    if (text != NULL && lock == -1)
        say("cannot lock the folder of %s: %s", path, strerror(errno));
    bool good = lock != -1 && read_file(path);
    if (good &&
        (ecornn_wisdom_from_text(text) != ECORNN_OK || ecornn_wisdom_save(path) != ECORNN_OK))
        good = say("%s", ecornn_error_detail());
    if (lock != -1)
        system_unlock(lock);
    free(text);
    return good;
}
