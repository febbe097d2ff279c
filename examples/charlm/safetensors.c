/*
 * Reading safetensors files.  The header's grammar has fixed nesting (an object of objects of two
 * lists), so it is read by five functions that call each other downwards, never by recursion.
 */
#define _POSIX_C_SOURCE 200809L
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"

/* What is known while a header is read.  `free_string`: where the next string goes; strings take no
 * more room decoded than in the header, so an arena of the header's size holds them all. */
struct reading {
    struct safetensors *file;
    struct json json;
    char *free_string;
    uint64_t data_bytes;
    const char *checksum; /* its digits in the header; NULL: none */
};

static uint64_t little_endian(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int k = count - 1; k >= 0; k--)
        value = value << 8 | bytes[k];
    return value;
}

static bool take_string(struct reading *r, const char **string, size_t limit, struct complaint *why)
{
    if (!json_string(&r->json, r->free_string, limit, why))
        return false;
    *string = r->free_string;
    r->free_string += strlen(r->free_string) + 1;
    return true;
}

/* Makes room for one more row; the table doubles, so that a short header costs little. */
static void *grow(void *table, size_t count, size_t row_bytes, struct complaint *why)
{
    if (count & (count - 1)) /* full only at 0 and at powers of two */
        return table;
    void *larger = realloc(table, (count ? 2 * count : 1) * row_bytes);
    if (!larger)
        complain(why, "no memory for %zu rows of the header", count + 1);
    return larger;
}

static bool take_shape(struct reading *r, struct tensor *tensor, struct complaint *why)
{
    if (!json_expect(&r->json, '[', why))
        return false;
    tensor->rank = 0;
    if (json_take(&r->json, ']'))
        return true;
    do {
        if (tensor->rank == TENSOR_RANK_MAX)
            return complain(why, "tensor '%s' has more than %d dimensions", tensor->name,
                            TENSOR_RANK_MAX);
        if (!json_unsigned(&r->json, &tensor->shape[tensor->rank++], INT64_MAX, why))
            return false;
    } while (json_take(&r->json, ','));
    return json_expect(&r->json, ']', why);
}

static bool take_offsets(struct reading *r, struct tensor *tensor, struct complaint *why)
{
    return json_expect(&r->json, '[', why) &&
           json_unsigned(&r->json, &tensor->begin, INT64_MAX, why) &&
           json_expect(&r->json, ',', why) &&
           json_unsigned(&r->json, &tensor->end, INT64_MAX, why) && json_expect(&r->json, ']', why);
}

static bool take_dtype(struct reading *r, struct tensor *tensor, struct complaint *why)
{
    const char *dtype = NULL;
    if (!take_string(r, &dtype, TENSOR_NAME_MAX, why))
        return false;
    if (strcmp(dtype, "F32") != 0)
        return complain(why, "tensor '%s' has dtype '%s', only F32 is read", tensor->name, dtype);
    return true;
}

/* The offsets lie in the data, and their distance is what the shape says. */
static bool check_extent(const struct reading *r, const struct tensor *tensor,
                         struct complaint *why)
{
    uint64_t bytes = sizeof(float);
    if (tensor->begin > tensor->end || tensor->end > r->data_bytes)
        return complain(why, "tensor '%s' is at bytes %llu to %llu, the data has %llu",
                        tensor->name, (unsigned long long)tensor->begin,
                        (unsigned long long)tensor->end, (unsigned long long)r->data_bytes);
    for (int d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] && bytes > INT64_MAX / tensor->shape[d])
            return complain(why, "tensor '%s' has dimension %d of %llu: too many elements",
                            tensor->name, d, (unsigned long long)tensor->shape[d]);
        bytes *= tensor->shape[d];
    }
    if (bytes != tensor->end - tensor->begin)
        return complain(why, "tensor '%s' has %llu bytes of data, its shape says %llu",
                        tensor->name, (unsigned long long)(tensor->end - tensor->begin),
                        (unsigned long long)bytes);
    return true;
}

/* {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, in any order. */
static bool take_tensor(struct reading *r, const char *name, struct complaint *why)
{
    static const struct {
        const char *key;
        bool (*take)(struct reading *, struct tensor *, struct complaint *);
    } fields[] = {{"dtype", take_dtype}, {"shape", take_shape}, {"data_offsets", take_offsets}};
    struct safetensors *file = r->file;
    struct tensor tensor = {.name = name};
    unsigned seen = 0;
    if (file->tensor_count == TENSOR_COUNT_MAX)
        return complain(why, "more than %d tensors", TENSOR_COUNT_MAX);
    if (!json_expect(&r->json, '{', why))
        return false;
    do {
        const char *key = NULL;
        size_t f = 0;
        if (!take_string(r, &key, TENSOR_NAME_MAX, why) || !json_expect(&r->json, ':', why))
            return false;
        while (f < 3 && strcmp(key, fields[f].key) != 0)
            f++;
        if (f == 3 || seen >> f & 1)
            return complain(why, "tensor '%s' has %s key '%s'", name,
                            f == 3 ? "an unknown" : "a second", key);
        seen |= 1u << f;
        if (!fields[f].take(r, &tensor, why))
            return false;
    } while (json_take(&r->json, ','));
    if (!json_expect(&r->json, '}', why))
        return false;
    for (size_t f = 0; f < 3; f++)
        if (!(seen >> f & 1))
            return complain(why, "tensor '%s' has no %s", name, fields[f].key);
    struct tensor *larger = grow(file->tensors, file->tensor_count, sizeof tensor, why);
    if (!larger)
        return false;
    file->tensors = larger;
    file->tensors[file->tensor_count++] = tensor;
    return check_extent(r, &tensor, why);
}

