/* An ensemble in one pass, in bfloat16 on the matrix unit of a processor (Intel AMX); see fused.py.
 *
 * A block of rows goes through all layers before the next one begins, so that its activations stay in the cache.
 * Products are summed in float32, on top of the bias; the activation is computed in float32, and rounded once.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint16_t bf16;

enum { TILE = 16, PAIR = 32, BLOCK = 64 }; /* rows of a tile, of two, and of a block */

/* Widths are multiples of PAIR, filled up with zeros; weights of a layer [in, out] lie as [out / 16, in / 2, 16, 2]. */
struct ensemble {
    int32_t inputs, latents, hidden, targets; /* numbers of each; hidden: layers */
    const int32_t *width;                     /* of the inputs with the latents, of each hidden layer, of the targets */
    const bf16 *weights;                      /* one member after the other: hidden layers, locations, log-variances */
    const float *biases;                      /* likewise */
    int64_t weights_each, biases_each;        /* numbers of a member */
    const float *mean, *reciprocal;           /* of inputs and latents: what comes in is normalised with them */
    const float *highest, *highest_variance, *lowest_variance; /* bounds: of the log-variance, and their exponentials */
};

/* Linux gives a process the matrix unit's registers on request: 0 if it does. */
int request_tiles(void) {
    const int ask_for_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return (int)syscall(SYS_arch_prctl, ask_for_permission, tile_data);
}

static void configure_tiles(void) {
    struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.bytes[i] = 64;
        tiles.rows[i] = TILE;
    }
    _tile_loadconfig(&tiles);
}

/* 1 / (1 + exp(-x)), to 14 bits: bfloat16 has 8. */
static __m512 sigmoid(__m512 x) {
    __m512 power = _mm512_mul_ps(x, _mm512_set1_ps(-1.44269504f)); /* exp(-x) = 2^power */
    /* Of a NaN and a number these give the second: what is not a number stays so. */
    power = _mm512_max_ps(_mm512_set1_ps(-126.0f), _mm512_min_ps(_mm512_set1_ps(126.0f), power));
    __m512 whole = _mm512_roundscale_ps(power, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 rest = _mm512_sub_ps(power, whole); /* in [-1/2, 1/2], where Taylor's polynomial is good to 2^-14 */
    __m512 series = _mm512_set1_ps(0.00961813f);
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.05550411f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.24022651f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.69314718f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.0f));
    return _mm512_rcp14_ps(_mm512_add_ps(_mm512_scalef_ps(series, whole), _mm512_set1_ps(1.0f)));
}

static __m512 silu(__m512 x) { return _mm512_mul_ps(x, sigmoid(x)); }

static __mmask16 first(int count) { return count >= 16 ? 0xffff : (__mmask16)((1u << count) - 1); }

static void normalise(const float *x, const float *mean, const float *reciprocal, int count, bf16 *out) {
    for (int i = 0; i < count; i += 16) {
        __mmask16 here = first(count - i);
        __m512 centred = _mm512_sub_ps(_mm512_maskz_loadu_ps(here, x + i), _mm512_maskz_loadu_ps(here, mean + i));
        __m512 value = _mm512_mul_ps(centred, _mm512_maskz_loadu_ps(here, reciprocal + i));
        _mm256_mask_storeu_epi16(out + i, here, (__m256i)_mm512_cvtneps_pbh(value));
    }
}

