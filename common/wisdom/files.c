/*
 * Wisdom files: where they are, and how they are read and replaced; see files.h.  text.c parses the
 * text in them.
 */
#include "common/wisdom/files.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cell/limits.h"
#include "common/locks.h"
#include "common/paths.h"
#include "common/wisdom/wisdom.h"

enum { MOST_FILE = 16 << 20 };
_Static_assert(ECO_MOST_PATH >= PATH_MAX, "room for resolved paths");

/* The part of a path that errors show: its end, where long paths differ. */
static const char *shown(const char *path)
{
    enum { SHOWN = 200 };
    const size_t length = strlen(path);
    return length > SHOWN ? path + length - SHOWN : path;
}

static ecornn_status fail(const char *what, const char *path, int error)
{
    return eco_fail(ECORNN_FAILED, "%s: %s: %s", what, shown(path), strerror(error));
}

static ecornn_status too_long(const char *path, size_t length)
{
    return eco_fail(ECORNN_FAILED, "%.60s...: the path has %zu bytes, must have at most %d", path,
                    length, ECO_MOST_PATH - 1);
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool is_given(const char *value)
{
    return value != NULL && *value != '\0';
}

static bool user_path(struct eco_text *path)
{
    static const struct {
        const char *variable, *below;
    } homes[] = {{"XDG_CONFIG_HOME", ""}, {"HOME", "/.config"}, {"APPDATA", ""}};
    for (size_t k = 0; k < sizeof homes / sizeof *homes; k++) {
        const char *home = eco_environment(homes[k].variable);
        if (!is_given(home) || !eco_os_is_absolute(home))
            continue;
        eco_text_add(path, "%s%s/ecornn/wisdom", home, homes[k].below);
        return true;
    }
    return false;
}

bool eco_wisdom_path(enum eco_wisdom_file which, struct eco_text *path)
{
    const char *asked = eco_environment("ECORNN_WISDOM");
    if (asked != NULL && strcmp(asked, "0") == 0)
        return false;
    if (which == ECO_WISDOM_USER)
        return user_path(path);
    if (which == ECO_WISDOM_ASKED ? !is_given(asked) : !eco_os_is_absolute(ECO_SYSCONFDIR))
        return false;
    eco_text_add(path, "%s", which == ECO_WISDOM_SYSTEM ? ECO_SYSCONFDIR "/ecornn/wisdom" : asked);
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads up to `bytes`, fewer if the file has become shorter. */
static ecornn_status read_all(int file, const char *path, char *text, size_t bytes, size_t *got)
{
    ssize_t n = 1;
    for (*got = 0; *got < bytes && n != 0; *got += n > 0 ? (size_t)n : 0) {
        n = read(file, text + *got, bytes - *got);
        if (n < 0 && errno != EINTR)
            return fail("cannot read", path, errno);
    }
    return ECORNN_OK;
}

static ecornn_status load_open(int file, const char *path)
{
    struct stat about;
    size_t got = 0;
    if (fstat(file, &about) != 0)
        return fail("cannot read", path, errno);
    if (!S_ISREG(about.st_mode))
        return eco_fail(ECORNN_FAILED, "cannot read: %s: not a regular file", shown(path));
    if (about.st_size > MOST_FILE)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s:1: the text is larger than 16 MiB", shown(path));
    const size_t bytes = (size_t)about.st_size;
    char *text = eco_alloc(bytes + 1);
    if (text == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of %s", bytes, shown(path));
    ecornn_status status = read_all(file, path, text, bytes, &got);
    if (status == ECORNN_OK)
        status = eco_wisdom_add(text, got, shown(path));
    eco_free(text);
    return status;
}

/* Sets the path to the user's file if the caller gave none. */
static ecornn_status find_path(const char **path, char data[ECO_MOST_PATH])
{
    struct eco_text user = {data, ECO_MOST_PATH, 0};
    if (*path != NULL)
        return ECORNN_OK;
    if (!user_path(&user))
        return eco_fail(ECORNN_FAILED, "no user wisdom file: set XDG_CONFIG_HOME or HOME to an "
                                       "absolute path");
    *path = data;
    return user.length < user.size ? ECORNN_OK : too_long(data, user.length);
}

ecornn_status eco_wisdom_load(const char *path)
{
    char data[ECO_MOST_PATH];
    const ecornn_status found = find_path(&path, data);
    if (found != ECORNN_OK)
        return found;
    const int file = eco_os_open(path, ECO_OS_READ);
    if (file < 0)
        return fail("cannot read", path, errno);
    const ecornn_status status = load_open(file, path);
    close(file);
    return status;
}

static atomic_bool opened; /* set under ECO_LOCK_FILES */

/* Reads one file.  A missing file is an error only if ECORNN_WISDOM names it. */
static void open_one(enum eco_wisdom_file which)
{
    char data[ECO_MOST_PATH], before[ECO_MAX_DETAIL];
    struct eco_text path = {data, sizeof data, 0};
    if (!eco_wisdom_path(which, &path))
        return;
    const bool fits = path.length < path.size;
    if (fits && which != ECO_WISDOM_ASKED && access(data, F_OK) != 0 &&
        (errno == ENOENT || errno == ENOTDIR))
        return;
    eco_fail_keep(before);
    if ((fits ? eco_wisdom_load(data) : too_long(data, path.length)) == ECORNN_OK)
        return;
    eco_wisdom_complain(eco_fail_detail());
    eco_fail_restore(before); /* not a failure of the caller */
}

void eco_wisdom_open(void)
{
    if (atomic_load_explicit(&opened, memory_order_acquire))
        return;
    eco_lock(ECO_LOCK_FILES);
    for (int which = 0; which < ECO_WISDOM_FILES && !atomic_load(&opened); which++)
        open_one((enum eco_wisdom_file)which);
    atomic_store(&opened, true);
    eco_unlock(ECO_LOCK_FILES);
}

void eco_wisdom_reset(void)
{
    eco_lock(ECO_LOCK_FILES);
    atomic_store(&opened, true);
    eco_wisdom_forget();
    eco_unlock(ECO_LOCK_FILES);
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_all(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = write(file, text, bytes);
        if (n < 0 && errno != EINTR)
            return false;
        text += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Makes the folders of the user's file. */
static void make_folders(const char *path)
{
    char folder[ECO_MOST_PATH];
    struct eco_text text = {folder, sizeof folder, 0};
    eco_text_add(&text, "%s", path);
    for (char *at = folder + 1; *at != '\0'; at++)
        if (eco_os_is_separator(*at)) {
            const char separator = *at;
            *at = '\0';
            eco_os_make_folder(folder); /* opening the file reports failures */
            *at = separator;
        }
}

/* Follows links to the file that is replaced, which must be a regular file. */
static ecornn_status resolve(const char *path, char target[ECO_MOST_PATH])
{
    struct stat about;
    const int error = eco_os_resolve(path, target, ECO_MOST_PATH);
    if (error != 0)
        return fail("cannot write", path, error);
    return stat(target, &about) != 0 || S_ISREG(about.st_mode)
               ? ECORNN_OK
               : eco_fail(ECORNN_FAILED, "cannot write: %s: not a regular file", shown(path));
}

/* Makes a new file in the same folder, with an unused name; returns -1 on failure. */
static int open_new(const char *path, char *data, size_t size)
{
    static atomic_uint number;
    int file;
    do {
        struct eco_text name = {data, size, 0};
        eco_text_add(&name, "%s.%ld.%u", path, (long)getpid(), atomic_fetch_add(&number, 1));
        file = eco_os_open(data, ECO_OS_NEW);
    } while (file < 0 && errno == EEXIST);
    return file;
}

/* Writes a new file and renames it, so that other processes see the whole old or new text. */
static ecornn_status replace(const char *link, const char *text, size_t bytes)
{
    char path[ECO_MOST_PATH], data[ECO_MOST_PATH + 32]; /* two numbers */
    const ecornn_status status = resolve(link, path);
    if (status != ECORNN_OK)
        return status;
    const int file = open_new(path, data, sizeof data);
    if (file < 0)
        return fail("cannot write", data, errno);
    int error = eco_os_keep_owner(file, path);
    if (error == 0 && !(write_all(file, text, bytes) && eco_os_sync(file) == 0))
        error = errno;
    if (close(file) != 0 && error == 0)
        error = errno;
    if (error == 0 && eco_os_rename(data, path) != 0)
        error = errno;
    if (error == 0)
        return ECORNN_OK;
    unlink(data);
    return fail("cannot write", link, error);
}

ecornn_status eco_wisdom_save(const char *path)
{
    char data[ECO_MOST_PATH];
    const ecornn_status found = find_path(&path, data);
    if (found != ECORNN_OK)
        return found;
    if (path == data)
        make_folders(data);
    const size_t room = eco_wisdom_print(NULL, 0) + 4096; /* other threads may add some */
    char *text = eco_alloc(room);
    if (text == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for wisdom of %zu bytes", room);
    const size_t bytes = eco_wisdom_print(text, room);
    const ecornn_status status =
        bytes < room
            ? replace(path, text, bytes)
            : eco_fail(ECORNN_FAILED, "wisdom grew while it was written to %s", shown(path));
    eco_free(text);
    return status;
}

/* ---- recording ------------------------------------------------------------------------------- */

static void add_cell(struct eco_text *text, const char *cell)
{
    eco_text_add(text, "#cell ");
    for (; *cell != '\0'; cell++)
        if (*cell == '\n' || *cell == '\\')
            eco_text_add(text, "%s", *cell == '\n' ? "\\n" : "\\\\");
        else
            eco_text_add(text, "%c", *cell);
    eco_text_add(text, "\n");
}

void eco_record(const char *problem, const char *cell, struct eco_text *note)
{
    const char *path = eco_environment("ECORNN_RECORD");
    char line[2 * ECO_MAX_TEXT + ECO_MAX_PROBLEM_TEXT + 16];
    struct eco_text text = {line, sizeof line, 0};
    if (!is_given(path))
        return;
    if (cell != NULL)
        add_cell(&text, cell);
    eco_text_add(&text, "%s\n", problem);
    const int file = eco_os_open(path, ECO_OS_APPEND);
    /* A single write at the end of a file is not interleaved with others. */
    const bool done = file >= 0 && write(file, line, text.length) == (ssize_t)text.length;
    if (!done)
        eco_text_add(note, "%sECORNN_RECORD: %s: %s", note->length > 0 ? "; " : "", shown(path),
                     strerror(errno));
    if (file >= 0)
        close(file);
}
