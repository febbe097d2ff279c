/*
 * The text of a net, split into pieces.  plan/net_text.c.
 */
#ifndef ECO_NET_TEXT_H
#define ECO_NET_TEXT_H

#include <stdint.h>

#include "ecornn.h"

enum { ECO_NET_TEXT = 4096, ECO_NET_PIECES = 64, ECO_NET_LAYERS = 64 };

/* A piece: a join, dropout, or parallel layers. */
struct eco_net_piece_text {
    int32_t join;      /* steps to join; 1: another piece */
    float dropout;     /* probability; 0: another piece */
    int first, layers; /* their numbers */
};

struct eco_net_text {
    char copy[ECO_NET_TEXT];   /* storage of the strings below */
    char common[ECO_NET_TEXT]; /* "/bf16/train/N32": common to all layers, without T and I */
    int32_t T, I;
    struct eco_net_piece_text piece[ECO_NET_PIECES];
    const char *layer[ECO_NET_LAYERS]; /* "lstm/H320" */
    int pieces, layers;
};

/* Splits a text; BAD_ARGUMENT if it is malformed.  The words of layers are not checked. */
ecornn_status eco_net_parse(struct eco_net_text *text, const char *net);

#endif /* ECO_NET_TEXT_H */
