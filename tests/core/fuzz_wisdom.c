/*
 * Reads hostile wisdom. The text follows the lines of two devices, which a fuzzer would not find by
 * chance. In it "@" stands for the number of the device of this version, and "&" for that of
 * another version. Wisdom that is accepted must be written, read again, and written alike.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "common/wisdom/wisdom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DIGITS = 16, MOST_WRITTEN = 1 << 20, DEVICES = 2 };
static const char marks[] = "@&";

/* The lines of the devices and their numbers, which are made once for all texts. */
static struct {
    char text[256], number[DEVICES][DIGITS + 1];
    size_t bytes;
} device;

static void describe_devices(void)
{
    static const char *const words[DEVICES] = {"cpu plain threads=1 version=" ECORNN_VERSION_STRING
                                               " name=a",
                                               "cpu plain threads=1 version=other name=a"};
    struct eco_text text = {device.text, sizeof device.text, 0};
    eco_text_add(&text, ECO_WISDOM_HEAD "\n");
    for (int k = 0; k < DEVICES; k++) {
        const uint64_t id = eco_hash(ECO_HASH, words[k], strlen(words[k]));
        struct eco_text number = {device.number[k], sizeof device.number[k], 0};
        eco_text_add(&text, "device %016" PRIx64 " %s\n", id, words[k]);
        eco_text_add(&number, "%016" PRIx64, id);
    }
    device.bytes = text.length;
}

/* The number that a byte stands for; NULL: the byte stands for itself. */
static const char *number_of(uint8_t byte)
{
    const char *mark = byte != '\0' ? strchr(marks, byte) : NULL;
    return mark != NULL ? device.number[mark - marks] : NULL;
}

/* Makes a text of exact size, so that sanitizers see reading past the end. NULL: no memory. */
static char *make_text(const uint8_t *data, size_t size, size_t *bytes)
{
    size_t numbers = 0;
    for (size_t k = 0; k < size; k++)
        numbers += number_of(data[k]) != NULL;
    *bytes = device.bytes + size + numbers * (DIGITS - 1);
    char *text = malloc(*bytes);
    if (text == NULL)
        return NULL;
    char *to = text + device.bytes;
    memcpy(text, device.text, device.bytes);
    for (size_t k = 0; k < size; k++) {
        const char *number = number_of(data[k]);
        if (number != NULL)
            to = (char *)memcpy(to, number, DIGITS) + DIGITS;
        else
            *to++ = (char)data[k];
    }
    return text;
}

/* The written text can be read, and is then written alike. */
static void check_written(const char *written, size_t bytes)
{
    static char again[MOST_WRITTEN];
    struct eco_text twice = {again, sizeof again, 0};
    struct eco_wisdom wisdom = {0};
    if (eco_wisdom_read(&wisdom, written, bytes, "again") != ECORNN_OK)
        abort();
    eco_text_add(&twice, ECO_WISDOM_HEAD "\n");
    eco_wisdom_write(&twice, &wisdom);
    eco_wisdom_free(&wisdom);
    if (strcmp(written, again) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char written[MOST_WRITTEN];
    struct eco_text once = {written, sizeof written, 0};
    struct eco_wisdom wisdom = {0};
    size_t bytes;
    if (device.bytes == 0)
        describe_devices();
    char *text = make_text(data, size, &bytes);
    if (text == NULL)
        return 0;
    if (eco_wisdom_read(&wisdom, text, bytes, "text") == ECORNN_OK) {
        eco_text_add(&once, ECO_WISDOM_HEAD "\n");
        eco_wisdom_write(&once, &wisdom);
        eco_wisdom_free(&wisdom);
        if (once.length < once.size)
            check_written(written, once.length);
    }
    free(text);
    return 0;
}
