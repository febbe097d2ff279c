/*
 * Splits the text of a net at ";" and "+".  plan/problem.c parses the words of a layer.
 */
#include "common/net_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/problem.h"
#include "common/util.h"

static const char blanks[] = " \t\r\n";

/* Removes blanks at both ends. */
static char *trim(char *text)
{
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

/* Cuts the text at a sign; *rest: what follows it, or NULL. */
static char *cut(char **rest, char sign)
{
    char *const text = *rest, *const end = strchr(text, sign);
    *rest = end == NULL ? NULL : end + 1;
    if (end != NULL)
        *end = '\0';
    return text;
}

/* A number of digits only, up to 2^24; -1: it is not. */
static int32_t parse_number(const char *digits)
{
    enum { MOST = 1 << 24 };
    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0' || strlen(digits) > 8)
        return -1;
    const long value = strtol(digits, NULL, 10);
    return value >= 1 && value <= MOST ? (int32_t)value : -1;
}

/* ---- the common part of all layers ----------------------------------------------------------- */

static ecornn_status take_number(int32_t *number, const char *part)
{
    if (*number != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" in a net: %c was %d before", part, part[0],
                        *number);
    *number = parse_number(part + 1);
    return *number > 0
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" in a net: must be 1 to 16777216", part);
}

static bool is_number_of(const char *part, char letter)
{
    return part[0] == letter && part[1] >= '0' && part[1] <= '9';
}

static ecornn_status parse_common(struct eco_net_text *text, char *piece)
{
    struct eco_text common = {text->common, sizeof text->common, 0};
    ecornn_status status = ECORNN_OK;
    for (char *rest = piece; status == ECORNN_OK && rest != NULL;) {
        const char *const part = cut(&rest, '/');
        if (is_number_of(part, 'T'))
            status = take_number(&text->T, part);
        else if (is_number_of(part, 'I'))
            status = take_number(&text->I, part);
        else
            eco_text_add(&common, "/%s", part);
    }
    if (status == ECORNN_OK && (text->T == 0 || text->I == 0))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "the first piece of a net has no %c: it must say what all layers have in "
                        "common, such as f32/train/T100/N32/I40",
                        text->T == 0 ? 'T' : 'I');
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static ecornn_status parse_layers(struct eco_net_text *text, struct eco_net_piece_text *piece,
                                  char *rest)
{
    *piece = (struct eco_net_piece_text){.join = 1, .first = text->layers};
    for (; rest != NULL; piece->layers++) {
        const char *const layer = trim(cut(&rest, '+'));
        if (layer[0] == '\0')
            return eco_fail(ECORNN_BAD_ARGUMENT, "layer %d of a net is empty", text->layers);
        if (text->layers == ECO_NET_LAYERS)
            return eco_fail(ECORNN_BAD_ARGUMENT, "a net has more than %d layers", ECO_NET_LAYERS);
        text->layer[text->layers++] = layer;
    }
    return ECORNN_OK;
}

static ecornn_status parse_join(struct eco_net_piece_text *piece, const char *steps)
{
    *piece = (struct eco_net_piece_text){.join = parse_number(steps)};
    return piece->join >= 2
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT,
                          "\"join:%s\" in a net: must be join:2 to join:16777216", steps);
}

static ecornn_status parse_dropout(struct eco_net_piece_text *piece, const char *p)
{
    *piece = (struct eco_net_piece_text){.join = 1};
    return eco_problem_parse_decimal(p, &piece->dropout) && piece->dropout > 0 && piece->dropout < 1
               ? ECORNN_OK
               : eco_fail(ECORNN_BAD_ARGUMENT,
                          "\"dropout:%s\" in a net: must be above 0 and below 1", p);
}

static ecornn_status parse_piece(struct eco_net_text *text, char *words)
{
    static const char join[] = "join:", dropout[] = "dropout:";
    if (text->pieces == ECO_NET_PIECES)
        return eco_fail(ECORNN_BAD_ARGUMENT, "a net has more than %d pieces", ECO_NET_PIECES);
    struct eco_net_piece_text *const piece = &text->piece[text->pieces++];
    if (strncmp(words, join, sizeof join - 1) == 0)
        return parse_join(piece, words + sizeof join - 1);
    if (strncmp(words, dropout, sizeof dropout - 1) == 0)
        return parse_dropout(piece, words + sizeof dropout - 1);
    return parse_layers(text, piece, words);
}

ecornn_status eco_net_parse(struct eco_net_text *text, const char *net)
{
    const size_t length = strlen(net);
    *text = (struct eco_net_text){.pieces = 0};
    if (length >= sizeof text->copy)
        return eco_fail(ECORNN_BAD_ARGUMENT, "the text of a net has %zu characters, at most %zu",
                        length, sizeof text->copy - 1);
    memcpy(text->copy, net, length + 1);
    char *rest = text->copy;
    ecornn_status status = parse_common(text, trim(cut(&rest, ';')));
    while (status == ECORNN_OK && rest != NULL)
        status = parse_piece(text, trim(cut(&rest, ';')));
    if (status == ECORNN_OK && text->layers == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "a net has no layers: \"%s\"", net);
    return status;
}
