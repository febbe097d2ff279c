/*
 * Counted blocks of memory, and those of each thread.
 */
#include "python/native/lent.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef _WIN32
#include <malloc.h>
#define ALLOCATE(alignment, bytes) _aligned_malloc(bytes, alignment)
#define RELEASE(block)             _aligned_free(block)
#else
#include <sys/mman.h>
#define ALLOCATE(alignment, bytes) aligned_alloc(alignment, bytes)
#define RELEASE(block)             free(block)
#endif

enum { MOST_KEPT = 64 << 20, ALIGNED = 64, LARGE_PAGE = 2 << 20 }; /* bytes */

void memory_large(void *at, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t from = ((uintptr_t)at + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE,
                    to = ((uintptr_t)at + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (at && from < to)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)at, (void)bytes;
#endif
}

struct memory *memory_new(ecornn_device *device, size_t bytes)
{
    struct memory *const memory = new_zeros(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->bytes = bytes > 0 ? bytes : 1;
    memory->device = device;
    atomic_init(&memory->users, 1);
    if (device)
        memory->at = library.alloc(device, memory->bytes);
    else if (bytes <= PTRDIFF_MAX)
        memory->at = ALLOCATE(ALIGNED, (memory->bytes + ALIGNED - 1) / ALIGNED * ALIGNED);
    if (!device)
        memory_large(memory->at, memory->bytes);
    if (!memory->at && !device)
        say_no_memory(bytes);
    if (!memory->at) {
        free(memory);
        return NULL;
    }
    return memory;
}

struct memory *memory_hold(struct memory *memory)
{
    if (memory)
        atomic_fetch_add(&memory->users, 1);
    return memory;
}

void memory_drop(struct memory *memory)
{
    if (!memory || atomic_fetch_sub(&memory->users, 1) > 1)
        return;
    if (memory->device)
        library.free(memory->device, memory->at);
    else
        RELEASE(memory->at);
    free(memory);
}

struct memory *memory_again(struct memory *memory, ecornn_device *device, size_t bytes)
{
    if (memory && memory->device == device && memory->bytes >= bytes &&
        atomic_load(&memory->users) == 1)
        return memory;
    memory_drop(memory);
    return memory_new(device, bytes);
}

/* ---- of a thread ----------------------------------------------------------------------------- */

struct room {
    struct room *next;
    ecornn_device *device;
    void *stream;
    enum lent_use use;
    struct memory *memory; /* NULL: none */
};
static pthread_key_t rooms_key;

static void rooms_end(void *own)
{
    for (struct room *room = own, *next; room; room = next) {
        next = room->next;
        memory_drop(room->memory);
        free(room);
    }
}

bool lent_begin(void)
{
    return pthread_key_create(&rooms_key, rooms_end) == 0;
}

static struct room *room_of(ecornn_device *device, void *stream, enum lent_use use)
{
    struct room *const first = pthread_getspecific(rooms_key), *room = first;
    while (room && (room->use != use || room->device != device || room->stream != stream))
        room = room->next;
    if (room)
        return room;
    room = calloc(1, sizeof *room);
    if (!room)
        return NULL;
    *room = (struct room){.next = first, .device = device, .stream = stream, .use = use};
    if (pthread_setspecific(rooms_key, room) == 0)
        return room;
    free(room);
    return NULL;
}

struct memory *lend(ecornn_device *device, void *stream, enum lent_use use, size_t bytes)
{
    struct room *const room = bytes <= MOST_KEPT ? room_of(device, stream, use) : NULL;
    if (!room)
        return memory_new(device, bytes);
    room->memory = memory_again(room->memory, device, bytes);
    return memory_hold(room->memory);
}
