/*
 * Standard error.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* RFC 3629. */
size_t shown_character(const char *text, size_t bytes, unsigned long *code)
{
    static const unsigned long least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    const size_t more = at[0] >= 0xF0 ? 3 : at[0] >= 0xE0 ? 2 : at[0] >= 0xC0 ? 1 : 0;
    *code = more > 0 ? at[0] & (0x3Fu >> more) : at[0];
    if (more >= bytes || at[0] > 0xF4 || (more == 0 && at[0] >= 0x80))
        return 0;
    for (size_t k = 1; k <= more; k++) {
        if ((at[k] & 0xC0) != 0x80)
            return 0;
        *code = *code << 6 | (at[k] & 0x3F);
    }
    return *code < least[more] || *code > 0x10FFFF || *code >> 11 == 0xD800 >> 11 ? 0 : more + 1;
}

bool controls_terminal(unsigned long code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
           code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

void print_shown(FILE *file, const char *text, size_t bytes)
{
    for (size_t i = 0, n; i<bytes; i += n> 0 ? n : 1) {
        unsigned long code;
        n = shown_character(text + i, bytes - i, &code);
        if (n > 0 && (!controls_terminal(code) || text[i] == '\n'))
            fwrite(text + i, 1, n, file);
        else
            for (size_t k = 0; k < (n > 0 ? n : 1); k++)
                fprintf(file, "\\x%02X", (unsigned char)text[i + k]);
    }
}

bool say(const char *format, ...)
{
    char text[8192];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "%s: ", program_name);
    print_shown(stderr, text, strlen(text));
    fputc('\n', stderr);
    return false;
}
