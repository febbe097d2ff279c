/*
 * stat and its like where glibc is older than 2.33: there they are no functions of the library, but
 * go through others, which newer ones still have.  link.py puts these in their place.
 */
#include <sys/stat.h>

#ifdef __x86_64__
enum { STRUCT_OF_OLD = 1 };
#else /* aarch64 */
enum { STRUCT_OF_OLD = 0 };
#endif

int __xstat(int version, const char *path, struct stat *info);
int __lxstat(int version, const char *path, struct stat *info);
int __fxstat(int version, int file, struct stat *info);
int __fxstatat(int version, int folder, const char *path, struct stat *info, int flags);

int eco_old_stat(const char *path, struct stat *info);
int eco_old_lstat(const char *path, struct stat *info);
int eco_old_fstat(int file, struct stat *info);
int eco_old_fstatat(int folder, const char *path, struct stat *info, int flags);

int eco_old_stat(const char *path, struct stat *info)
{
    return __xstat(STRUCT_OF_OLD, path, info);
}

int eco_old_lstat(const char *path, struct stat *info)
{
    return __lxstat(STRUCT_OF_OLD, path, info);
}

int eco_old_fstat(int file, struct stat *info)
{
    return __fxstat(STRUCT_OF_OLD, file, info);
}

int eco_old_fstatat(int folder, const char *path, struct stat *info, int flags)
{
    return __fxstatat(STRUCT_OF_OLD, folder, path, info, flags);
}
