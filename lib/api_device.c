/*
 * Devices: the list of backends, device names, and memory that a device can use.  Of a backend it
 * knows only its eco_backend and what may follow the colon in a name.
 */
#include "ecornn.h"

#include "common/backend.h"
#include "common/caller.h"
#include "common/util.h"
#include "lib/check.h"

#include <ctype.h>
#include <stdatomic.h>
#include <string.h>

/* In order of preference for a NULL name. */
static const struct {
    const struct eco_backend *backend;
    const char *argument; /* meaning of the number after the colon; NULL: not allowed */
    int argument_min, argument_max;
} backends[] = {
    {&eco_backend_cuda, "device", 0, 255},
    {&eco_backend_cpu, "threads", 1, 1024},
    {&eco_backend_reference, NULL, 0, 0},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

static int find_backend(const char *text, size_t length)
{
    for (int k = 0; k < BACKENDS; k++)
        if (strlen(backends[k].backend->name) == length &&
            memcmp(backends[k].backend->name, text, length) == 0)
            return k;
    return -1;
}

/* The digits of text as a number, limited to INT32_MAX; -1 if there are other characters. */
static int parse_number(const char *text)
{
    int64_t value = 0;
    if (!*text)
        return -1;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return -1;
        value = value * 10 + (*text - '0');
        if (value > INT32_MAX)
            value = INT32_MAX;
    }
    return (int)value;
}

/* Parses "cpu:8" to an index in the list and 8, or -1 without a colon. */
static ecornn_status parse_name(const char *name, int *index, int *argument)
{
    const size_t length = strcspn(name, ":");
    for (size_t k = 0; k < length; k++)
        if (!isalnum((unsigned char)name[k]))
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "device name is '%.40s', must be cpu, cpu:K, cuda, cuda:K or "
                            "reference",
                            name);
    if (length == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "device name is '%.40s', must begin with cpu, cuda or reference", name);
    *index = find_backend(name, length);
    if (*index < 0)
        return eco_fail(ECORNN_NO_DEVICE,
                        "device '%.40s' is unknown, must be cpu, cpu:K, cuda, cuda:K or "
                        "reference",
                        name);
    *argument = -1;
    if (!name[length])
        return ECORNN_OK;
    if (!backends[*index].argument)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device name is '%.40s', but %s takes no number", name,
                        backends[*index].backend->name);
    const int low = backends[*index].argument_min, high = backends[*index].argument_max;
    const int number = parse_number(name + length + 1);
    if (number < low || number > high)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s in device name '%.40s' must be a number, %d to %d",
                        backends[*index].argument, name, low, high);
    *argument = number;
    return ECORNN_OK;
}

static ecornn_status open_device(ecornn_device **device, int index, int argument)
{
    const struct eco_backend *backend = backends[index].backend;
    struct ecornn_device *opened = eco_alloc_zeroed(sizeof *opened);
    if (!opened)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a device", sizeof *opened);
    opened->backend = backend;
    opened->holders = 1;
    const ecornn_status status = backend->open(opened, argument);
    if (status != ECORNN_OK) {
        eco_free(opened);
        return status;
    }
    struct eco_text name = {.data = opened->info.backend, .size = sizeof opened->info.backend};
    eco_text_add(&name, "%s", backend->name);
    eco_device_identify(opened);
    *device = opened;
    return ECORNN_OK;
}

/* Opens the first backend of the list that has a device.  If that fails, it is an error: falling
 * back to a slower one would go unnoticed. */
static ecornn_status open_fastest(ecornn_device **device)
{
    ecornn_status status = ECORNN_NO_DEVICE;
    for (int index = 0; index < BACKENDS && status == ECORNN_NO_DEVICE; index++)
        if (backends[index].backend->count() > 0)
            status = open_device(device, index, -1);
    return status;
}

ecornn_status ecornn_device_open(ecornn_device **device, const char *name)
{
    if (!device)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is NULL");
    int index = 0, argument = -1;
    ecornn_status status = name ? parse_name(name, &index, &argument) : ECORNN_OK;
    if (status != ECORNN_OK)
        return status;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    status = name ? open_device(device, index, argument) : open_fastest(device);
    eco_caller_end(&caller);
    return status;
}

