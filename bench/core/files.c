/*
 * Reading lists and cells.
 */
#define _POSIX_C_SOURCE 200809L /* fileno */
#include "files.h"

#include <string.h>
#include <sys/stat.h>

#include "named.h"
#include "say.h"

enum { LINE_BYTES = 256 };

FILE *file_open(const char *path)
{
    struct stat about;
    FILE *file = fopen(path, "r");
    if (file && fstat(fileno(file), &about) == 0 &&
        (S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode)))
        return file;
    if (file)
        fclose(file);
    say("%s cannot be opened, or is neither a file nor a pipe", path);
    return NULL;
}

bool list_each(const char *path, const char *name, bool (*each)(void *own, const char *problem),
               void *own)
{
    char line[LINE_BYTES], head[LINE_BYTES];
    bool inside = name == NULL, found = inside, good = true;
    FILE *file = file_open(path);
    if (!file)
        return name ? say("--shapes names another file") : false;
    snprintf(head, sizeof head, "[%s]", name ? name : "");
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, " \t\r\n#")] = 0;
        if (line[0] == '[')
            inside = name == NULL || !strcmp(line, head);
        else if (inside && line[0])
            good = each(own, line) && good;
        found = found || inside;
    }
    fclose(file);
    return found ? good : say("there is no list %s in the file of shapes", head);
}

bool read_text(const char *path, char text[CELL_BYTES])
{
    FILE *file = file_open(path);
    if (!file)
        return false;
    const size_t size = fread(text, 1, CELL_BYTES - 1, file);
    const bool whole = feof(file) != 0;
    fclose(file);
    text[size] = 0;
    return whole || say("%s is too long for a cell, or cannot be read", path);
}

bool names_cell(const char *problem, const ecornn_cell *cell, const char *path)
{
    const size_t length = strcspn(problem, "/");
    ecornn_cell_item head = {.size = sizeof head};
    ecornn_cell_item_get(cell, 0, &head);
    if (strlen(head.name) == length && strncmp(head.name, problem, length) == 0)
        return true;
    return say("%s: the problem names %.*s, but %s defines %s", problem, (int)length, problem, path,
               head.name);
}

bool is_library_cell(const char *word)
{
    struct stat about;
    return library_text(word) != NULL && (stat(word, &about) != 0 || S_ISDIR(about.st_mode));
}

ecornn_cell *read_cell(const char *word)
{
    char text[CELL_BYTES];
    ecornn_cell *cell = NULL;
    const bool named = cell_named(word) != NULL || is_library_cell(word);
    if ((named || read_text(word, text)) &&
        ecornn_cell_parse(&cell, named ? word : text) != ECORNN_OK)
        say("%s:%s", word, ecornn_error_detail());
    return cell;
}
