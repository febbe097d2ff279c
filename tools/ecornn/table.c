/*
 * Tables of measured runs, see table.h.
 */
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/core/say.h"

#define HEAD "device,threads,problem,seconds,low,high,flops,bytes,memory\n"

/* A name of a device without what ends a cell or a line. */
static void write_name(FILE *file, const char *name)
{
    for (; *name != '\0'; name++)
        fputc(*name == ',' || *name == '"' || (unsigned char)*name < ' ' ? ' ' : *name, file);
}

bool table_append(const char *path, const struct table_row *row)
{
    FILE *file = fopen(path, "a");
    if (file == NULL)
        return say("%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    if (ftell(file) == 0)
        fputs(HEAD, file);
    write_name(file, row->device);
    fprintf(file, ",%d,%s,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n", row->threads, row->problem,
            row->seconds, row->low, row->high, row->flops, row->bytes, row->memory);
    const bool good = ferror(file) == 0;
    return (fclose(file) == 0 && good) || say("%s cannot be written", path);
}
