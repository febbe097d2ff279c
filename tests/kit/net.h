/*
 * A small net with all its buffers, for tests of public functions that need a net to run. It does
 * not know which results are right.  Included by programs that use Check.
 */
#ifndef ECO_TESTS_NET_H
#define ECO_TESTS_NET_H

#include "tests/kit/status.h"

/* Large enough for two threads of a CPU in every step, small enough for the reference. */
#define NET_PROBLEM "lstm/f32/train/L2/bi/T5/N3/I4/H110"
enum { T = 5, N = 3, I = 4, H = 110, L = 2, D = 2 };
enum { X = T * N * I, Y = T * N * D * H, STATE = L * D * N * H };
enum { PARAMS = 48 }; /* parameters: W, R and b of 4 gates, in 2 directions of 2 layers */

struct net {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    void *weights;
};

/* The arrays of one run; y, final, dx, dinitial and dweights are its results. */
struct buffers {
    float x[X], dy[Y];
    float y[Y], final[2][STATE], dx[X], dinitial[2][STATE];
    void *workspace, *reserve, *dweights;
    ecornn_io io;
    ecornn_gradient gradient;
};

/* The devices that tests loop over. */
enum { NET_DEVICES = 3 };
extern const char *const net_device[NET_DEVICES];

/* problem must have the shapes above. Every device gets the same random weights. */
void net_open(struct net *net, const char *device, const char *problem);
void net_close(struct net *net);
struct buffers *buffers_open(const struct net *net);
void buffers_close(const struct net *net, struct buffers *b);
/* Forward and backward. */
void net_train(const struct net *net, struct buffers *b);

#endif /* ECO_TESTS_NET_H */
