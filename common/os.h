/*
 * What the library asks of the operating system, one file for each: os_posix.c (Linux, and others
 * as far as they are like it) and os_windows.c.  Threads and mutexes are those of pthread.h
 * everywhere; mingw-w64 brings them.  gpu/ is a module for Linux and asks by itself.  Knows nothing
 * of ecornn.
 */
#ifndef ECO_OS_H
#define ECO_OS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* ---- memory ---------------------------------------------------------------------------------- */

/* bytes: a multiple of the alignment. */
void *eco_os_alloc(size_t alignment, size_t bytes);
void eco_os_free(void *memory);
/* Asks for large pages in memory that begins at the boundary of one; a wish. */
void eco_os_want_large_pages(void *memory, size_t bytes);
/* Does the process have this many bytes of address space and of memory left? */
bool eco_os_has_room(size_t bytes);

/* ---- the machine ----------------------------------------------------------------------------- */

/* The bytes of one cache of that level, of data for level 1; 0: unknown. */
size_t eco_os_cache_bytes(int level);
size_t eco_os_memory_bytes(void); /* 0: unknown */
/* The kind of machine, such as "aarch64". */
void eco_os_machine(char *name, size_t size);
/* Does the system let processes use AMX's tile registers?  Asking for them is needed once. */
bool eco_os_tiles_offered(void);
bool eco_os_tiles_given(void);
uint64_t eco_os_arm_features(void); /* HWCAP; 0: unknown */

/* ---- time ------------------------------------------------------------------------------------ */

int64_t eco_os_now(void); /* ns since some moment */
/* ns for which this thread had a CPU; -1: the system does not count finely enough. */
int64_t eco_os_thread_now(void);
bool eco_os_date(time_t now, struct tm *day);

/* ---- threads and processes ------------------------------------------------------------------- */

/* Sleeps while *word is still value; may return early, and does after a millisecond.  eco_wake_all
 * wakes the sleepers of a word.  Where neither exists a sleeper only yields to other threads. */
void eco_sleep_while(_Atomic unsigned *word, unsigned value);
void eco_wake_all(_Atomic unsigned *word);
/* Calls these around each fork of the process, as pthread_atfork; nothing where none can. */
void eco_os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));
/* Is this the only thread of the process?  False: perhaps not. */
bool eco_os_is_alone(void);

/* ---- text ------------------------------------------------------------------------------------ */

/* An environment variable, NULL if set-user-id; only for creating devices and plans. */
const char *eco_environment(const char *name);
/* vsnprintf with a decimal point, whatever the locale of the program is. */
int eco_os_format(char *to, size_t size, const char *format, va_list list);

/* ---- modules --------------------------------------------------------------------------------- */

/* NULL on failure, for which eco_os_module_error has the reason. */
void *eco_os_module_open(const char *path);
const char *eco_os_module_error(void);
void *eco_os_module_symbol(void *module, const char *name);
void eco_os_module_close(void *module);
/* The folder of the library that holds this address, as an absolute path; false: it cannot be
 * trusted, or the address is the program's. */
bool eco_os_library_folder(const void *address, char *folder, size_t size);

/* ---- files ----------------------------------------------------------------------------------- */

bool eco_os_is_absolute(const char *path);
bool eco_os_is_separator(char character);
FILE *eco_os_read_text(const char *path);
/* For bytes, without waiting for what a path may lead to; NEW fails if there is one.  -1: errno. */
enum eco_os_how { ECO_OS_READ, ECO_OS_NEW, ECO_OS_APPEND };
int eco_os_open(const char *path, enum eco_os_how how);
void eco_os_make_folder(const char *path);
/* The file that a path leads to through links, or the path itself if there is none.  An errno. */
int eco_os_resolve(const char *path, char *target, size_t size);
/* Gives a new file the mode and the owner of the file that it will replace.  An errno. */
int eco_os_keep_owner(int file, const char *path);
int eco_os_sync(int file);                           /* 0, or errno is set */
int eco_os_rename(const char *from, const char *to); /* replaces `to`; 0, or errno is set */

#endif /* ECO_OS_H */
