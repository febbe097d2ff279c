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

/* All bytes 0xFF are NaN in both types; guards are something else, each byte with its place. */
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

unsigned char *buffer_fetch(struct memory *memory, const struct buffer *buffer, bool constant)
{
    const size_t bytes = buffer->bytes + 2 * GUARD;
    unsigned char *now = buffer->device ? malloc(bytes) : NULL;
    if (!now ||
        !memory_succeeded(memory, ecornn_download(memory->device, now, buffer->device, bytes),
                          "download")) {
        free(now);
        return NULL;
    }
    for (size_t i = 0; i < bytes; i++) {
        const bool guard = i < GUARD || i >= GUARD + buffer->bytes;
        if (now[i] == buffer->image[i] || (!guard && !constant))
            continue;
        char what[96];
        snprintf(what, sizeof what, "%s was written, %td bytes from its start of %zu",
                 guard ? "a guard" : "an input", (ptrdiff_t)i - GUARD, buffer->bytes);
        memory_complain(memory, what, buffer->name);
        break;
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
