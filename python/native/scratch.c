/*
 * Memory for one call.  A CPU thread keeps its own, because fresh pages cost more than a small
 * layer; on a GPU, and for large blocks, it is torch's.
 */
#include "python/native/scratch.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_KEPT = 64 << 20, PAGE = 4096 }; /* bytes */

struct room {
    char *memory;
    size_t bytes;
};
static pthread_key_t rooms_key;

static void rooms_end(void *own)
{
    struct room *const rooms = own;
    for (int i = 0; i < SCRATCH_USES; i++)
        free(rooms[i].memory);
    free(rooms);
}

bool scratch_begin(void)
{
    return pthread_key_create(&rooms_key, rooms_end) == 0;
}

static char *room_of(enum scratch_use use, size_t bytes)
{
    struct room *rooms = pthread_getspecific(rooms_key);
    if (!rooms) {
        rooms = calloc(SCRATCH_USES, sizeof *rooms);
        if (!rooms || pthread_setspecific(rooms_key, rooms) != 0) {
            free(rooms);
            return NULL;
        }
    }
    struct room *const room = &rooms[use];
    if (room->bytes < bytes) {
        free(room->memory);
        room->bytes = (bytes + PAGE - 1) / PAGE * PAGE;
        room->memory = aligned_alloc(PAGE, room->bytes);
        if (!room->memory)
            room->bytes = 0;
    }
    return room->memory;
}

void *scratch(const struct job *job, enum scratch_use use, int64_t bytes, torch_tensor **tensor)
{
    *tensor = NULL;
    if (!job->cuda && bytes <= MOST_KEPT)
        return room_of(use, (size_t)(bytes > 0 ? bytes : 1));
    *tensor = make_bytes(job, bytes);
    return data_of(*tensor);
}
