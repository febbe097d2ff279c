/*
 * The safetensors reader of examples/charlm against images of files that are cut, wrong or hostile.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/charlm/safetensors.h"
#include "tests/kit/suite.h"

/* A file in memory: length, header, so many bytes of data. */
struct image {
    unsigned char *bytes;
    size_t size;
};

static struct image image_of(const char *header, size_t data_bytes)
{
    const size_t length = strlen(header);
    struct image image = {calloc(8 + length + data_bytes, 1), 8 + length + data_bytes};
    ck_assert_ptr_nonnull(image.bytes);
    for (int k = 0; k < 8; k++)
        image.bytes[k] = (unsigned char)((uint64_t)length >> (8 * k));
    memcpy(image.bytes + 8, header, length);
    return image;
}

/* Expects a failure that says `word`, or success where word is NULL. */
static void parse(const char *header, size_t data_bytes, const char *word)
{
    struct image image = image_of(header, data_bytes);
    struct safetensors file;
    struct complaint why = {{0}};
    const bool good = safetensors_parse(&file, image.bytes, image.size, &why);
    if (good == (word != NULL) || (word && !strstr(why.text, word)))
        ck_abort_msg("%.100s: %s, expected '%s'", header, good ? "read" : why.text,
                     word ? word : "success");
    if (!good)
        ck_assert_ptr_null(file.tensors);
    safetensors_free(&file);
    free(image.bytes);
}

#define TENSOR(name, shape, begin, end)                                                            \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

START_TEST(good_files)
{
    parse("{}", 0, NULL);
    parse("{}   ", 0, NULL);
    parse("{\"__metadata__\":{}}", 0, NULL);
    parse("{" TENSOR("a", "[2,3]", 0, 24) "}", 24, NULL);
    parse("{" TENSOR("a", "[]", 0, 4) "}", 4, NULL);
    parse("{" TENSOR("b", "[2]", 8, 16) " , \n" TENSOR("a", "[2]", 0, 8) "}", 16, NULL);
    parse("{" TENSOR("a", "[0]", 0, 0) "," TENSOR("b", "[1]", 0, 4) "}", 4, NULL);
    parse("{" TENSOR("a", "[0,9223372036854775807]", 0, 0) "}", 0, NULL);
    parse("{" TENSOR("\\u00e9\\ud83d\\ude00\\\"", "[1]", 0, 4) "}", 4, NULL);
    parse("{\"__metadata__\":{\"a\":\"1\",\"b\":\"line\\n\"}," TENSOR("a", "[1]", 0, 4) "}", 4,
          NULL);
    parse("{\"a\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":\"F32\"}}", 4, NULL);
}
END_TEST

START_TEST(bad_offsets)
{
    parse("{" TENSOR("a", "[2]", 0, 8) "}", 4, "the data has 4");
    parse("{" TENSOR("a", "[1]", 8, 4) "}", 8, "bytes 8 to 4");
    parse("{" TENSOR("a", "[1]", 0, 4) "}", 8, "the tensors end at 4");
    parse("{" TENSOR("a", "[1]", 4, 8) "}", 8, "hole from byte 0");
    parse("{" TENSOR("a", "[2]", 0, 8) "," TENSOR("b", "[2]", 4, 12) "}", 12,
          "'b' begins at byte 4");
    parse("{" TENSOR("a", "[2]", 0, 8) "," TENSOR("b", "[2]", 0, 8) "}", 8, "inside");
    parse("{" TENSOR("a", "[1]", 0, 4) "," TENSOR("b", "[1]", 8, 12) "}", 12, "hole from byte 4");
    parse("{" TENSOR("a", "[3]", 0, 8) "}", 8, "its shape says 12");
    parse("{" TENSOR("a", "[1]", -4, 4) "}", 8, "found '-', expected a whole number");
    parse("{" TENSOR("a", "[1]", 0, 4.0) "}", 4, "found '.'");
    parse("{" TENSOR("a", "[1]", 0, 4e0) "}", 4, "found 'e'");
    parse("{" TENSOR("a", "[1]", 00, 4) "}", 4, "begins with 0");
    parse("{" TENSOR("a", "[1]", 0, 18446744073709551620) "}", 4,
          "larger than 9223372036854775807");
    parse("{" TENSOR("a", "[1]", 0, 99999999999999999999999999999) "}", 4, "larger than");
    parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8, "found ','");
    parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 8, "found ']'");
    parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":\"0\"}}", 8, "expected '['");
}
END_TEST

