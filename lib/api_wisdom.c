/*
 * Public functions of wisdom.  common/wisdom reads and writes files, and has the store.
 */
#include "ecornn.h"

#include <limits.h>
#include <string.h>

#include "common/caller.h"
#include "common/util.h"
#include "common/wisdom/files.h"
#include "common/wisdom/wisdom.h"

/* The files that a process reads automatically come before the ones it loads. */
ecornn_status ecornn_wisdom_load(const char *path)
{
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_open();
    const ecornn_status status = eco_wisdom_load(path);
    eco_caller_end(&caller);
    return status;
}

ecornn_status ecornn_wisdom_save(const char *path)
{
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_open();
    const ecornn_status status = eco_wisdom_save(path);
    eco_caller_end(&caller);
    return status;
}

void ecornn_wisdom_forget(void)
{
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_reset();
    eco_caller_end(&caller);
}

ecornn_status ecornn_wisdom_from_text(const char *text)
{
    if (!text)
        return eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL");
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_open();
    const ecornn_status status = eco_wisdom_add(text, strlen(text), "text");
    eco_caller_end(&caller);
    return status;
}

int ecornn_wisdom_to_text(char *text, size_t size)
{
    if (!text && size > 0) {
        eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
        return -1;
    }
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_wisdom_open();
    const size_t length = eco_wisdom_print(text, size);
    eco_caller_end(&caller);
    return length > INT_MAX ? INT_MAX : (int)length;
}
