/*
 * Where wisdom lies, and how it is read and written; see wisdom_files.h.  What is in it,
 * common/wisdom knows.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* O_CLOEXEC, realpath */
#endif

#include "lib/wisdom_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cell/limits.h"
#include "common/locks.h"
#include "common/wisdom/wisdom.h"
#include "lib/paths.h"

enum { MOST_FILE = 16 << 20 };
_Static_assert(ECO_MOST_PATH >= PATH_MAX, "realpath wants room");

/* What an error has room for of a path: its end, where long ones differ. */
enum { SHOWN = 200 };
struct shown {
    char text[SHOWN + 4]; /* with "..." */
};
static struct shown shown(const char *path)
{
    struct shown made;
    struct eco_text text = {made.text, sizeof made.text, 0};
    const size_t length = strlen(path);
    eco_text_add(&text, "%s%s", length > SHOWN ? "..." : "",
                 length > SHOWN ? path + length - SHOWN : path);
    return made;
}

static ecornn_status fail(const char *what, const char *path, int error)
{
    return eco_fail(ECORNN_FAILED, "%s: %s: %s", what, shown(path).text, strerror(error));
}

static ecornn_status too_long(const char *path, size_t length)
{
    return eco_fail(ECORNN_FAILED, "%.60s...: a path of %zu bytes, must have at most %d", path,
                    length, ECO_MOST_PATH - 1);
}

/* ---- where ----------------------------------------------------------------------------------- */

static bool is_given(const char *value)
{
    return value != NULL && *value != '\0';
}

static bool user_path(struct eco_text *path)
{
    const char *folder = eco_environment("XDG_CONFIG_HOME"), *home = eco_environment("HOME");
    if (is_given(folder) && *folder == '/')
        eco_text_add(path, "%s/ecornn/wisdom", folder);
    else if (is_given(home) && *home == '/')
        eco_text_add(path, "%s/.config/ecornn/wisdom", home);
    else
        return false;
    return true;
}

