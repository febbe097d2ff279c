/*
 * Errors of a cell as a whole; see error.h.
 */
#include "common/cell/error.h"

#include <stdarg.h>
#include <stdio.h>

bool eco_cell_fail(struct eco_cell_error *error, const char *format, ...)
{
    va_list arguments;
    error->line = error->column = 1;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return false;
}
