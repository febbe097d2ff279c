/*
 * JSON, written as it comes: objects, arrays and values, with commas where they belong.
 */
#ifndef ECORNN_JSON_H
#define ECORNN_JSON_H

#include <stdbool.h>

enum { JSON_DEPTH = 8 };
struct json {
    int depth;
    bool array[JSON_DEPTH],
        more[JSON_DEPTH]; /* for each level: is it an array? does it have a value already? */
};

/* key is NULL in an array and for the outermost value. */
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
/* Ends an object or an array; after the outermost, ends the line. */
void json_end(struct json *json);
/* NULL is written as null. */
void json_text(struct json *json, const char *key, const char *value);
/* A number that is not finite is written as null. */
void json_number(struct json *json, const char *key, double value);
void json_whole(struct json *json, const char *key, long long value);
void json_truth(struct json *json, const char *key, bool value);
/* The lines of a text as an array. */
void json_lines(struct json *json, const char *key, const char *text);

#endif /* ECORNN_JSON_H */
