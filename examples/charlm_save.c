/*
 * Writing safetensors files, so that a reader finds the old file or the new one, never half of one.
 */
#define _POSIX_C_SOURCE 200809L
#include "charlm_safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 8 }; /* of the data in the file: the format asks for it */

static void put_string(FILE *to, const char *string)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)string; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(to, "\\u%04x", *c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

static uint64_t tensor_bytes(const struct tensor_source *tensor)
{
    return sizeof(float) * tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
}

static void put_tensor(FILE *to, const struct tensor_source *tensor, uint64_t begin)
{
    put_string(to, tensor->name);
    fprintf(to, ":{\"dtype\":\"F32\",\"shape\":[%llu", (unsigned long long)tensor->shape[0]);
    if (tensor->rank == 2)
        fprintf(to, ",%llu", (unsigned long long)tensor->shape[1]);
    fprintf(to, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
            (unsigned long long)(begin + tensor_bytes(tensor)));
}

/* The header with blanks behind it up to the alignment; NULL when memory ran out. */
static char *make_header(const struct safetensors_content *content, size_t *size)
{
    char *text = NULL;
    uint64_t begin = 0;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    fputs("{\"__metadata__\":{", to);
    for (size_t k = 0; k < content->metadata_count; k++) {
        fputs(k ? "," : "", to);
        put_string(to, content->metadata[k].key);
        fputc(':', to);
        put_string(to, content->metadata[k].value);
    }
    fputc('}', to);
    for (size_t k = 0; k < content->tensor_count; k++) {
        fputc(',', to);
        put_tensor(to, &content->tensors[k], begin);
        begin += tensor_bytes(&content->tensors[k]);
    }
    fputc('}', to);
    fflush(to);
    for (size_t past = *size % ALIGNMENT; past && past < ALIGNMENT; past++)
        fputc(' ', to);
    const bool failed = ferror(to);
    if (fclose(to) || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static void put_floats(FILE *to, const struct tensor_source *tensor)
{
    const uint64_t count = tensor_bytes(tensor) / sizeof(float);
    for (uint64_t k = 0; k < count; k++) {
        uint32_t bits;
        memcpy(&bits, &tensor->data[k], sizeof bits);
        const unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                        (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        fwrite(bytes, 1, sizeof bytes, to);
    }
}

static bool put_file(FILE *to, const struct safetensors_content *content)
{
    size_t size = 0;
    char *header = make_header(content, &size);
    if (!header)
        return false;
    for (int k = 0; k < 8; k++)
        fputc((int)((uint64_t)size >> (8 * k) & 0xff), to);
    fwrite(header, 1, size, to);
    free(header);
    for (size_t k = 0; k < content->tensor_count; k++)
        put_floats(to, &content->tensors[k]);
    return !fflush(to) && !ferror(to) && !fsync(fileno(to));
}

/* The new file beside the old one, named after both the path and this process. */
static FILE *open_beside(const char *path, char *beside, size_t size, struct complaint *why)
{
    struct stat status;
    if (!stat(path, &status) && !S_ISREG(status.st_mode)) {
        complain(why, "%.200s: not a regular file", path);
        return NULL;
    }
    if ((size_t)snprintf(beside, size, "%s.%ld.new", path, (long)getpid()) >= size) {
        complain(why, "a path of %zu bytes, must be at most %zu", strlen(path), size - 32);
        return NULL;
    }
    const int descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (descriptor < 0) {
        complain(why, "%.200s: %s", beside, strerror(errno));
        return NULL;
    }
    FILE *file = fdopen(descriptor, "wb");
    if (!file) {
        complain(why, "%.200s: %s", beside, strerror(errno));
        close(descriptor);
        unlink(beside);
    }
    return file;
}

/* The rename itself lies in the folder, which has to reach the disk too.  Not every file system
 * can; the file is complete by then, so that is no failure. */
static void sync_folder(const char *path)
{
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    const int descriptor = open(folder, O_RDONLY);
    if (descriptor < 0)
        return;
    fsync(descriptor);
    close(descriptor);
}

bool safetensors_write(const char *path, const struct safetensors_content *content,
                       struct complaint *why)
{
    char beside[4096];
    FILE *file = open_beside(path, beside, sizeof beside, why);
    if (!file)
        return false;
    bool good = put_file(file, content);
    good = !fclose(file) && good;
    if (!good || rename(beside, path)) {
        complain(why, "%.200s: %s", path, errno ? strerror(errno) : "cannot be written");
        unlink(beside);
        return false;
    }
    sync_folder(path);
    return true;
}

bool safetensors_writable(const char *path, struct complaint *why)
{
    char beside[4096];
    FILE *file = open_beside(path, beside, sizeof beside, why);
    if (!file)
        return false;
    fclose(file);
    unlink(beside);
    return true;
}
