/*
 * Guarded device memory for tests, see guarded.h.
 */
#include "tests/kit/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void memory_complain(struct memory *memory, const char *what, const char *which)
{
    memory->failed = true;
    fprintf(stderr, "%s: %s: %s\n", memory->text, which, what);
}

bool memory_succeeded(struct memory *memory, ecornn_status status, const char *call)
{
    if (status != ECORNN_OK)
        memory_complain(memory, ecornn_error_detail(), call);
    return status == ECORNN_OK;
}

void *buffer_inside(const struct buffer *buffer)
{
    return buffer->device ? buffer->device + GUARD : NULL;
}

void buffer_upload(struct memory *memory, struct buffer *buffer)
{
    if (buffer->device)
        memory_succeeded(
            memory,
            ecornn_upload(memory->device, buffer->device, buffer->image, buffer->bytes + 2 * GUARD),
            "upload");
}

/* Bytes of 0xFF are NaN in every type. Guards have other bytes, which depend on their position. */
void buffer_make(struct memory *memory, struct buffer *buffer, const char *name, size_t bytes)
{
    *buffer = (struct buffer){.name = name, .bytes = bytes};
    buffer->image = malloc(bytes + 2 * GUARD);
    buffer->device = ecornn_alloc(memory->device, bytes + 2 * GUARD);
    if (!buffer->image || !buffer->device) {
        memory_complain(memory, "no memory", name);
        return;
    }
    memset(buffer->image + GUARD, 0xFF, bytes);
    for (size_t i = 0; i < GUARD; i++) {
        buffer->image[i] = (unsigned char)(0x5A ^ i);
        buffer->image[GUARD + bytes + i] = (unsigned char)(0xA5 ^ i);
    }
    buffer_upload(memory, buffer);
}

void buffer_refill(struct memory *memory, struct buffer *buffer)
{
    if (!buffer->device)
        return;
    memset(buffer->image + GUARD, 0xFF, buffer->bytes);
    buffer_upload(memory, buffer);
}

/* The first byte in [from, to) that differs from the image; `to` if none does. */
static size_t first_other(const struct buffer *buffer, const unsigned char *now, size_t from,
                          size_t to)
{
    if (memcmp(now + from, buffer->image + from, to - from) == 0)
        return to;
    while (now[from] == buffer->image[from])
        from++;
    return from;
}

unsigned char *buffer_fetch(struct memory *memory, const struct buffer *buffer, bool constant)
{
    const size_t end = GUARD + buffer->bytes, bytes = end + GUARD;
    unsigned char *now = buffer->device ? malloc(bytes) : NULL;
    if (!now ||
        !memory_succeeded(memory, ecornn_download(memory->device, now, buffer->device, bytes),
                          "download")) {
        free(now);
        return NULL;
    }
    size_t i = first_other(buffer, now, 0, constant ? bytes : GUARD);
    if (i == GUARD && !constant)
        i = first_other(buffer, now, end, bytes);
    if (i < bytes) {
        char what[96];
        snprintf(what, sizeof what, "%s was written, %td bytes from its start of %zu",
                 i < GUARD || i >= end ? "a guard" : "an input", (ptrdiff_t)i - GUARD,
                 buffer->bytes);
        memory_complain(memory, what, buffer->name);
    }
    return now;
}

void buffer_check(struct memory *memory, const struct buffer *buffer, bool constant)
{
    free(buffer_fetch(memory, buffer, constant));
}

void buffer_same(struct memory *memory, const struct buffer *buffer, const unsigned char *before)
{
    unsigned char *now = buffer_fetch(memory, buffer, false);
    if (now && before && memcmp(now, before, buffer->bytes + 2 * GUARD) != 0)
        memory_complain(memory, "other bits than before", buffer->name);
    free(now);
}

void buffer_drop(struct memory *memory, struct buffer *buffer)
{
    ecornn_free(memory->device, buffer->device);
    free(buffer->image);
    *buffer = (struct buffer){0};
}