/* bias + x weight for two tiles of rows and two of columns: sums[upper left, upper right, lower left, lower right]. */
static void multiply(const bf16 *x, int in, const bf16 *weight, const float *bias, float sums[4][TILE * TILE]) {
    const bf16 *left = weight, *right = weight + TILE * in;
    _tile_loadd(0, bias, 0); /* a stride of 0: every row of the tile is the bias */
    _tile_loadd(1, bias + TILE, 0);
    _tile_loadd(2, bias, 0);
    _tile_loadd(3, bias + TILE, 0);
    for (int k = 0; k < in; k += PAIR) {
        _tile_loadd(4, x + k, 2 * in);
        _tile_loadd(5, x + TILE * in + k, 2 * in);
        _tile_loadd(6, left + TILE * k, 64);
        _tile_loadd(7, right + TILE * k, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums[0], 64);
    _tile_stored(1, sums[1], 64);
    _tile_stored(2, sums[2], 64);
    _tile_stored(3, sums[3], 64);
}

static void hidden_layer(const bf16 *x, int rows, int in, int out, const bf16 *weight, const float *bias, bf16 *y) {
    float sums[4][TILE * TILE] __attribute__((aligned(64)));
    for (int column = 0; column < out; column += PAIR)
        for (int row = 0; row < rows; row += PAIR) {
            multiply(x + row * in, in, weight + column * in, bias + column, sums);
            for (int i = 0; i < PAIR; i++) {
                const float *of_row = sums[i / TILE * 2] + i % TILE * TILE;
                __m512 left = silu(_mm512_load_ps(of_row)), right = silu(_mm512_load_ps(of_row + TILE * TILE));
                _mm512_store_si512(y + (row + i) * out + column, (__m512i)_mm512_cvtne2ps_pbh(right, left));
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
    const struct ensemble *net, const bf16 *x, int rows, const bf16 *weight, const float *bias, int bounded, float *y
) {
    float sums[4][TILE * TILE] __attribute__((aligned(64)));
    int in = net->width[net->hidden], targets = net->targets;
    for (int column = 0; column < targets; column += PAIR)
        for (int row = 0; row < rows; row += PAIR) {
            multiply(x + row * in, in, weight + column * in, bias + column, sums);
            for (int i = 0; i < PAIR && row + i < rows; i++)
                for (int begin = column; begin < targets && begin < column + PAIR; begin += TILE) {
                    __mmask16 here = first(targets - begin);
                    __m512 value = _mm512_load_ps(sums[i / TILE * 2 + (begin > column)] + i % TILE * TILE);
                    if (bounded) value = deviation(net, value, begin, here);
                    _mm512_mask_storeu_ps(y + (row + i) * targets + begin, here, value);
                }
        }
}

/* Locations and scales [rows, targets] of at most BLOCK rows of a member; memory for two layers' activations. */
static void block(
    const struct ensemble *net, const float *inputs, const float *latents, int rows, const bf16 *weight,
    const float *bias, bf16 *x, bf16 *y, float *location, float *scale
) {
    int in = net->width[0];
    memset(x, 0, BLOCK * in * sizeof(bf16));
    for (int i = 0; i < rows; i++) {
        bf16 *row = x + i * in;
        normalise(inputs + i * net->inputs, net->mean, net->reciprocal, net->inputs, row);
        normalise(latents + i * net->latents, net->mean + net->inputs, net->reciprocal + net->inputs, net->latents,
                  row + net->inputs);
    }
    for (int i = 0; i < net->hidden; i++) {
        int out = net->width[i + 1];
        hidden_layer(x, rows, in, out, weight, bias, y);
        bf16 *taken = x;
        x = y;
        y = taken;
        weight += in * out;
        bias += out;
        in = out;
    }
    output(net, x, rows, weight, bias, 0, location);
    int targets = net->width[net->hidden + 1];
    output(net, x, rows, weight + in * targets, bias + targets, 1, scale);
}

/* Blocks of rows, begin <= i < end, of all members' in turn, [M, rows, ...]: 0, or 1 where there is no memory. */
int forward(
    const struct ensemble *net, const float *inputs, const float *latents, float *location, float *scale, int64_t rows,
    int64_t begin, int64_t end
) {
    int widest = 0;
    for (int i = 0; i <= net->hidden; i++)
        if (net->width[i] > widest) widest = net->width[i];
    bf16 *memory = aligned_alloc(64, 2 * BLOCK * widest * sizeof(bf16));
    if (!memory) return 1;
    int64_t blocks = (rows + BLOCK - 1) / BLOCK; /* of a member */
    configure_tiles();
    for (int64_t i = begin; i < end; i++) {
        int64_t member = i / blocks, of_member = i % blocks * BLOCK, row = member * rows + of_member;
        int count = rows - of_member < BLOCK ? (int)(rows - of_member) : BLOCK;
        block(net, inputs + row * net->inputs, latents + row * net->latents, count,
              net->weights + member * net->weights_each, net->biases + member * net->biases_each, memory,
              memory + BLOCK * widest, location + row * net->targets, scale + row * net->targets);
    }
    _tile_release();
    free(memory);
    return 0;
}
