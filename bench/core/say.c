/*
 * Standard error.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

bool say(const char *format, ...)
{
    va_list list;
    fprintf(stderr, "%s: ", program_name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return false;
}
