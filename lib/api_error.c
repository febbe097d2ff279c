/*
 * Names of statuses, the thread's error detail and the version text.  The text of a failure is
 * written where the failure is detected; this file only returns it.  Also the check of where a text
 * goes.
 */
#include "ecornn.h"

#include "common/backend.h"
#include "common/caller.h"
#include "common/util.h"
#include "lib/check.h"

const char *ecornn_status_name(ecornn_status status)
{
    static const char *const name[] = {
        [ECORNN_OK] = "ok",
        [ECORNN_BAD_ARGUMENT] = "bad argument",
        [ECORNN_BAD_CELL] = "bad cell",
        [ECORNN_NO_MEMORY] = "no memory",
        [ECORNN_NO_DEVICE] = "no device",
        [ECORNN_UNSUPPORTED] = "unsupported",
        [ECORNN_FAILED] = "failed",
    };
    const unsigned index = (unsigned)status;
    return index < sizeof name / sizeof *name ? name[index] : "unknown status";
}

const char *ecornn_error_detail(void)
{
    return eco_fail_detail();
}

/* Found on a thread's first call by opening a CPU, since only the backend knows it. */
const char *ecornn_version(void)
{
    static _Thread_local char version[64];
    if (version[0])
        return version;
    struct ecornn_device device = {.backend = &eco_backend_cpu};
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const bool opened = device.backend->open(&device, 1) == ECORNN_OK;
    if (opened)
        device.backend->close(&device);
    eco_caller_end(&caller);
    if (!opened)
        return ECORNN_VERSION_STRING;
    struct eco_text text = {.data = version, .size = sizeof version};
    eco_text_add(&text, "%s %s:%s", ECORNN_VERSION_STRING, device.backend->name,
                 device.info.variant);
    return version;
}

bool eco_check_text(const char *text, size_t size)
{
    if (text || size == 0)
        return true;
    eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
    return false;
}
