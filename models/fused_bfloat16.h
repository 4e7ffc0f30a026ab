/* bfloat16 on the matrix unit of a processor (Intel AMX), which multiplies tiles of 16 rows. */
#include <sys/syscall.h>
#include <unistd.h>

typedef uint16_t number;

enum { TILE = 16, PANEL = 2 * TILE, BLOCK = 64 };

/* A layer's weights [in, out] lie as [out / 16, in / 2, 16, 2], with in filled up. */
static int depth(int in) { return filled(in); }

/* Linux gives a process the unit's registers on request: 0 if it does. */
int request(void) {
    const int ask_for_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return (int)syscall(SYS_arch_prctl, ask_for_permission, tile_data);
}

static void prepare(void) {
    struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.bytes[i] = 64;
        tiles.rows[i] = TILE;
    }
    _tile_loadconfig(&tiles);
}

static void finish(void) { _tile_release(); }

static void store(number *to, __m512 left, __m512 right) {
    _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(right, left));
}

static void store_some(number *to, __mmask16 which, __m512 x) {
    _mm256_mask_storeu_epi16(to, which, (__m256i)_mm512_cvtneps_pbh(x));
}

/* 1 / (1 + exp(-x)), to 14 bits: bfloat16 has 8. Far left, where exp(-x) is infinite, it is 0. */
static __m512 sigmoid(__m512 x) {
    __m512 power = _mm512_mul_ps(x, _mm512_set1_ps(-1.44269504f)); /* exp(-x) = 2^power */
    /* Of a NaN and a number these give the second: what is not a number stays so. */
    power = _mm512_max_ps(_mm512_set1_ps(-200.0f), _mm512_min_ps(_mm512_set1_ps(200.0f), power));
    __m512 whole = _mm512_roundscale_ps(power, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 rest = _mm512_sub_ps(power, whole); /* in [-1/2, 1/2], where Taylor's polynomial is good to 2^-14 */
    __m512 series = _mm512_set1_ps(0.00961813f);
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.05550411f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.24022651f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(0.69314718f));
    series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(1.0f));
    return _mm512_rcp14_ps(_mm512_add_ps(_mm512_scalef_ps(series, whole), _mm512_set1_ps(1.0f)));
}

/* bias + x weight: two tiles of rows times two of columns. */
static void multiply(const number *x, int in, const number *weight, const float *bias, int columns, float *sums) {
    (void)columns; /* those that are only filled up cost little */
    int row = depth(in);
    const number *left = weight, *right = weight + TILE * row;
    _tile_loadd(0, bias, 0); /* a stride of 0: every row of the tile is the bias */
    _tile_loadd(1, bias + TILE, 0);
    _tile_loadd(2, bias, 0);
    _tile_loadd(3, bias + TILE, 0);
    for (int k = 0; k < row; k += 32) {
        _tile_loadd(4, x + k, 2 * row);
        _tile_loadd(5, x + TILE * row + k, 2 * row);
        _tile_loadd(6, left + TILE * k, 64);
        _tile_loadd(7, right + TILE * k, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    const int stride = COLUMNS * sizeof(float);
    _tile_stored(0, sums, stride);
    _tile_stored(1, sums + TILE, stride);
    _tile_stored(2, sums + TILE * COLUMNS, stride);
    _tile_stored(3, sums + TILE * COLUMNS + TILE, stride);
}