/* {"key": "value", ...} */
static bool take_metadata(struct reading *r, struct complaint *why)
{
    struct safetensors *file = r->file;
    if (!json_expect(&r->json, '{', why))
        return false;
    if (json_take(&r->json, '}'))
        return true;
    do {
        struct metadata pair = {NULL, NULL};
        if (file->metadata_count == METADATA_COUNT_MAX)
            return complain(why, "__metadata__ has more than %d keys", METADATA_COUNT_MAX);
        if (!take_string(r, &pair.key, TENSOR_NAME_MAX, why) || !json_expect(&r->json, ':', why) ||
            !take_string(r, &pair.value, METADATA_VALUE_MAX, why))
            return false;
        if (safetensors_value(file, pair.key))
            return complain(why, "__metadata__ has a second key '%s'", pair.key);
        if (!strcmp(pair.key, CHECKSUM_KEY) && strlen(pair.value) == CHECKSUM_DIGITS)
            r->checksum = r->json.at - 1 - CHECKSUM_DIGITS; /* before the quote */
        struct metadata *larger = grow(file->metadata, file->metadata_count, sizeof pair, why);
        if (!larger)
            return false;
        file->metadata = larger;
        file->metadata[file->metadata_count++] = pair;
    } while (json_take(&r->json, ','));
    return json_expect(&r->json, '}', why);
}

static bool take_header(struct reading *r, struct complaint *why)
{
    bool metadata = false;
    if (!json_expect(&r->json, '{', why))
        return false;
    if (json_take(&r->json, '}'))
        return json_finish(&r->json, why);
    do {
        const char *name = NULL;
        if (!take_string(r, &name, TENSOR_NAME_MAX, why) || !json_expect(&r->json, ':', why))
            return false;
        if (strcmp(name, "__metadata__") != 0) {
            if (!take_tensor(r, name, why))
                return false;
        } else if (metadata) {
            return complain(why, "a second __metadata__");
        } else {
            metadata = true;
            if (!take_metadata(r, why))
                return false;
        }
    } while (json_take(&r->json, ','));
    return json_expect(&r->json, '}', why) && json_finish(&r->json, why);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const struct tensor *s = a, *t = b;
    if (s->begin != t->begin)
        return s->begin < t->begin ? -1 : 1;
    return s->end < t->end ? -1 : s->end > t->end;
}

/* No name twice; the tensors follow one another without overlap or hole to the data's end.  Leaves
 * the tensors in the order of their data. */
static bool check_whole(struct safetensors *file, uint64_t data_bytes, struct complaint *why)
{
    uint64_t end = 0;
    if (file->tensor_count)
        qsort(file->tensors, file->tensor_count, sizeof *file->tensors, compare_names);
    for (size_t k = 1; k < file->tensor_count; k++)
        if (!strcmp(file->tensors[k - 1].name, file->tensors[k].name))
            return complain(why, "a second tensor '%s'", file->tensors[k].name);
    if (file->tensor_count)
        qsort(file->tensors, file->tensor_count, sizeof *file->tensors, compare_offsets);
    for (size_t k = 0; k < file->tensor_count; k++) {
        const struct tensor *tensor = &file->tensors[k];
        if (tensor->begin != end)
            return complain(why, "tensor '%s' begins at byte %llu, %s byte %llu", tensor->name,
                            (unsigned long long)tensor->begin,
                            tensor->begin < end ? "inside the one that ends at"
                                                : "leaving a hole from",
                            (unsigned long long)end);
        end = tensor->end;
    }
    if (end != data_bytes)
        return complain(why, "the data has %llu bytes, the tensors end at %llu",
                        (unsigned long long)data_bytes, (unsigned long long)end);
    return true;
}

/* Whether the bytes are those that were written: the sum is that of the whole file with zeros for
 * its own digits. */
static bool check_sum(const struct safetensors *file, const char *digits, const char *bytes,
                      size_t size, struct complaint *why)
{
    static const char zeros[] = "00000000";
    const char *value = safetensors_value(file, CHECKSUM_KEY);
    char found[CHECKSUM_DIGITS + 1] = "";
    if (!value)
        return true;
    if (digits) {
        uint32_t crc = crc32_add(0, bytes, (size_t)(digits - bytes));
        crc = crc32_add(crc, zeros, CHECKSUM_DIGITS);
        digits += CHECKSUM_DIGITS;
        crc = crc32_add(crc, digits, size - (size_t)(digits - bytes));
        snprintf(found, sizeof found, "%08x", (unsigned)crc);
    }
    return !strcmp(value, found) ||
           complain(why, "the file's %s is '%s', its metadata says '%.20s': it was changed",
                    CHECKSUM_KEY, found, value);
}

