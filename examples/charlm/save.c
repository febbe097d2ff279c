/*
 * Writing safetensors files: the header as text, the data in pieces, one checksum over both.
 */
#define _POSIX_C_SOURCE 200809L
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replace.h"

enum { ALIGNMENT = 8 };          /* of the data in the file: the format asks for it */
enum { PIECE_FLOATS = 1 << 14 }; /* brought into the file's order of bytes at a time */
static const char FRONT[] = "{\"__metadata__\":{\"crc32\":\""; /* before the checksum's digits */

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

/* The header with blanks behind it up to the alignment, its checksum all zeros; NULL when memory
 * ran out. */
static char *make_header(const struct safetensors_content *content, size_t *size)
{
    char *text = NULL;
    uint64_t begin = 0;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    fprintf(to, "%s00000000\"", FRONT);
    for (size_t k = 0; k < content->metadata_count; k++) {
        fputc(',', to);
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

static uint64_t all_bytes(const struct safetensors_content *content)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < content->tensor_count; k++)
        bytes += tensor_bytes(&content->tensors[k]);
    return bytes;
}

bool safetensors_preview(struct safetensors *file, const struct safetensors_content *content,
                         uint64_t *bytes, struct complaint *why)
{
    size_t size = 0;
    *file = (struct safetensors){0};
    char *header = make_header(content, &size);
    if (!header)
        return complain(why, "no memory for the header of %zu tensors", content->tensor_count);
    *bytes = LENGTH_BYTES + size + all_bytes(content);
    const bool good = safetensors_foresee(file, header, size, all_bytes(content), why);
    free(header);
    return good;
}

/* Where the bytes go: to the file, or only into the checksum where `file` is NULL. */
struct sink {
    struct replacement *file;
    uint32_t crc;
};

static bool put(struct sink *sink, const void *bytes, size_t size, struct complaint *why)
{
    if (sink->file)
        return replacement_write(sink->file, bytes, size, why);
    sink->crc = crc32_add(sink->crc, bytes, size);
    return true;
}

static bool put_floats(struct sink *sink, const struct tensor_source *tensor, struct complaint *why)
{
    unsigned char bytes[4 * PIECE_FLOATS];
    const uint64_t count = tensor_bytes(tensor) / sizeof(float);
    for (uint64_t done = 0; done < count;) {
        size_t k = 0;
        for (; k < PIECE_FLOATS && done < count; k++, done++) {
            uint32_t bits;
            memcpy(&bits, &tensor->data[done], sizeof bits);
            for (size_t b = 0; b < 4; b++)
                bytes[4 * k + b] = (unsigned char)(bits >> 8 * b);
        }
        if (!put(sink, bytes, 4 * k, why))
            return false;
    }
    return true;
}

static bool put_file(struct sink *sink, const char *header, size_t size,
                     const struct safetensors_content *content, struct complaint *why)
{
    unsigned char length[LENGTH_BYTES];
    for (int k = 0; k < LENGTH_BYTES; k++)
        length[k] = (unsigned char)((uint64_t)size >> (8 * k));
    bool good = put(sink, length, sizeof length, why) && put(sink, header, size, why);
    for (size_t k = 0; good && k < content->tensor_count; k++)
        good = put_floats(sink, &content->tensors[k], why);
    return good;
}

/* The checksum first, as it stands in front of what it is of. */
static bool write_summed(struct replacement *file, const struct safetensors_content *content,
                         struct complaint *why)
{
    char digits[CHECKSUM_DIGITS + 1];
    struct sink sink = {NULL, 0};
    size_t size = 0;
    char *header = make_header(content, &size);
    if (!header)
        return complain(why, "no memory for the header of %zu tensors", content->tensor_count);
    bool good = put_file(&sink, header, size, content, why);
    snprintf(digits, sizeof digits, "%08x", (unsigned)sink.crc);
    memcpy(header + sizeof FRONT - 1, digits, CHECKSUM_DIGITS);
    sink.file = file;
    good = good && put_file(&sink, header, size, content, why);
    free(header);
    return good;
}

bool safetensors_write(const char *path, const struct safetensors_content *content,
                       struct complaint *why)
{
    struct replacement file;
    if (!replacement_open(&file, path, why))
        return false;
    if (write_summed(&file, content, why))
        return replacement_commit(&file, why);
    replacement_abandon(&file);
    return false;
}
