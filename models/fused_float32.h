/* float32 on vectors of 16 (AVX-512). */

typedef float number;

enum { PANEL = 12, BLOCK = 4 * PANEL }; /* the sums of 12 rows fill 24 of 32 registers */

/* A layer's weights [in, out] lie as [out / 32, in, 32]. */
static int depth(int in) { return in; }

int request(void) { return 0; }

static void prepare(void) {}

static void finish(void) {}

static void store(number *to, __m512 left, __m512 right) {
    _mm512_store_ps(to, left);
    _mm512_store_ps(to + LANES, right);
}

static void store_some(number *to, __mmask16 which, __m512 x) { _mm512_mask_storeu_ps(to, which, x); }

/* 1 / (1 + exp(-x)), with Cephes's polynomial for exp, and a reciprocal that one step of Newton's makes exact. Far
 * left, where exp(-x) is infinite, it is 0. */
static __m512 sigmoid(__m512 x) {
    /* Of a NaN and a number these give the second: what is not a number stays so. */
    x = _mm512_max_ps(_mm512_set1_ps(-150.0f), _mm512_min_ps(_mm512_set1_ps(150.0f), x));
    __m512 power = _mm512_mul_ps(x, _mm512_set1_ps(-1.44269504f)); /* exp(-x) = 2^power */
    __m512 whole = _mm512_roundscale_ps(power, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 rest = _mm512_fnmsub_ps(whole, _mm512_set1_ps(0.693359375f), x); /* exp(-x) = 2^whole exp(rest) */
    rest = _mm512_fmadd_ps(whole, _mm512_set1_ps(2.12194440e-4f), rest); /* ln 2 in two parts */
    __m512 series = _mm512_set1_ps(1.9875691500e-4f);
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.3981999507e-3f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(8.3334519073e-3f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(4.1665795894e-2f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.6666665459e-1f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(5.0000001201e-1f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.0f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.0f));
    __m512 sum = _mm512_add_ps(_mm512_scalef_ps(series, whole), _mm512_set1_ps(1.0f));
    __m512 reciprocal = _mm512_rcp14_ps(sum);
    __mmask16 finite = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(__builtin_inff()), _CMP_NEQ_UQ);
    return _mm512_maskz_mul_ps(finite, reciprocal, _mm512_fnmadd_ps(sum, reciprocal, _mm512_set1_ps(2.0f)));
}

/* bias + x weight for the first half of the columns, and for the second where it is wanted. */
static inline __attribute__((always_inline)) void
multiply_halves(const number *x, int in, const number *weight, const float *bias, int halves, float *sums) {
    __m512 left[PANEL], right[PANEL];
    int row = filled(in);
#pragma GCC unroll 12
    for (int i = 0; i < PANEL; i++) {
        left[i] = _mm512_loadu_ps(bias);
        right[i] = _mm512_loadu_ps(bias + LANES);
    }
    for (int k = 0; k < in; k++) {
        __m512 of_left = _mm512_loadu_ps(weight + k * COLUMNS), of_right = _mm512_loadu_ps(weight + k * COLUMNS + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < PANEL; i++) {
            __m512 value = _mm512_set1_ps(x[i * row + k]);
            left[i] = _mm512_fmadd_ps(value, of_left, left[i]);
            if (halves > 1) right[i] = _mm512_fmadd_ps(value, of_right, right[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < PANEL; i++) {
        _mm512_store_ps(sums + i * COLUMNS, left[i]);
        _mm512_store_ps(sums + i * COLUMNS + LANES, right[i]);
    }
}

static void multiply(const number *x, int in, const number *weight, const float *bias, int columns, float *sums) {
    if (columns > LANES)
        multiply_halves(x, in, weight, bias, 2, sums);
    else
        multiply_halves(x, in, weight, bias, 1, sums); /* the second half is the bias of what is filled up: 0 */
}
