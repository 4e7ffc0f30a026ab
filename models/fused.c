/* An ensemble in one pass; see fused.py.
 *
 * A block of rows goes through all layers before the next one begins, so that its activations stay in the cache, and
 * bias and activation are taken while a product is still at hand. Sums are float32; what a number is, and how it is
 * multiplied, stands in fused_float32.h and fused_bfloat16.h.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, COLUMNS = 32 }; /* of a vector of float32, and of a product: its sums are [PANEL, COLUMNS] */

/* Rows of activations, weights and biases are filled up with zeros to whole products. */
static int filled(int width) { return (width + COLUMNS - 1) / COLUMNS * COLUMNS; }

#ifdef BFLOAT16
#include "fused_bfloat16.h"
#else
#include "fused_float32.h"
#endif

static __mmask16 first(int count) { return count >= LANES ? 0xffff : (__mmask16)((1u << count) - 1); }

#include "fused_noise.h"

struct ensemble {
    int32_t inputs, latents, hidden, targets; /* numbers of each; hidden: layers */
    const int32_t *width;                     /* of the inputs with the latents, of each hidden layer, of the targets */
    const number *weights;                    /* one member after the other: hidden layers, locations, log-variances */
    const float *biases;                      /* likewise */
    int64_t weights_each, biases_each;        /* numbers of a member */
    const float *mean, *reciprocal;           /* of inputs and latents: what comes in is normalised with them */
    const float *highest, *highest_variance, *lowest_variance; /* bounds: of the log-variance, and their exponentials */
};

static void normalise(const float *x, const float *mean, const float *reciprocal, int count, number *out) {
    for (int i = 0; i < count; i += LANES) {
        __mmask16 here = first(count - i);
        __m512 centred = _mm512_sub_ps(_mm512_maskz_loadu_ps(here, x + i), _mm512_maskz_loadu_ps(here, mean + i));
        store_some(out + i, here, _mm512_mul_ps(centred, _mm512_maskz_loadu_ps(here, reciprocal + i)));
    }
}

static __m512 silu(__m512 x) { return _mm512_mul_ps(x, sigmoid(x)); }

static void hidden_layer(const number *x, int rows, int in, int out, const number *weight, const float *bias, number *y) {
    float sums[PANEL * COLUMNS] __attribute__((aligned(64)));
    for (int column = 0; column < out; column += COLUMNS)
        for (int row = 0; row < rows; row += PANEL) {
            multiply(x + row * filled(in), in, weight + column * depth(in), bias + column, out - column, sums);
            for (int i = 0; i < PANEL; i++) {
                const float *sum = sums + i * COLUMNS;
                store(y + (row + i) * filled(out) + column, silu(_mm512_load_ps(sum)), silu(_mm512_load_ps(sum + LANES)));
            }
        }
}

/* The standard deviation of log-variances within PETS's soft bounds: Ensemble._variance, and its root. */
static __m512 deviation(const struct ensemble *net, __m512 log_variance, int begin, __mmask16 here) {
    __m512 excess = _mm512_sub_ps(log_variance, _mm512_maskz_loadu_ps(here, net->highest + begin));
    __m512 highest = _mm512_maskz_loadu_ps(here, net->highest_variance + begin);
    __m512 lowest = _mm512_maskz_loadu_ps(here, net->lowest_variance + begin);
    return _mm512_sqrt_ps(_mm512_fmadd_ps(highest, sigmoid(excess), lowest));
}

/* Locations, or with bounds the standard deviations, of some rows: [rows, targets]. */
static void output(
    const struct ensemble *net, const number *x, int rows, const number *weight, const float *bias, int bounded, float *y
) {
    float sums[PANEL * COLUMNS] __attribute__((aligned(64)));
    int in = net->width[net->hidden], targets = net->targets;
    for (int column = 0; column < targets; column += COLUMNS)
        for (int row = 0; row < rows; row += PANEL) {
            multiply(x + row * filled(in), in, weight + column * depth(in), bias + column, targets - column, sums);
            for (int i = 0; i < PANEL && row + i < rows; i++)
                for (int begin = column; begin < targets && begin < column + COLUMNS; begin += LANES) {
                    __mmask16 here = first(targets - begin);
                    __m512 value = _mm512_load_ps(sums + i * COLUMNS + begin - column);
                    if (bounded) value = deviation(net, value, begin, here);
                    _mm512_mask_storeu_ps(y + (row + i) * targets + begin, here, value);
                }
        }
}

/* Locations and scales [rows, targets] of at most BLOCK rows of a member; x and y: memory for activations. */
static void block(
    const struct ensemble *net, const float *inputs, const float *latents, int rows, const number *weight,
    const float *bias, number *x, number *y, float *location, float *scale
) {
    int in = net->width[0], row_size = filled(in);
    memset(x, 0, BLOCK * row_size * sizeof(number));
    for (int i = 0; i < rows; i++) {
        number *row = x + i * row_size;
        normalise(inputs + i * net->inputs, net->mean, net->reciprocal, net->inputs, row);
        normalise(latents + i * net->latents, net->mean + net->inputs, net->reciprocal + net->inputs, net->latents,
                  row + net->inputs);
    }
    for (int i = 0; i < net->hidden; i++) {
        int out = net->width[i + 1];
        hidden_layer(x, rows, in, out, weight, bias, y);
        number *taken = x;
        x = y;
        y = taken;
        weight += depth(in) * filled(out);
        bias += filled(out);
        in = out;
    }
    output(net, x, rows, weight, bias, 0, location);
    output(net, x, rows, weight + depth(in) * filled(net->targets), bias + filled(net->targets), 1, scale);
}

/* Blocks of rows, begin <= i < end, of all members' in turn, [M, rows, ...]: 0, or 1 where there is no memory. Without
 * a place for the scales, the locations become draws, with the noise of this seed. */
int forward(
    const struct ensemble *net, const float *inputs, const float *latents, float *location, float *scale, uint64_t seed,
    int64_t rows, int64_t begin, int64_t end
) {
    int widest = 0;
    for (int i = 0; i <= net->hidden; i++)
        if (filled(net->width[i]) > widest) widest = filled(net->width[i]);
    int64_t activations = BLOCK * widest * sizeof(number), scales = BLOCK * filled(net->targets) * sizeof(float);
    char *memory = aligned_alloc(64, 2 * activations + scales);
    if (!memory) return 1;
    int64_t blocks = (rows + BLOCK - 1) / BLOCK; /* of a member */
    prepare();
    for (int64_t i = begin; i < end; i++) {
        int64_t member = i / blocks, of_member = i % blocks * BLOCK, row = member * rows + of_member;
        int count = rows - of_member < BLOCK ? (int)(rows - of_member) : BLOCK;
        float *mean = location + row * net->targets;
        float *deviation = scale ? scale + row * net->targets : (float *)(memory + 2 * activations);
        block(net, inputs + row * net->inputs, latents + row * net->latents, count,
              net->weights + member * net->weights_each, net->biases + member * net->biases_each, (number *)memory,
              (number *)(memory + activations), mean, deviation);
        if (!scale) add_noise(mean, deviation, count * net->targets, seed, i);
    }
    finish();
    free(memory);
    return 0;
}

int rows_of_a_block(void) { return BLOCK; }