bool eco_wisdom_path(enum eco_wisdom_file which, struct eco_text *path)
{
    const char *asked = eco_environment("ECORNN_WISDOM");
    if (asked != NULL && strcmp(asked, "0") == 0)
        return false;
    if (which == ECO_WISDOM_USER)
        return user_path(path);
    if (which == ECO_WISDOM_ASKED && !is_given(asked))
        return false;
    eco_text_add(path, "%s", which == ECO_WISDOM_SYSTEM ? ECO_SYSCONFDIR "/ecornn/wisdom" : asked);
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* All bytes that are there, which may be fewer than wanted. */
static ecornn_status read_all(int file, const char *path, char *text, size_t bytes, size_t *got)
{
    for (*got = 0; *got < bytes;) {
        const ssize_t n = read(file, text + *got, bytes - *got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail("cannot read", path, errno);
        if (n == 0)
            break;
        *got += (size_t)n;
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
        return eco_fail(ECORNN_FAILED, "cannot read: %s: no regular file", shown(path).text);
    if (about.st_size > MOST_FILE)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s:1: the text is larger than 16 MiB",
                        shown(path).text);
    const size_t bytes = (size_t)about.st_size;
    char *text = eco_alloc(bytes + 1);
    if (text == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of %s", bytes, shown(path).text);
    ecornn_status status = read_all(file, path, text, bytes, &got);
    if (status == ECORNN_OK)
        status = eco_wisdom_add(text, got, shown(path).text);
    eco_free(text);
    return status;
}

static ecornn_status find_user(struct eco_text *path)
{
    if (!user_path(path))
        return eco_fail(ECORNN_FAILED, "there is no file of the user's: neither XDG_CONFIG_HOME "
                                       "nor HOME is an absolute path");
    return path->length < path->size ? ECORNN_OK : too_long(path->data, path->length);
}

ecornn_status eco_wisdom_load(const char *path)
{
    char data[ECO_MOST_PATH];
    struct eco_text user = {data, sizeof data, 0};
    if (path == NULL) {
        const ecornn_status found = find_user(&user);
        if (found != ECORNN_OK)
            return found;
        path = data;
    }
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return fail("cannot read", path, errno);
    const ecornn_status status = load_open(file, path);
    close(file);
    return status;
}

static atomic_bool opened; /* set under ECO_LOCK_FILES */

/* A file that is not there is no fault, but of one that was asked for. */
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
    eco_fail_restore(before); /* no failure of the caller's */
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

void eco_wisdom_begin_anew(void)
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

/* A folder that root made to whom the folder belongs that it is in. */
static void give_folder(const char *path)
{
    struct stat above;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const bool theirs = folder >= 0 && fstatat(folder, "..", &above, 0) == 0 && above.st_uid != 0;
    if (theirs && fchown(folder, above.st_uid, above.st_gid) != 0)
        errno = 0; /* it stays root's */
    if (folder >= 0)
        close(folder);
}

/* The folders that a file is in, those of the user's configuration. */
static void make_folders(const char *path)
{
    char folder[ECO_MOST_PATH];
    struct eco_text text = {folder, sizeof folder, 0};
    eco_text_add(&text, "%s", path);
    for (char *at = folder + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        if (mkdir(folder, 0777) == 0 && geteuid() == 0) /* what fails, opening a file there says */
            give_folder(folder);
        *at = '/';
    }
}

/* Where a file lies that links may lead to.  Only a regular one may be replaced. */
static ecornn_status resolve(const char *path, char place[ECO_MOST_PATH])
{
    struct stat about;
    if (lstat(path, &about) != 0 && errno == ENOENT) {
        struct eco_text same = {place, ECO_MOST_PATH, 0};
        eco_text_add(&same, "%s", path);
        return same.length < same.size ? ECORNN_OK : fail("cannot write", path, ENAMETOOLONG);
    }
    if (stat(path, &about) != 0 || realpath(path, place) == NULL)
        return fail("cannot write", path, errno);
    return S_ISREG(about.st_mode)
               ? ECORNN_OK
               : eco_fail(ECORNN_FAILED, "cannot write: %s: no regular file", shown(path).text);
}

/* A file that is replaced keeps its mode and group, and where root writes, its owner; a new one of
 * root's in a user's folder is that user's.  Where the group may not be kept, the new one can do
 * what others can. */
static int own(int file, const char *path)
{
    char folder[ECO_MOST_PATH];
    struct stat old;
    struct eco_text text = {folder, sizeof folder, 0};
    const bool replaces = stat(path, &old) == 0, root = geteuid() == 0;
    const char *end = strrchr(path, '/');
    eco_text_add(&text, "%.*s", end != NULL ? (int)(end - path) : 1, end != NULL ? path : ".");
    if (!replaces && (!root || stat(folder[0] != '\0' ? folder : "/", &old) != 0))
        return 0;
    const bool kept = fchown(file, root ? old.st_uid : (uid_t)-1, old.st_gid) == 0;
    const mode_t mode = old.st_mode & 0777;
    if (!replaces)
        return 0; /* a new file that cannot be given away stays the process's own */
    return fchmod(file, kept ? mode : (mode & 0707) | (mode & 07) << 3) == 0 ? 0 : errno;
}

/* A new file beside it; one that a process of this number left behind stays.  -1: errno says. */
static int open_beside(const char *path, char *data, size_t size)
{
    static atomic_uint number;
    int file;
    do {
        struct eco_text beside = {data, size, 0};
        eco_text_add(&beside, "%s.%ld.%u", path, (long)getpid(), atomic_fetch_add(&number, 1));
        file = open(data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file < 0 && errno == EEXIST);
    return file;
}

/* Beside it first; the new name of it comes in one step. */
static ecornn_status replace(const char *link, const char *text, size_t bytes)
{
    char path[ECO_MOST_PATH], data[ECO_MOST_PATH + 32]; /* two numbers */
    const ecornn_status status = resolve(link, path);
    if (status != ECORNN_OK)
        return status;
    const int file = open_beside(path, data, sizeof data);
    if (file < 0)
        return fail("cannot write", data, errno);
    int error = own(file, path);
    if (error == 0 && !(write_all(file, text, bytes) && fsync(file) == 0))
        error = errno;
    if (close(file) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(data, path) != 0)
        error = errno;
    if (error == 0)
        return ECORNN_OK;
    unlink(data);
    return fail("cannot write", link, error);
}

ecornn_status eco_wisdom_save(const char *path)
{
    char data[ECO_MOST_PATH];
    struct eco_text user = {data, sizeof data, 0};
    if (path == NULL) {
        const ecornn_status found = find_user(&user);
        if (found != ECORNN_OK)
            return found;
        make_folders(data);
        path = data;
    }
    const size_t room = eco_wisdom_print(NULL, 0) + 4096; /* what others add meanwhile */
    char *text = eco_alloc(room);
    if (text == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for wisdom of %zu bytes", room);
    const size_t bytes = eco_wisdom_print(text, room);
    const ecornn_status status =
        bytes < room
            ? replace(path, text, bytes)
            : eco_fail(ECORNN_FAILED, "wisdom grew while it was written to %s", shown(path).text);
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
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    /* One write at the end of a file is whole. */
    const bool done = file >= 0 && write(file, line, text.length) == (ssize_t)text.length;
    if (!done)
        eco_text_add(note, "%sECORNN_RECORD: %s: %s", note->length > 0 ? "; " : "",
                     shown(path).text, strerror(errno));
    if (file >= 0)
        close(file);
}
