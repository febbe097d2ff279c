/*
 * Wisdom: the public functions.  Reading and writing are wisdom_files.c's, the store is common's.
 */
#include "ecornn.h"

#include <limits.h>
#include <string.h>

#include "common/fp.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"
#include "lib/wisdom_files.h"

/* What the process would have read by itself comes before what it asks for. */
ecornn_status ecornn_wisdom_load(const char *path)
{
    fenv_t caller;
    eco_fp_default(&caller);
    eco_wisdom_open();
    const ecornn_status status = eco_wisdom_load(path);
    eco_fp_restore(&caller);
    return status;
}

ecornn_status ecornn_wisdom_save(const char *path)
{
    eco_wisdom_open();
    return eco_wisdom_save(path);
}

void ecornn_wisdom_forget(void)
{
    eco_wisdom_begin_anew();
}

ecornn_status ecornn_wisdom_from_text(const char *text)
{
    if (!text)
        return eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL");
    fenv_t caller;
    eco_fp_default(&caller);
    eco_wisdom_open();
    const ecornn_status status = eco_wisdom_add(text, strlen(text), "text");
    eco_fp_restore(&caller);
    return status;
}

int ecornn_wisdom_to_text(char *text, size_t size)
{
    if (!text && size > 0) {
        eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
        return -1;
    }
    eco_wisdom_open();
    const size_t length = eco_wisdom_print(text, size);
    return length > INT_MAX ? INT_MAX : (int)length;
}
