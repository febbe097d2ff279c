/*
 * Memory functions of devices that compute on the host; see host.h.
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

/* Doubles what is set with each copy. */
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

static size_t place_of(const struct eco_join *join, int32_t t, int32_t n, int32_t T, int32_t width)
{
    const size_t row = join->batch_major ? (size_t)n * (size_t)T + (size_t)t
                                         : (size_t)t * (size_t)join->N + (size_t)n;
    return row * (size_t)width;
}

static void join_row(const struct eco_join *join, int32_t t, int32_t n)
{
    const size_t bytes = eco_type_bytes(join->type), width = (size_t)join->width * bytes;
    const int32_t u = t / join->steps;
    const bool there = t < (join->lengths ? join->lengths[n] : join->T);
    const size_t column = (size_t)join->at + (size_t)(t % join->steps) * (size_t)join->width,
                 wide_at = place_of(join, u, n, join->U, join->row) + column,
                 narrow_at = place_of(join, t, n, join->T, join->width);
    char *const to = (char *)(join->back ? join->narrow : join->wide) +
                     (join->back ? narrow_at : wide_at) * bytes;
    const char *const from = join->back ? join->wide : join->narrow;
    const size_t from_at = (join->back ? wide_at : narrow_at) * bytes;
    if (join->add)
        eco_type_add(to, join->type, from + from_at, join->type, (size_t)join->width);
    else if (there && from != NULL)
        memcpy(to, from + from_at, width);
    else
        memset(to, 0, width);
}

void eco_host_join_part(const struct eco_join *join, int id, int count)
{
    const int64_t N = join->N, steps = join->back ? join->T : join->U * join->steps,
                  rows = steps * N;
    for (int64_t r = rows * id / count; r < rows * (id + 1) / count; r++)
        join_row(join, (int32_t)(r / N), (int32_t)(r % N));
}

ecornn_status eco_host_join(struct ecornn_device *device, const struct eco_join *join, void *stream)
{
    (void)device;
    (void)stream;
    eco_host_join_part(join, 0, 1);
    return ECORNN_OK;
}

ecornn_status eco_host_join_lengths(struct ecornn_device *device, int32_t *to, const int32_t *from,
                                    int32_t N, int32_t steps, void *stream)
{
    (void)device;
    (void)stream;
    for (int32_t n = 0; n < N; n++)
        to[n] = eco_joined(from[n], steps);
    return ECORNN_OK;
}

void eco_host_run_on_threads(struct ecornn_device *device,
                             void (*work)(void *own, int id, int count), void *user_data)
{
    (void)device;
    work(user_data, 0, 1);
}

ecornn_status eco_host_wait(struct ecornn_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return ECORNN_OK;
}
