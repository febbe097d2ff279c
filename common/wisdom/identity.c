/* The identity of a device: a text of all properties of device and library on which times depend.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>
#include <string.h>

#include "common/backend.h"
#include "common/choice.h"
#include "common/util.h"

void eco_device_identify(struct ecornn_device *device)
{
    const ecornn_device_info *info = &device->info;
    struct eco_text words = {device->identity, sizeof device->identity, 0};
    eco_text_add(&words, "%s %s threads=%d", device->backend->name, info->variant, info->threads);
    if (device->backend->identity != NULL)
        device->backend->identity(device, &words);
    eco_text_add(&words, " version=%s choices=%016" PRIx64 " name=", ECORNN_VERSION_STRING,
                 eco_choices_hash(device->backend));
    eco_text_add_escaped(&words, info->name);
    device->id = eco_hash(ECO_HASH, device->identity, strlen(device->identity));
}

bool eco_identity_of_this_version(const char *words)
{
    return strstr(words, " version=" ECORNN_VERSION_STRING " ") != NULL;
}

void eco_identity_difference(struct eco_text *text, const char *other, const char *here)
{
    while (*other != '\0' && *here != '\0') {
        const bool last = strncmp(other, "name=", 5) == 0;
        const size_t n = last ? strlen(other) : strcspn(other, " "),
                     m = last ? strlen(here) : strcspn(here, " ");
        if (n != m || strncmp(other, here, n) != 0) {
            eco_text_add(text, "%.*s, here %.*s", (int)n, other, (int)m, here);
            return;
        }
        other += n + (other[n] == ' ');
        here += m + (here[m] == ' ');
    }
    eco_text_add(text, "other words");
}
