/*
 * Memory of devices that compute on the host, see host.h.
 */
#include "common/host.h"

#include <string.h>

#include "common/util.h"

void *eco_host_alloc(struct ecornn_device *device, size_t bytes)
{
    (void)device;
    return eco_alloc(bytes);
}

void eco_host_free(struct ecornn_device *device, void *memory)
{
    (void)device;
    eco_free(memory);
}

ecornn_status eco_host_copy(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                            bool to_device)
{
    (void)device;
    (void)to_device;
    memcpy(to, from, bytes);
    return ECORNN_OK;
}

/* Twice as many at a time. */
static void set_elements(const struct eco_fill *fill)
{
    char *to = fill->to;
    eco_type_set(to, 0, fill->type, fill->value);
    for (size_t done = eco_type_bytes(fill->type); done < fill->bytes; done *= 2)
        memcpy(to + done, to, done < fill->bytes - done ? done : fill->bytes - done);
}

ecornn_status eco_host_fill(struct ecornn_device *device, const struct eco_fill *fills, int count,
                            void *stream)
{
    (void)device;
    (void)stream;
    for (int k = 0; k < count; k++)
        if (fills[k].from != NULL)
            memcpy(fills[k].to, fills[k].from, fills[k].bytes);
        else if (fills[k].value != 0)
            set_elements(&fills[k]);
        else
            memset(fills[k].to, 0, fills[k].bytes);
    return ECORNN_OK;
}

static void add_row(char *to, const char *from, const struct eco_rows_move *rows)
{
    for (size_t j = 0; j < rows->width; j++)
        eco_type_set(to, j, rows->type,
                     eco_type_get(to, j, rows->type) + eco_type_get(from, j, rows->type));
}

ecornn_status eco_host_move_rows(struct ecornn_device *device, const struct eco_rows_move *rows,
                                 void *stream)
{
    const size_t bytes = eco_type_bytes(rows->type);
    (void)device;
    (void)stream;
    for (size_t r = 0; r < rows->rows; r++) {
        char *to = (char *)rows->to + r * rows->to_row * bytes;
        const char *from = (const char *)rows->from + r * rows->from_row * bytes;
        if (rows->from == NULL)
            memset(to, 0, rows->width * bytes);
        else if (rows->add)
            add_row(to, from, rows);
        else
            memcpy(to, from, rows->width * bytes);
    }
    return ECORNN_OK;
}

void eco_host_together(struct ecornn_device *device, void (*work)(void *own, int id, int count),
                       void *own)
{
    (void)device;
    work(own, 0, 1);
}

ecornn_status eco_host_wait(struct ecornn_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return ECORNN_OK;
}
