/*
 * What a bug report needs about this library and machine: the backends' descriptions, and wisdom
 * files.
 */
#include "ecornn.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "common/backend.h"
#include "common/caller.h"
#include "common/util.h"
#include "common/wisdom/files.h"
#include "common/wisdom/wisdom.h"

static void add_wisdom(struct eco_text *text)
{
    char wrong[ECO_MAX_IDENTITY] = "";
    struct eco_text complaint = {wrong, sizeof wrong, 0};
    static const char *const name[ECO_WISDOM_FILES] = {"system", "user", "ECORNN_WISDOM"};
    for (int which = 0; which < ECO_WISDOM_FILES; which++) {
        char data[ECO_MOST_PATH], line[4 * ECO_MOST_PATH] = ""; /* "\xNN" */
        struct eco_text path = {data, sizeof data, 0}, shown = {line, sizeof line, 0};
        if (!eco_wisdom_path((enum eco_wisdom_file)which, &path))
            continue;
        eco_text_add_escaped(&shown, data);
        eco_text_add(text, "wisdom, %s: %s%s\n", name[which], line,
                     path.length >= path.size  ? "... (path too long)"
                     : access(data, R_OK) == 0 ? ""
                     : errno == ENOENT         ? " (missing)"
                                               : " (cannot be read)");
    }
    eco_wisdom_open();
    eco_wisdom_complaint(&complaint);
    if (wrong[0] != '\0')
        eco_text_add(text, "wisdom, not read: %s\n", wrong);
}

int ecornn_info(char *text, size_t size)
{
    static const struct eco_backend *const backends[] = {&eco_backend_cpu, &eco_backend_cuda};
    struct eco_text info = {text, size, 0};
    if (!text && size > 0) {
        eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL, must have %zu bytes", size);
        return -1;
    }
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_text_add(&info, "version: %s\n", ECORNN_VERSION_STRING);
#ifdef __VERSION__
    eco_text_add(&info, "compiler: %s\n", __VERSION__);
#endif
    for (size_t k = 0; k < sizeof backends / sizeof *backends; k++)
        if (backends[k]->about)
            backends[k]->about(&info);
    add_wisdom(&info);
    eco_caller_end(&caller);
    return info.length > INT_MAX ? INT_MAX : (int)info.length;
}