START_TEST(bad_shapes)
{
    parse("{" TENSOR("a", "[4611686018427387904,4]", 0, 4) "}", 4, "too many elements");
    parse("{" TENSOR("a", "[4294967296,4294967296]", 0, 4) "}", 4, "too many elements");
    parse("{" TENSOR("a", "[-1]", 0, 4) "}", 4, "expected a whole number");
    parse("{" TENSOR("a", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "more than 8 dimensions");
    parse("{" TENSOR("a", "[1,]", 0, 4) "}", 4, "found ']'");
    parse("{" TENSOR("a", "[[1]]", 0, 4) "}", 4, "found '['");
    parse("{" TENSOR("a", "{}", 0, 4) "}", 4, "found '{'");
    parse("{" TENSOR("a", "null", 0, 4) "}", 4, "found 'n'");
}
END_TEST

START_TEST(bad_entries)
{
    parse("{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "dtype 'F16'");
    parse("{\"a\":{\"dtype\":\"\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "dtype ''");
    parse("{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "expected a string");
    parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets");
    parse("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype");
    parse("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape");
    parse("{\"a\":{}}", 0, "expected a string");
    parse("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 4, "a second key 'dtype'");
    parse("{\"a\":{\"size\":[1]}}", 4, "unknown key 'size'");
    parse("{" TENSOR("a", "[1]", 0, 4) "," TENSOR("a", "[1]", 4, 8) "}", 8, "second tensor 'a'");
    parse("{" TENSOR("a", "[1]", 0, 4) "," TENSOR("\\u0061", "[1]", 4, 8) "}", 8,
          "second tensor 'a'");
    parse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "second __metadata__");
    parse("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "second key 'k'");
    parse("{\"__metadata__\":{\"k\":1}}", 0, "found '1', expected a string");
    parse("{\"__metadata__\":{\"k\":{\"k\":\"1\"}}}", 0, "found '{', expected a string");
    parse("{\"__metadata__\":[]}", 0, "found '['");
}
END_TEST

START_TEST(bad_json)
{
    parse("", 0, "found the end");
    parse("[]", 0, "expected '{'");
    parse("{", 0, "found the end");
    parse("{\"a", 0, "the end of the string");
    parse("{\"a\":", 0, "found the end");
    parse("{} x", 0, "expected nothing more");
    parse("{}{}", 0, "expected nothing more");
    parse("{\"\\x\":1}", 0, "expected an escape");
    parse("{\"\\", 0, "expected an escape");
    parse("{\"\\u12", 0, "hexadecimal");
    parse("{\"\\u0000\":1}", 0, "no zero");
    parse("{\"\\ud800\":1}", 0, "surrogate");
    parse("{\"\\udc00\":1}", 0, "surrogate");
    parse("{\"\\ud800\\u0041\":1}", 0, "surrogate");
    parse("{\"\x01\":1}", 0, "byte 0x01");
    parse("{\"\xff\":1}", 0, "UTF-8");
    parse("{\"\xc0\xaf\":1}", 0, "UTF-8");
    parse("{\"\xe0\x80\x80\":1}", 0, "UTF-8");
    parse("{\"\xed\xa0\x80\":1}", 0, "UTF-8");
    parse("{\"\xf4\x90\x80\x80\":1}", 0, "UTF-8");
    parse("{\"\xe2\x82", 0, "byte 0xe2, expected text in UTF-8");
    parse("{a:1}", 0, "found 'a', expected a string");
    parse("{'a':1}", 0, "expected a string");
    parse("{" TENSOR("a", "[1]", 0, 4) ",}", 4, "expected a string");
}
END_TEST

/* What a terminal would act on is not repeated in the message. */
START_TEST(harmless_messages)
{
    struct image image = image_of("{\"\\u001b[2J\":{\"shape\":[],\"shape\":[]}}", 0);
    struct safetensors file;
    struct complaint why = {{0}};
    ck_assert(!safetensors_parse(&file, image.bytes, image.size, &why));
    ck_assert_ptr_null(strchr(why.text, 0x1b));
    ck_assert_ptr_nonnull(strstr(why.text, "?[2J"));
    free(image.bytes);
}
END_TEST

/* Nesting a million deep is refused at its second level; nothing recurses. */
START_TEST(deep_nesting)
{
    enum { DEEP = 1000000 };
    char *header = malloc(DEEP + 1);
    ck_assert_ptr_nonnull(header);
    const char *const openings[] = {"{\"a\":", "[", "{\"a\":["};
    const char *const words[] = {"unknown key 'a'", "found '['", "found '['"};
    for (size_t o = 0; o < sizeof openings / sizeof *openings; o++) {
        const size_t length = strlen(openings[o]);
        for (size_t k = 0; k < DEEP; k++)
            header[k] = openings[o][k % length];
        header[DEEP] = 0;
        parse(header, 0, words[o]);
    }
    free(header);
}
END_TEST

START_TEST(too_many)
{
    char *header = malloc(1 << 20), *at = header;
    ck_assert_ptr_nonnull(header);
    at += sprintf(at, "{");
    for (int k = 0; k <= TENSOR_COUNT_MAX; k++)
        at += sprintf(at, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
                      k ? "," : "", k);
    sprintf(at, "}");
    parse(header, 0, "more than 4096 tensors");
    at = header + sprintf(header, "{\"__metadata__\":{");
    for (int k = 0; k <= METADATA_COUNT_MAX; k++)
        at += sprintf(at, "%s\"k%d\":\"\"", k ? "," : "", k);
    sprintf(at, "}}");
    parse(header, 0, "more than 256 keys");
    at = header + sprintf(header, "{\"");
    memset(at, 'n', TENSOR_NAME_MAX + 1);
    sprintf(at + TENSOR_NAME_MAX + 1, "\":{}}");
    parse(header, 0, "longer than 255 bytes");
    at = header + sprintf(header, "{\"__metadata__\":{\"k\":\"");
    memset(at, 'v', METADATA_VALUE_MAX + 1);
    sprintf(at + METADATA_VALUE_MAX + 1, "\"}}");
    parse(header, 0, "longer than 65536 bytes");
    free(header);
}
END_TEST

START_TEST(bad_lengths)
{
    struct image image = image_of("{}", 4);
    const uint64_t lengths[] = {7, 1 << 24, UINT32_MAX, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX};
    struct safetensors file;
    struct complaint why;
    for (size_t size = 0; size < 8; size++) {
        ck_assert(!safetensors_parse(&file, image.bytes, size, &why));
        ck_assert_ptr_nonnull(strstr(why.text, "at least 8"));
    }
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        for (int b = 0; b < 8; b++)
            image.bytes[b] = (unsigned char)(lengths[k] >> (8 * b));
        ck_assert(!safetensors_parse(&file, image.bytes, image.size, &why));
        ck_assert_ptr_nonnull(strstr(why.text, "must be at most 6"));
    }
    free(image.bytes);
}
END_TEST

/* Cut anywhere, a good file is refused: in a block of exactly its size, for the sanitizer. */
START_TEST(truncated)
{
    const char *header = "{\"__metadata__\":{\"step\":\"12\"}," TENSOR(
        "a", "[2,1]", 0, 8) "," TENSOR("\\u20ac", "[]", 8, 12) "}";
    struct image image = image_of(header, 12);
    for (size_t size = 0; size < image.size; size++) {
        struct safetensors file;
        struct complaint why = {{0}};
        unsigned char *cut = malloc(size ? size : 1);
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, image.bytes, size);
        ck_assert(!safetensors_parse(&file, cut, size, &why));
        ck_assert_uint_gt(strlen(why.text), 0);
        free(cut);
    }
    free(image.bytes);
}
END_TEST

/* One byte changed: whatever comes of it, nothing out of bounds. */
START_TEST(mutated)
{
    const char *header = "{\"__metadata__\":{\"step\":\"12\"}," TENSOR("a", "[2,1]", 0, 8) "}";
    struct image image = image_of(header, 8);
    for (size_t at = 0; at < image.size; at++) {
        const unsigned char kept = image.bytes[at];
        for (int value = 0; value < 256; value++) {
            struct safetensors file;
            struct complaint why;
            float elements[2];
            image.bytes[at] = (unsigned char)value;
            if (safetensors_parse(&file, image.bytes, image.size, &why) && file.tensor_count &&
                file.tensors[0].end - file.tensors[0].begin == sizeof elements)
                safetensors_copy(&file, &file.tensors[0], elements);
            safetensors_free(&file);
        }
        image.bytes[at] = kept;
    }
    free(image.bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *memory = tcase_create("memory");
    const TTest *const in_memory[] = {good_files,        bad_offsets,  bad_shapes, bad_entries,
                                      bad_json,          deep_nesting, too_many,   bad_lengths,
                                      harmless_messages, truncated,    mutated};
    for (size_t k = 0; k < sizeof in_memory / sizeof *in_memory; k++)
        tcase_add_test(memory, in_memory[k]);
    suite_add_tcase(suite, memory);
    return suite_run(suite, true);
}
