/*
 * Tables of measured runs, see table.h.
 */
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"

#define HEAD "device,threads,problem,seconds,low,high,flops,bytes,memory\n"

/* ---- writing --------------------------------------------------------------------------------- */

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

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_row(struct table_row *row, const char *line)
{
    int end = 0;
    return sscanf(line, "%63[^,],%d,%255[^,],%lf,%lf,%lf,%lf,%lf,%lf%n", row->device, &row->threads,
                  row->problem, &row->seconds, &row->low, &row->high, &row->flops, &row->bytes,
                  &row->memory, &end) == 9 &&
           (line[end] == '\n' || line[end] == '\0' || line[end] == '\r') && row->threads > 0 &&
           row->seconds > 0 && row->low > 0 && row->high > 0 && row->flops > 0 && row->bytes > 0 &&
           row->memory >= 0 && row->seconds < 1e9 && row->flops < 1e24 && row->bytes < 1e24 &&
           row->memory < 1e24;
}

static bool make_room(struct table *table)
{
    enum { MOST = 100000 };
    if (table->n < table->room)
        return true;
    const int room = 2 * table->room + 64;
    void *more = room <= MOST ? realloc(table->row, (size_t)room * sizeof *table->row) : NULL;
    if (more == NULL)
        return say("more than %d rows, or no memory for them", table->n);
    table->row = more;
    table->room = room;
    return true;
}

bool table_read(struct table *table, const char *path)
{
    char line[1024];
    bool good = true;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return say("%s: %s", path, strerror(errno));
    for (int number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
        if (number == 1)
            good = strcmp(line, HEAD) == 0 || say("%s:1: the head is not %s", path, HEAD);
        else if ((good = make_room(table)))
            good = read_row(&table->row[table->n], line) ||
                   say("%s:%d: no row of such a table", path, number);
        table->n += good && number > 1;
    }
    good = good && (ferror(file) == 0 || say("%s cannot be read", path));
    fclose(file);
    return good;
}

void table_free(struct table *table)
{
    free(table->row);
    *table = (struct table){.n = 0};
}