/* The program's hold ends when it closes the device, that of a plan or of memory when it is freed.
 */
void eco_device_hold(ecornn_device *device)
{
    atomic_fetch_add(&device->holders, 1);
}

void eco_device_release(ecornn_device *device)
{
    if (atomic_fetch_sub(&device->holders, 1) != 1)
        return;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    device->backend->close(device);
    eco_free(device);
    eco_caller_end(&caller);
}

ecornn_status eco_check_device(const ecornn_device *device)
{
    if (!device)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is NULL");
    return !device->closed
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT,
                          "device %s is closed: only its plans and memory may still be used",
                          device->backend->name);
}

void ecornn_device_close(ecornn_device *device)
{
    if (!device || eco_check_device(device) != ECORNN_OK)
        return;
    device->closed = true;
    eco_device_release(device);
}

ecornn_status ecornn_device_count(const char *backend, int *count)
{
    if (!backend || !count)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", backend ? "count" : "backend");
    const int index = find_backend(backend, strlen(backend));
    if (index < 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "backend is '%.40s', must be cpu, cuda or reference",
                        backend);
    struct eco_caller caller;
    eco_caller_begin(&caller);
    *count = backends[index].backend->count();
    eco_caller_end(&caller);
    return ECORNN_OK;
}

ecornn_status ecornn_device_query(const ecornn_device *device, ecornn_device_info *info)
{
    const ecornn_status status = eco_check_device(device);
    if (status != ECORNN_OK)
        return status;
    ecornn_device_info found = device->info;
    struct eco_text algorithms = {found.algorithms, sizeof found.algorithms, 0};
    if (device->backend->threads)
        found.threads = device->backend->threads(device);
    for (int k = 0; device->backend->algos[k]; k++)
        eco_text_add(&algorithms, "%s%s", k > 0 ? " " : "", device->backend->algos[k]->name);
    return eco_give("info", info, &found, sizeof found);
}

void *ecornn_alloc(ecornn_device *device, size_t bytes)
{
    if (eco_check_device(device) != ECORNN_OK || bytes == 0)
        return NULL;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    void *memory = device->backend->alloc(device, bytes);
    eco_caller_end(&caller);
    if (memory)
        eco_device_hold(device);
    else
        eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes", bytes);
    return memory;
}

void ecornn_free(ecornn_device *device, void *memory)
{
    if (!device || !memory)
        return;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    device->backend->free(device, memory);
    eco_caller_end(&caller);
    eco_device_release(device);
}

static ecornn_status copy(ecornn_device *device, void *to, const void *from, size_t bytes,
                          bool to_device)
{
    const ecornn_status checked = eco_check_device(device);
    if (checked != ECORNN_OK || bytes == 0)
        return checked;
    if (!to)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL, must have %zu bytes",
                        to_device ? "to" : "to_host", bytes);
    if (!from)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL, must have %zu bytes",
                        to_device ? "from_host" : "from", bytes);
    if (bytes > PTRDIFF_MAX)
        return eco_fail(ECORNN_BAD_ARGUMENT, "bytes is %zu, but no memory has more than %td", bytes,
                        PTRDIFF_MAX);
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const ecornn_status status = device->backend->copy(device, to, from, bytes, to_device);
    eco_caller_end(&caller);
    return status;
}

ecornn_status ecornn_upload(ecornn_device *device, void *to, const void *from_host, size_t bytes)
{
    return copy(device, to, from_host, bytes, true);
}

ecornn_status ecornn_download(ecornn_device *device, void *to_host, const void *from, size_t bytes)
{
    return copy(device, to_host, from, bytes, false);
}

ecornn_status ecornn_wait(ecornn_device *device, void *stream)
{
    const ecornn_status checked = eco_check_device(device);
    if (checked != ECORNN_OK)
        return checked;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const ecornn_status status = device->backend->wait(device, stream);
    eco_caller_end(&caller);
    return status;
}