static bool parse_header(struct reading *r, const char *text, uint64_t header,
                         struct complaint *why)
{
    r->file->strings = malloc((size_t)header + 1);
    if (!r->file->strings)
        return complain(why, "no memory for a header of %llu bytes", (unsigned long long)header);
    r->json = (struct json){text, text, text + header};
    r->free_string = r->file->strings;
    return take_header(r, why) && check_whole(r->file, r->data_bytes, why);
}

static bool check_header_size(uint64_t header, uint64_t left, struct complaint *why)
{
    const uint64_t most = left < HEADER_BYTES_MAX ? left : HEADER_BYTES_MAX;
    return header <= most || complain(why, "the header's length is %llu, must be at most %llu",
                                      (unsigned long long)header, (unsigned long long)most);
}

static bool check_file_size(uint64_t size, struct complaint *why)
{
    return size <= TENSOR_FILE_MAX || complain(why, "the file has %llu bytes, must be at most %zu",
                                               (unsigned long long)size, TENSOR_FILE_MAX);
}

bool safetensors_parse(struct safetensors *file, const void *bytes, size_t size,
                       struct complaint *why)
{
    *file = (struct safetensors){0};
    if (size < LENGTH_BYTES)
        return complain(why, "the file has %zu bytes, at least %d are needed", size, LENGTH_BYTES);
    const uint64_t header = little_endian(bytes, LENGTH_BYTES);
    const char *text = (const char *)bytes + LENGTH_BYTES;
    if (!check_header_size(header, size - LENGTH_BYTES, why))
        return false;
    struct reading r = {.file = file, .data_bytes = size - LENGTH_BYTES - header};
    file->data = (const unsigned char *)text + header;
    if (parse_header(&r, text, header, why) && check_sum(file, r.checksum, bytes, size, why))
        return true;
    safetensors_free(file);
    return false;
}

bool safetensors_foresee(struct safetensors *file, const char *text, size_t header,
                         uint64_t data_bytes, struct complaint *why)
{
    *file = (struct safetensors){0};
    struct reading r = {.file = file, .data_bytes = data_bytes};
    if (check_header_size(header, header, why) &&
        check_file_size(LENGTH_BYTES + header + data_bytes, why) &&
        parse_header(&r, text, header, why))
        return true;
    safetensors_free(file);
    return false;
}

static bool read_all(int descriptor, unsigned char *to, size_t size)
{
    while (size) {
        const ssize_t count = read(descriptor, to, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        to += count;
        size -= (size_t)count;
    }
    return true;
}

/* The file's bytes, to be freed by the caller; NULL on failure. */
static unsigned char *load(int descriptor, size_t *size, struct complaint *why)
{
    struct stat status;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode)) {
        complain(why, "not a regular file");
        return NULL;
    }
    if (!check_file_size((uint64_t)status.st_size, why))
        return NULL;
    *size = (size_t)status.st_size;
    unsigned char *bytes = malloc(*size + 1);
    if (!bytes || !read_all(descriptor, bytes, *size)) {
        complain(why, bytes ? "the file cannot be read" : "no memory for the file");
        free(bytes);
        return NULL;
    }
    return bytes;
}

bool safetensors_read(struct safetensors *file, const char *path, struct complaint *why)
{
    *file = (struct safetensors){0};
    struct complaint inner = {{0}};
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK);
    if (descriptor < 0)
        return complain(why, "%.200s: %s", path, strerror(errno));
    size_t size = 0;
    unsigned char *bytes = load(descriptor, &size, &inner);
    close(descriptor);
    if (!bytes || !safetensors_parse(file, bytes, size, &inner)) {
        free(bytes);
        return complain(why, "%.100s: %.290s", path, inner.text);
    }
    file->owned = bytes;
    return true;
}

void safetensors_free(struct safetensors *file)
{
    free(file->tensors);
    free(file->metadata);
    free(file->strings);
    free(file->owned);
    *file = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t k = 0; k < file->tensor_count; k++)
        if (!strcmp(file->tensors[k].name, name))
            return &file->tensors[k];
    return NULL;
}

const char *safetensors_value(const struct safetensors *file, const char *key)
{
    for (size_t k = 0; k < file->metadata_count; k++)
        if (!strcmp(file->metadata[k].key, key))
            return file->metadata[k].value;
    return NULL;
}

void safetensors_copy(const struct safetensors *file, const struct tensor *tensor, float *to)
{
    for (uint64_t at = tensor->begin; at < tensor->end; at += sizeof(float)) {
        const uint32_t bits = (uint32_t)little_endian(file->data + at, sizeof(float));
        memcpy(to++, &bits, sizeof bits);
    }
}
